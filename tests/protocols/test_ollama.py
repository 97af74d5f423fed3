"""Ollama's surfaces: their frames, their errors, and what they pass of an upstream's errors."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import ollama
import pytest

from llmgate import errors
from llmgate.core.line import Position
from llmgate.protocols.ollama import OllamaChatSurface, OllamaEmbedSurface, OllamaGenerateSurface, OllamaSurface
from tests.protocols.streams import opening
from tests.protocols.test_openai import TYPES as ERRORS

CHAT, GENERATE, EMBED = OllamaChatSurface(), OllamaGenerateSurface(), OllamaEmbedSurface()
EVERY = pytest.mark.parametrize("surface", [CHAT, GENERATE, EMBED], ids=lambda surface: surface.name)
POSITION = Position(position=2, depth=3, waited_ms=1200, eta_ms=4000)


def test_a_position_is_an_empty_part_of_the_route() -> None:
    assert CHAT.queue_frame(POSITION, opening()) == (
        b'{"model":"m","created_at":"2026-11-30T10:20:30Z","message":{"role":"assistant","content":""},"done":false,'
        b'"queue":{"position":2,"depth":3}}\n'
    )
    assert GENERATE.queue_frame(POSITION, opening()) == (
        b'{"model":"m","created_at":"2026-11-30T10:20:30Z","response":"","done":false,'
        b'"queue":{"position":2,"depth":3}}\n'
    )


def test_the_state_of_the_upstream_stands_beside_the_position() -> None:
    down = Position(position=2, depth=3, waited_ms=1200, state="upstream_down")
    assert CHAT.queue_frame(down, opening()).endswith(b'"queue":{"position":2,"depth":3,"state":"upstream_down"}}\n')


@EVERY
def test_a_sign_of_life_is_one_blank(surface: OllamaSurface) -> None:
    assert surface.heartbeat(POSITION, opening()) == surface.heartbeat(None, opening()) == b" "
    assert surface.queue_frame(POSITION, opening("comments")) == b" "


@EVERY
@pytest.mark.parametrize("name", ERRORS)
def test_errors(surface: OllamaSurface, name: str) -> None:
    error = getattr(errors, name)("llmgate: what happened (CODE)")
    shaped = b'{"error":"llmgate: what happened (CODE)"}'
    assert surface.error_body(error, "req_1") == shaped
    assert surface.error_frame(error, "req_1") == shaped + b"\n"


def test_any_text_becomes_one_line() -> None:
    frame = CHAT.error_frame(errors.BadRequest('a\n"b"\r\n\x1b\ud800 sk-abcdefghijkl'), "req_1")
    assert frame.count(b"\n") == 1
    assert json.loads(frame) == {"error": 'a\n"b"\r\n ***'}


@pytest.mark.parametrize(
    "body", [b'{"error":"model \'x\' not found"}', b'{\n "error": "m",\n "status_code": 404\n}\n', b'{"error":"x"}']
)
def test_an_upstream_error_in_shape_passes_untouched(body: bytes) -> None:
    assert CHAT.upstream_error_body(404, body, "req_1") == (404, body)
    frame = CHAT.upstream_error_frame(404, body, "req_1")
    assert frame.count(b"\n") == 1
    assert frame.endswith(b"\n")
    assert json.loads(frame) == json.loads(body)


@pytest.mark.parametrize(
    ("status", "body", "kept", "message"),
    [
        (404, b'{"error":{"message":"File Not Found","type":"not_found_error","code":404}}', 404, "File Not Found"),
        (500, b'{"error":{"message":"[json.exception.x] y","type":"server_error"}}', 400, "[json.exception.x] y"),
        (401, b'{"error":"no: Bearer abc"}', 401, "no: Bearer ***"),
        (422, b'{"detail":[{"msg":"Field required"}]}', 422, "Field required"),
        (503, b"busy", 503, "busy"),
        (302, b"moved", 502, "moved"),
    ],
)  # fmt: skip
@EVERY
def test_an_upstream_error_of_another_shape(
    surface: OllamaSurface, status: int, body: bytes, kept: int, message: str
) -> None:
    shaped = json.dumps({"error": message}, separators=(",", ":")).encode()
    assert surface.upstream_error_body(status, body, "req_1") == (kept, shaped)
    assert surface.upstream_error_frame(status, body, "req_1") == shaped + b"\n"


@pytest.mark.parametrize("told", [b"", b',"stream":true', b',"stream":false'])
def test_embeddings_never_stream(told: bytes) -> None:
    request = EMBED.read_request(b'{"model":"m","input":"hi"' + told + b"}")
    assert (request.model, request.stream) == ("m", False)


PART = b'{"model":"m","response":"a","done":false}\n'
OWN = b'{"error":"gone"}\n'


@pytest.mark.parametrize(
    ("line", "passed"),
    [
        (OWN, OWN),
        (b'  {"model":"m","error":"x","done":false}\n', b'  {"model":"m","error":"x","done":false}\n'),
        (b'{"error":{"message":"gone","code":500}}\n', OWN),
        (b'{"object":"error","message":"gone"}\n', OWN),
        (b'{"type":"error","error":{"message":"gone"}}\n', OWN),
        (b'{"model":"m","\\u0065rror":{"message":"gone"},"done":false}\n', OWN),
    ],
)
def test_an_error_of_a_foreign_shape_in_a_stream_is_told_in_ours(line: bytes, passed: bytes) -> None:
    for first in (b"", PART):
        stream = first + line + PART + b'{"done":true}'
        for size in (1, 7, len(stream)):
            watch = CHAT.watch("req_1")
            got = b"".join(watch.feed(stream[start : start + size]) for start in range(0, len(stream), size))
            got += watch.finish()
            assert got == (stream + b"\n" if passed == line else first + passed)
            assert watch.failed
            assert watch.feed(PART) == b""


def test_after_an_error_of_its_own_no_error_of_ours_is_told() -> None:
    watch = CHAT.watch()
    stream = OWN + b'{"error":{"message":"m"}}\n' + PART
    assert watch.feed(stream) == stream
    assert watch.failed


def test_what_waits_before_the_error_is_no_hindrance() -> None:
    """Blanks, a position and the error, as a client reads them line by line."""
    error = errors.QueueTimeout("llmgate: waited too long (QUEUE_TIMEOUT)")
    stream = (
        CHAT.queue_frame(POSITION, opening()) + CHAT.heartbeat(POSITION, opening()) * 3 + CHAT.error_frame(error, "")
    )
    part, last = map(json.loads, stream.splitlines())
    assert (part["done"], part["queue"]) == (False, {"position": 2, "depth": 3})
    assert last == {"error": str(error)}


# ---- Ollama's own client


PART = (
    b'{"model":"m","created_at":"2026-11-30T10:20:30Z","message":{"role":"assistant","content":"Hello"},"done":false}\n'
)
DONE = b'{"model":"m","created_at":"2026-11-30T10:20:31Z","message":{"role":"assistant","content":""},"done":true}\n'
GENERATED = b'{"model":"m","response":"Hello","done":false}\n{"model":"m","response":"","done":true}\n'
TIMEOUT = errors.QueueTimeout("llmgate: waited too long (QUEUE_TIMEOUT)")


def waited(surface: OllamaSurface) -> bytes:
    told = surface.queue_frame(POSITION, opening())
    return told + surface.heartbeat(POSITION, opening()) * 2 + told + surface.heartbeat(None, opening())


@pytest.fixture
def ask() -> Callable[..., Any]:
    """An official client that gets this answer."""

    def make(content: bytes, status: int = 200) -> Any:
        transport = httpx.MockTransport(lambda request: httpx.Response(status, content=content))
        return ollama.Client(host="http://gate/llm", transport=transport)

    return make


def test_the_client_reads_a_queued_stream(ask: Callable[..., Any]) -> None:
    parts = list(ask(waited(CHAT) + PART + DONE).chat(model="m", messages=[], stream=True))
    assert "".join(part.message.content for part in parts) == "Hello"
    assert [part.done for part in parts] == [False, False, False, True]
    generated = list(ask(waited(GENERATE) + GENERATED).generate(model="m", prompt="hi", stream=True))
    assert "".join(part.response for part in generated) == "Hello"


def test_the_client_raises_on_an_error_in_the_stream(ask: Callable[..., Any]) -> None:
    for frame in (CHAT.error_frame(TIMEOUT, ""), CHAT.upstream_error_frame(500, b"(QUEUE_TIMEOUT)", "")):
        with pytest.raises(Exception, match="QUEUE_TIMEOUT") as caught:
            list(ask(waited(CHAT) + PART + frame).chat(model="m", messages=[], stream=True))
        assert type(caught.value).__name__ == "ResponseError"


@pytest.mark.parametrize("stream", [False, True])
def test_the_client_shows_the_message_of_an_error_body(ask: Callable[..., Any], stream: bool) -> None:
    body = CHAT.error_body(errors.QueueFull("llmgate: the queue of upstream a is full (QUEUE_FULL)"), "req_1")
    with pytest.raises(Exception, match="the queue of upstream a is full") as caught:
        list(ask(body, 503).chat(model="m", messages=[], stream=stream))
    assert caught.value.status_code == 503  # type: ignore[attr-defined]
