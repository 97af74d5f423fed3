"""What the server may rely on of every surface."""

import pytest

from llmgate.core.line import Position
from llmgate.protocols.surface import ModelRequest, QueuePosition, Surface
from llmgate.protocols.surfaces import SURFACES


def test_a_request_is_frozen() -> None:
    request = ModelRequest(model="m", stream=True, body=b"{}")
    assert (request.session, request.purpose) == ("", "")
    with pytest.raises(AttributeError):
        request.model = "other"  # type: ignore[misc]


@pytest.mark.parametrize("surface", SURFACES.values(), ids=lambda surface: surface.name)
def test_positions_of_the_core_fit(surface: Surface) -> None:
    position: QueuePosition = Position(position=1, depth=1, waited_ms=0)
    assert surface.queue_frame(position).endswith(b"\n\n")
    assert surface.heartbeat(position) == b": queue 1/1\n\n"
    assert surface.heartbeat(None) == b": working\n\n"


@pytest.mark.parametrize("surface", SURFACES.values(), ids=lambda surface: surface.name)
def test_each_watch_is_new(surface: Surface) -> None:
    first, second = surface.watch(), surface.watch()
    first.feed(b"data: x\n\n")
    assert first.started
    assert not second.started
    assert (second.complete, second.failed, second.inside_event, second.opened) == (False, False, False, False)
    assert (second.output_tokens, second.input_tokens) == (0, None)


@pytest.mark.parametrize("surface", SURFACES.values(), ids=lambda surface: surface.name)
def test_requests_are_read_and_readdressed(surface: Surface) -> None:
    body = b'{"stream":true,"model":"fast"}'
    assert surface.read_request(body).model == "fast"
    assert surface.with_model(body, "qwen2.5:3b-instruct") == b'{"stream":true,"model":"qwen2.5:3b-instruct"}'
