"""Faults: what is one, its status, and that the surface can tell it."""

import json
from typing import Any

import pytest

from llmgate.protocols.anthropic import MessagesSurface
from llmgate.protocols.completions import CompletionsSurface
from llmgate.protocols.fault import fault_status, is_fault
from llmgate.protocols.ollama import OllamaChatSurface
from llmgate.protocols.openai import ChatSurface
from llmgate.protocols.responses import ResponsesSurface
from llmgate.protocols.surface import StreamWatch, Surface
from llmgate.protocols.translate.request import Options
from llmgate.protocols.translate.way import Translated


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ({"error": {"message": "x"}}, True),
        ({"error": "x"}, True),
        ({"error": {}}, True),
        ({"error": {}, "choices": []}, False),
        ({"error": None}, False),
        ({"error": None, "choices": []}, False),
        ({"error": {"message": "x"}, "choices": []}, True),
        ({"object": "error", "message": "x"}, True),
        ({"type": "error"}, True),
        ({"object": "chat.completion.chunk"}, False),
        ({}, False),
    ],
)
def test_what_is_a_fault(document: dict[str, Any], fault: bool) -> None:
    assert is_fault(document) is fault


@pytest.mark.parametrize(
    ("document", "status"),
    [
        ({"error": {"code": 503}}, 503),
        ({"error": {"code": "429"}}, 429),
        ({"error": {"code": "rate_limit_exceeded"}}, 429),
        ({"error": {"code": None, "type": "invalid_request_error"}}, 400),
        ({"error": {"status_code": 404}}, 404),
        ({"error": {"status": 401}}, 401),
        ({"error": {"code": 200, "type": "overloaded_error"}}, 503),
        ({"error": {"code": "999", "type": "x"}}, 500),
        ({"error": {"code": "٤٠٤"}}, 404),
        ({"error": "x", "code": 413}, 413),
        ({"object": "error", "code": 400, "type": "BadRequestError"}, 400),
        ({"object": "error", "type": "BadRequestError"}, 400),
        ({}, 500),
        ({"error": [1]}, 500),
    ],
)
def test_its_status(document: dict[str, Any], status: int) -> None:
    assert fault_status(document) == status


def test_an_error_answer_of_llama_server_on_this_surface() -> None:
    told = {
        "code": 400,
        "message": "request (5024 tokens) exceeds the available context size (2048 tokens), try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 5024,
        "n_ctx": 2048,
    }
    status, body = MessagesSurface().upstream_error_body(400, json.dumps({"error": told}).encode(), "req_1")
    message = "prompt is too long: 5024 tokens > 2048 maximum"
    assert (status, json.loads(body)) == (
        400,
        {"type": "error", "error": {"type": "invalid_request_error", "message": message}, "request_id": "req_1"},
    )


OURS = b"our-very-own-key"
"""What the server was sent as its key."""


def hides(said: bytes) -> bytes:
    return said.replace(OURS, b"***")


TELLINGS: dict[str, tuple[Surface, str]] = {
    "messages": (
        MessagesSurface(),
        'event: error\ndata: {"type":"error","error":{"type":"x","message":"%s"},"a":1.0}\n\n',
    ),
    "messages in lines": (
        MessagesSurface(),
        'event: error\r\n: a comment\r\ndata: {"type":"error", "error":\r\ndata:{"type":"x","message":"%s"}}\r\n\r\n',
    ),
    "chat": (ChatSurface(), 'data: {"error":{"message":"%s","type":"x","param":null,"code":"c"}}\n\n'),
    "completions": (
        CompletionsSurface(),
        'data: {"error": {"message": "%s", "type": "x", "param": null, "code": 1}}\n\n',
    ),
    "responses": (
        ResponsesSurface(),
        'event: error\ndata: {"type":"error","code":"c","message":"%s","error":{"message":"m"}}\n\n',
    ),
    "responses, failed": (
        ResponsesSurface(),
        'event: response.failed\ndata: {"type":"response.failed","response":{"error":{"message":"%s"}}}\n\n',
    ),
    "ollama": (OllamaChatSurface(), '{"error":"%s","done":false, "a":[1.50]}\n'),
}
"""Each an error in the surface's own shape, which passes as it is."""
ALL = pytest.mark.parametrize("telling", TELLINGS.values(), ids=TELLINGS)


def passed(telling: tuple[Surface, str], message: str) -> bytes:
    watch = telling[0].watch("req_1")
    watch.hides = hides
    out = watch.feed((telling[1] % message).encode()) + watch.finish()
    assert watch.failed
    return out


@ALL
@pytest.mark.parametrize("message", ["no luck", "wei\u00df nicht", "\\u0041 \\n", "sk-", "bearer", "the key is 7"])
def test_an_error_without_a_secret_passes_to_the_byte(telling: tuple[Surface, str], message: str) -> None:
    assert passed(telling, message) == (telling[1] % message).encode()


@ALL
@pytest.mark.parametrize(
    "secret",
    [OURS.decode(), "sk-proj-abcdefgh", "Bearer abc.def-ghi", "api_key=tops3cret", "http://me:tops3cret@host/"],
)
def test_of_an_error_with_a_secret_every_other_byte_passes(telling: tuple[Surface, str], secret: str) -> None:
    before, after = (telling[1] % "wei\u00df: @ \\u0041").encode().split(b"@")
    out = passed(telling, f"wei\u00df: {secret} \\u0041")
    assert out.startswith(before)
    assert out.endswith(after)
    hidden = out[len(before) : len(out) - len(after)]
    assert b"***" in hidden
    for piece in (OURS, b"abcdefgh", b"abc.def", b"tops3cret"):
        assert piece not in hidden


@ALL
@pytest.mark.parametrize("secret", ["\\u006fur-very-own-key", "s\\u006b-proj-abcdefgh", "api_key\\u003dtops3cret"])
def test_one_that_hides_behind_escapes_is_told_in_a_frame_of_ours(telling: tuple[Surface, str], secret: str) -> None:
    out = passed(telling, f"no: {secret}")
    assert out != (telling[1] % f"no: {secret}").encode()
    text = json.dumps([json.loads(line.partition(b"data: ")[2] or line) for line in out.split(b"\n") if b"{" in line])
    for piece in (OURS.decode(), "abcdefgh", "tops3cret"):
        assert piece not in text


def test_one_that_is_no_string_is_told_in_a_frame_of_ours() -> None:
    watch = ChatSurface().watch()
    out = watch.feed(b'data: {"error":{"message":"m","type":"x","param":null,"code":"c","api_key":12345678}}\n\n')
    assert b"12345678" not in out
    assert json.loads(out.split(b"\n")[0].removeprefix(b"data: "))["error"]["message"] == "m"


def test_a_second_error_is_masked_as_well() -> None:
    watch = ChatSurface().watch()
    first = b'data: {"error":{"message":"m","type":"x","param":null,"code":"c"}}\n\n'
    assert watch.feed(first) == first
    assert watch.feed(b'data: {"error":"sk-proj-abcdefgh"}\n\n') == b'data: {"error":"***"}\n\n'


def watches() -> list[StreamWatch]:
    request = b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"stream":true}'
    return [ChatSurface().watch(), Translated(request, Options(model="m"), "req_1").watch()]


@pytest.mark.parametrize("number", [0, 1], ids=["chat", "translated"])
@pytest.mark.parametrize(
    "said", [b'{"error":"no: our-very-own-key"}', b'{"error":"no: \\u006fur-very-own-key"}', b"no: our-very-own-key"]
)
def test_an_error_of_a_foreign_shape_tells_no_key_of_the_servers(number: int, said: bytes) -> None:
    watch = watches()[number]
    watch.hides = hides
    assert watch.hides is hides
    out = watch.feed(b"event: error\ndata: " + said + b"\n\n")
    assert b"no: ***" in out
    assert watch.failed
