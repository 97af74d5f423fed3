"""What the server may rely on of every surface."""

import json

import pytest

from llmgate.core.line import Position
from llmgate.errors import BadRequest, QueueTimeout
from llmgate.protocols.surface import Manner, ModelRequest, QueuePosition, Surface
from llmgate.protocols.surfaces import SURFACES
from tests.protocols.streams import opening

EVERY = pytest.mark.parametrize("surface", SURFACES.values(), ids=lambda surface: surface.name)
OLLAMA = {"ollama-chat", "ollama-generate", "ollama-embed"}
OPENAI = {"chat", "completions", "responses", "embeddings", "rerank"}
STREAMLESS = {"embeddings", "rerank", "ollama-embed"}


def test_a_request_is_frozen() -> None:
    request = ModelRequest(model="m", stream=True, body=b"{}")
    assert (request.session, request.purpose) == ("", "")
    with pytest.raises(AttributeError):
        request.model = "other"  # type: ignore[misc]


@EVERY
@pytest.mark.parametrize("manner", ["frames", "comments", "chunks"])
def test_positions_of_the_core_fit(surface: Surface, manner: Manner) -> None:
    position: QueuePosition = Position(position=1, depth=1, waited_ms=0)
    told = surface.queue_frame(position, opening(manner))
    signs = surface.heartbeat(position, opening(manner)), surface.heartbeat(None, opening(manner))
    if surface.name in OLLAMA:
        assert told.endswith(b" " if manner == "comments" else b"\n")
        assert signs == (b" ", b" ")
    elif manner == "chunks" and surface.name in ("chat", "completions"):
        assert all(sign.startswith(b"data: {") and sign.endswith(b"}\n\n") for sign in (told, *signs))
    else:
        assert told.endswith(b"\n\n")
        assert signs == (b": queue 1/1\n\n", b": working\n\n")
        assert told == signs[0] or (surface.name, manner != "comments") == ("messages", True)


@EVERY
@pytest.mark.parametrize("manner", ["frames", "comments", "chunks"])
def test_a_state_is_told_in_frames_and_changes_no_sign_of_life(surface: Surface, manner: Manner) -> None:
    """Comments and blanks are for clients that do not read them."""
    up = Position(position=1, depth=2, waited_ms=0)
    down = Position(position=1, depth=2, waited_ms=0, state="upstream_down")
    told, told_before = surface.queue_frame(down, opening(manner)), surface.queue_frame(up, opening(manner))
    has_fields = told_before.strip()[:1] not in (b"", b":")
    assert (b'"state":"upstream_down"' in told) == has_fields
    assert (told == told_before) != has_fields
    assert b"state" not in told_before
    if not has_fields:
        assert surface.heartbeat(down, opening(manner)) == surface.heartbeat(up, opening(manner))


@EVERY
def test_each_watch_is_new(surface: Surface) -> None:
    first, second = surface.watch(), surface.watch()
    first.feed(b"data: x\n\n")
    assert first.started
    assert not second.started
    assert (second.complete, second.failed, second.inside_event, second.opened) == (False, False, False, False)
    assert (second.output_tokens, second.input_tokens) == (0, None)


@EVERY
def test_frames_of_ours_are_no_part_of_an_answer(surface: Surface) -> None:
    """Where llmgate is the upstream of another llmgate, only what looks like a part of the answer counts as one."""
    watch, position = surface.watch(), Position(position=1, depth=1, waited_ms=0)
    for sign in (surface.heartbeat(position, opening()), surface.heartbeat(None, opening())):
        assert watch.feed(sign) == b""
    assert not watch.started
    watch.feed(surface.queue_frame(position, opening()))
    assert (watch.complete, watch.failed) == (False, False)


@EVERY
def test_an_error_of_ours_is_known_as_one(surface: Surface) -> None:
    watch = surface.watch()
    frame = surface.error_frame(QueueTimeout("llmgate: waited too long (QUEUE_TIMEOUT)"), "req_1")
    assert watch.feed(frame) == frame
    assert (watch.failed, watch.started, watch.inside_event) == (True, True, False)


@EVERY
def test_a_stream_is_known_by_its_type(surface: Surface) -> None:
    ollama = surface.name in OLLAMA
    assert surface.stream_type == (b"application/x-ndjson" if ollama else b"text/event-stream; charset=utf-8")
    assert surface.is_stream(surface.stream_type)
    assert surface.is_stream(surface.stream_type.upper())
    for other in SURFACES.values():
        assert surface.is_stream(other.stream_type) is ((other.name in OLLAMA) is ollama)
    assert not surface.is_stream(b"application/json")
    assert not surface.is_stream(b"")


def test_the_setting_is_about_openais_surfaces() -> None:
    assert {surface.name for surface in SURFACES.values() if surface.follows_keepalive} == OPENAI


@EVERY
def test_requests_are_read_and_readdressed(surface: Surface) -> None:
    body = b'{"stream":true,"model":"fast"}'
    request = surface.read_request(body)
    assert (request.model, request.body) == ("fast", body)
    assert surface.with_model(body, "qwen2.5:3b-instruct") == b'{"stream":true,"model":"qwen2.5:3b-instruct"}'


@EVERY
@pytest.mark.parametrize(("told", "stream"), [("true", True), ("false", False), ("null", None), ("", None)])
def test_whether_it_streams(surface: Surface, told: str, stream: bool | None) -> None:
    body = b'{"model":"m"' + (f',"stream":{told}' if told else "").encode() + b"}"
    wished = surface.name in OLLAMA if stream is None else stream
    assert surface.read_request(body).stream is (wished and surface.name not in STREAMLESS)


@EVERY
@pytest.mark.parametrize("body", [b"{", b"[]", b"{}", b'{"model":""}', b'{"model":"m","stream":1}', b"\xff"])
def test_what_cannot_be_read_is_refused_in_its_shape(surface: Surface, body: bytes) -> None:
    with pytest.raises(BadRequest) as caught:
        surface.read_request(body)
    told = json.loads(surface.error_body(caught.value, "req_1"))["error"]
    assert (told if surface.name in OLLAMA else told["message"]) == str(caught.value)
