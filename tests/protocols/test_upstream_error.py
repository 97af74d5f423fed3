"""Error answers of every shape are read."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.protocols.message import MOST
from llmgate.protocols.upstream_error import Overflow, read_upstream_error

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
        ({"error": {"message": VLLM}}, None),
        ({"error": {"message": "the context is too long", "n_ctx": 512}}, None),
    ],
)
def test_overflow(document: object, overflow: Overflow | None) -> None:
    assert read_upstream_error(400, json.dumps(document).encode()).overflow == overflow


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
