"""Error answers of every shape are read."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.errors import UpstreamFailed
from llmgate.protocols.message import MOST
from llmgate.protocols.upstream_error import Overflow, UpstreamTold, is_servers_fault, read_upstream_error

NO_REASON = "llmgate: the upstream answered with an error and gave no reason (UPSTREAM_ERROR)"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error":{"code":400,"message":"no such thing","type":"invalid_request_error"}}', "no such thing"),
        (b'{"type":"error","error":{"type":"api_error","message":"no such thing"}}', "no such thing"),
        (b'{"error":"no such thing"}', "no such thing"),
        (b'{"detail":"no such thing"}', "no such thing"),
        (b'{"detail":{"message":"no such thing"}}', "no such thing"),
        (b'{"detail":[{"loc":["body"],"msg":"no"},{"msg":"such thing"},{"msg":5},"x"]}', "no; such thing"),
        (b'{"object":"error","message":"no such thing","code":404}', "no such thing"),
        (b'"no such thing"', "no such thing"),
        (b"no such thing", "no such thing"),
        (b"\n no\r\nsuch \t thing\n", "no such thing"),
        (b"caf\xe9", "caf\ufffd"),
        ('{"error":"日本\\n語"}'.encode(), "日本\n語"),
        (b"", NO_REASON),
        (b" \n", NO_REASON),
        (b"{}", NO_REASON),
        (b"[]", NO_REASON),
        (b"5", NO_REASON),
        (b"null", "null"),
        (b'{"error":""}', NO_REASON),
        (b'{"error":"  "}', NO_REASON),
        (b'{"error":{"message":5}}', NO_REASON),
        (b'{"detail":[]}', NO_REASON),
        (b'{"foo":"bar"}', NO_REASON),
        (b"<html><head><title>502</title></head></html>", NO_REASON),
        (b"<!DOCTYPE HTML>\n<p>x", NO_REASON),
        (b'{"error":{"message":"<html>Bad Gateway</html>"}}', NO_REASON),
        (b'{"error":"key sk-abcdefghijklmnop is wrong"}', "key *** is wrong"),
        (b'{"error":"a\\u001b[31mb"}', "a[31mb"),
        (b"x" * 3_000, "x" * (MOST - 1) + "…"),
        (b'{"error":"' + b"x" * 300_000 + b'"}', NO_REASON),
        (b"[" * 60_000, "[" * (MOST - 1) + "…"),
    ],
)
def test_message(body: bytes, message: str) -> None:
    error = read_upstream_error(502, body)
    assert error.message == message
    assert error.status == 502


def test_our_own_sentence_holds_no_number_and_no_quota() -> None:
    assert not any(letter.isdigit() for letter in NO_REASON)
    assert "quota" not in NO_REASON


@pytest.mark.parametrize(
    ("status", "message", "kept"),
    [
        (400, "x", 400),
        (429, "x", 429),
        (500, "x", 500),
        (503, "x", 503),
        (599, "x", 599),
        (200, "x", 502),
        (302, "x", 502),
        (600, "x", 502),
        (500, "'messages' is required", 400),
        (500, "[json.exception.parse_error.101] parse error at line 1", 400),
        (502, "'messages' is required", 502),
        (500, "the server says 'messages' is required", 500),
    ],
)
def test_status(status: int, message: str, kept: int) -> None:
    error = read_upstream_error(status, json.dumps({"error": {"message": message}}).encode())
    assert error.status == kept
    assert error.untouched is (status == kept)


@pytest.mark.parametrize(
    ("body", "untouched"),
    [
        (b'{"error":{"message":"m"}}', True),
        (b' {"error" : {"message":"m\\n"}}\n', True),
        (b'{"error":{"message":"sk-abcdefgh"}}', False),
        (b'{"error":{"message":"see\\nsk-abcdefgh"}}', False),
        (b'{"error":{"message":"m","param":"Bearer abcdefgh"}}', False),
        (b'{"error":{"message":"' + b"m" * 2_001 + b'"}}', False),
        (b'{"error":{"message":"a\\u0000b"}}', False),
        (b'{"error":{"message":"<html>"}}', False),
        (b'{"error":{"message":""}}', False),
        (b"", False),
    ],
)
def test_untouched(body: bytes, untouched: bool) -> None:
    assert read_upstream_error(400, body).untouched is untouched


LLAMA = "request (2024 tokens) exceeds the available context size (512 tokens), try increasing it"
VLLM = "This model's maximum context length is 4096 tokens"


@pytest.mark.parametrize(
    ("document", "overflow"),
    [
        ({"error": {"code": 400, "message": LLAMA, "n_prompt_tokens": 2024, "n_ctx": 512}}, Overflow(2024, 512)),
        ({"error": {"message": "try increasing it", "n_prompt_tokens": 2024, "n_ctx": 512}}, Overflow(2024, 512)),
        ({"error": LLAMA}, Overflow(2024, 512)),
        (
            {"message": f"{VLLM}. However, you requested 5000 tokens (4000 in the messages, 1000 ...)"},
            Overflow(5000, 4096),
        ),
        ({"error": {"message": f"{VLLM}. However, your messages resulted in 5001 tokens."}}, Overflow(5001, 4096)),
        ({"message": f"{VLLM}. However, your request has 5000 input tokens."}, Overflow(5000, 4096)),
        ({"message": f"{VLLM} and your prompt contains at least 5000 input tokens."}, Overflow(5000, 4096)),
        ({"message": f"{VLLM}. It contains 5000 tokens."}, Overflow(5000, 4096)),
        (
            {
                "message": f"{VLLM}. However, you requested 2000 output tokens and your prompt contains at least 2097 "
                "input tokens, for a total of at least 4097 tokens. Please reduce the length of the input prompt."
            },
            Overflow(4097, 4096),
        ),
        (
            {
                "message": "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context "
                "length is 4096 tokens and your request has 3000 input tokens (2000 > 4096 - 3000)."
            },
            Overflow(5000, 4096),
        ),
        (
            {
                "message": "You passed 2097 input tokens and requested 2000 output tokens. However, the model's context"
                " length is only 4096 tokens, resulting in a maximum input length of 2096 tokens."
            },
            Overflow(4097, 4096),
        ),
        (
            {
                "message": "You passed 99000 input characters and requested 1 output tokens. However, the model's"
                " context length is only 4096 tokens."
            },
            None,
        ),
        (
            {
                "message": "The decoder prompt (length 12324) is longer than the maximum model length of 8192. "
                "Make sure that `max_model_len` is no smaller than the number of text tokens."
            },
            Overflow(12324, 8192),
        ),
        (
            {"message": "The input (5024 tokens) is longer than the model's context length (2048 tokens)."},
            Overflow(5024, 2048),
        ),
        (
            {
                "message": "Requested token count exceeds the model's maximum context length of 2048 tokens. You "
                "requested a total of 3000 tokens: 2000 tokens from the input messages and 1000 tokens for the "
                "completion."
            },
            Overflow(3000, 2048),
        ),
        (
            {
                "error": {
                    "message": "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in "
                    "300000 tokens. Please reduce the length of the messages.",
                    "code": "context_length_exceeded",
                }
            },
            Overflow(300000, 272000),
        ),
        ({"error": {"message": "no room", "code": "context_length_exceeded"}}, "no room"),
        ({"error": {"message": "prompt is too long: x", "code": "context_length_exceeded"}}, "x"),
        ({"message": "no room", "code": "context_length_exceeded"}, "no room"),
        ({"error": {"message": "no", "type": "exceed_context_size_error", "n_prompt_tokens": 5, "n_ctx": 5}}, "no"),
        ({"error": {"message": "no", "n_prompt_tokens": 5, "n_ctx": 5}}, None),
        ({"message": f"{VLLM}. However, you requested 4096 tokens."}, None),
        ({"message": f"{VLLM} and your request has 3 input tokens."}, None),
        ({"error": {"message": "no", "code": ["context_length_exceeded"]}}, None),
        ([], None),
        ({"error": {"message": VLLM}}, None),
        ({"error": {"message": "the context is too long", "n_ctx": 512}}, None),
    ],
)
def test_overflow(document: object, overflow: Overflow | str | None) -> None:
    assert read_upstream_error(400, json.dumps(document).encode()).overflow == overflow


def test_how_an_overflow_is_said() -> None:
    assert str(Overflow(9, 5)) == "9 tokens > 5 maximum"


def test_a_server_that_blames_itself_for_an_overflow() -> None:
    body = json.dumps({"error": {"message": LLAMA}}).encode()
    assert [read_upstream_error(status, body).status for status in (400, 413, 500, 503)] == [400, 413, 400, 503]
    assert not read_upstream_error(500, body).untouched


@given(st.sampled_from([VLLM, "context length is only 9", "n"]), st.lists(st.integers(0, 9999), max_size=3), st.data())
def test_an_overflow_is_one(start: str, numbers: list[int], data: st.DataObject) -> None:
    words = ["requested {} tokens", "has {} input tokens", "requested {} output tokens", "total of {}", "input ({} x)"]
    said = [data.draw(st.sampled_from(words)).format(number) for number in numbers]
    found = read_upstream_error(400, " ".join([start, *said]).encode()).overflow
    assert found is None or (isinstance(found, Overflow) and found.asked > found.most > 0)


# ---- told within an answer


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(400, "completed"), (404, "completed"), (429, "upstream_error"), (500, "upstream_error"), (302, "upstream_error")],
)
def test_an_error_that_was_told_within_an_answer(status: int, outcome: str) -> None:
    error = UpstreamTold(status, b'{"error":"slowly"}')
    assert (str(error), error.status, error.body, error.outcome) == ("slowly", status, b'{"error":"slowly"}', outcome)
    assert is_servers_fault(status) is (outcome != "completed")
    assert (UpstreamFailed.status, UpstreamFailed.outcome) == (502, "upstream_error")


shapes = st.sampled_from(["message", "error", "detail", "msg", "type", "code", "n_ctx", "n_prompt_tokens"])
documents = st.recursive(
    st.none() | st.integers() | st.text() | st.just("<html>"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(shapes, inner, max_size=3),
    max_leaves=8,
).map(lambda document: json.dumps(document).encode())


@given(st.integers(100, 999), st.binary() | documents)
def test_anything_is_read(status: int, body: bytes) -> None:
    error = read_upstream_error(status, body)
    assert error.message.strip()
    assert len(error.message) <= MOST
    assert "<html" not in error.message
    assert 400 <= error.status <= 599
    msgspec.json.encode(error.message)


def test_an_operator_is_told_none_of_the_words_of_an_answer() -> None:
    told = UpstreamTold(429, b'{"error":{"message":"too many from alice"}}')
    assert "alice" in str(told)
    assert told.reason == "its answer was an error, as of status 429"
