"""What is said to servers to learn a number of tokens, what they answer, and the number without them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.errors import BadRequest
from llmgate.protocols import counting
from llmgate.protocols.translate.request import translate

ASKED: dict[str, Any] = {
    "model": "m",
    "max_tokens": 5,
    "stream": True,
    "system": "be nice",
    "messages": [{"role": "user", "content": "hi"}],
    "tools": [{"name": "t", "input_schema": {"type": "object"}}],
    "tool_choice": {"type": "any"},
}


def encode(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"input_tokens":26}', 26),
        (b'{"input_tokens":26,"context_management":{"original_input_tokens":26}}', 26),
        (b'{"input_tokens":0}', 0),
        (b'{"input_tokens":-1}', None),
        (b'{"input_tokens":"26"}', None),
        (b'{"error":"Unexpected endpoint or method."}', None),
        (b"", None),
    ],
)
def test_the_servers_own_count(body: bytes, expected: int | None) -> None:
    assert counting.read_count(body) == expected


def test_the_answer() -> None:
    assert counting.render_count(26) == b'{"input_tokens":26}'


def test_a_tokenizer_is_told_nothing_that_asks_for_an_answer() -> None:
    chat = json.loads(counting.chat_of(translate(encode(ASKED)).body))
    assert chat.keys() == {"model", "messages", "tools"}
    assert [message["role"] for message in chat["messages"]] == ["system", "user"]
    assert chat["tools"][0]["function"]["name"] == "t"
    bare = json.loads(counting.chat_of(translate(encode({key: ASKED[key] for key in ("model", "messages")})).body))
    assert bare == {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def test_a_prompt_is_counted_as_the_model_gets_it() -> None:
    prompt = counting.read_prompt(b'{"prompt":"<|im_start|>hi"}')
    assert prompt == "<|im_start|>hi"
    assert json.loads(counting.text_of("m", prompt)) == {
        "model": "m",
        "content": prompt,
        "add_special": True,
        "parse_special": True,
    }
    assert counting.read_prompt(b'{"prompt":["hi"]}') is None
    assert counting.read_prompt(b"") is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"tokens":[2,23391,993]}', 3),
        (b'{"tokens":[{"id":2,"piece":"a"}]}', 1),
        (b'{"count":26,"max_model_len":4096,"tokens":[1,2]}', 26),
        (b'{"tokens":[]}', None),
        (b'{"count":0,"tokens":[1]}', None),
        (b'{"count":-4}', None),
        (b"{}", None),
        (b'{"error":"no"}', None),
        (b"", None),
    ],
)
def test_tokens(body: bytes, expected: int | None) -> None:
    assert counting.read_tokens(body) == expected


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, b'{"error":{"message":"roles must alternate"}}', True),
        (500, b'{"error":{"code":500,"message":"\'messages\' is required","type":"server_error"}}', True),
        (404, b'{"error":{"message":"The model `x` does not exist."}}', True),
        (401, b"no key", True),
        (413, b"", True),
        (422, b'{"detail":[{"msg":"Field required"}]}', True),
        (404, b"404 page not found", False),
        (405, b"", False),
        (501, b"", False),
        (408, b"", False),
        (429, b"", False),
        (500, b"broken", False),
        (503, b"Loading model", False),
        (302, b"", False),
        (200, b'{"error":{"message":"x"}}', False),
    ],
)
def test_who_is_to_blame(status: int, body: bytes, expected: bool) -> None:
    assert counting.blames_request(status, body) is expected


def test_an_estimate_is_four_bytes_a_token() -> None:
    body = encode({"model": "m", "messages": [{"role": "user", "content": "x" * 4000}]})
    assert 1000 <= counting.estimate_body(body) <= 1020


@pytest.mark.parametrize("kind", ["image", "document"])
def test_an_estimate_leaves_files_out(kind: str) -> None:
    def body(data: str) -> bytes:
        source = {"type": "base64", "media_type": "image/png", "data": data}
        content = [{"type": kind, "source": source}, {"type": "text", "text": "what is it?"}]
        return encode({"model": "m", "messages": [{"role": "user", "content": content}]})

    assert counting.estimate_body(body("iVBORw0KGgo+/_-=" * 10_000)) == counting.estimate_body(body(""))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"model":"m"}', "the body lacks messages"),
        (b'{"model":"m","messages":[]}', "the body holds no messages"),
        (b'{"model":"m","messages":"hi"}', "messages is not of the type that it must be"),
    ],
)
def test_without_messages_there_is_nothing_to_count(body: bytes, reason: str) -> None:
    with pytest.raises(BadRequest) as caught:
        counting.estimate_body(body)
    assert str(caught.value) == f"llmgate: {reason} (BAD_REQUEST)"


@given(body=st.binary(max_size=60), status=st.integers(100, 599))
def test_any_answer(body: bytes, status: int) -> None:
    for read in (counting.read_count, counting.read_prompt, counting.read_tokens):
        read(body)
    counting.blames_request(status, body)
