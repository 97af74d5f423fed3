"""An answer that is held until it is whole."""

import asyncio

import pytest

from llmgate.errors import GateError, UpstreamFailed
from llmgate.server.whole import Whole


class FakeAnswer:
    def __init__(self) -> None:
        self.closed_by: GateError | None = None

    def close(self, error: GateError | None = None) -> None:
        self.closed_by = error


def whole(limit: int = 100) -> tuple[Whole, FakeAnswer]:
    answer = FakeAnswer()
    return Whole(answer, limit), answer  # type: ignore[arg-type]


async def test_pieces_become_one_document() -> None:
    sink, _ = whole()
    sink.feed(b'{"a"')
    sink.feed(b":1}")
    assert sink.take_end()
    sink.end(None)
    assert await sink.wait_body() == b'{"a":1}'


@pytest.mark.parametrize("pieces", [[], [b'{"a":'], [b"data: {}\n\n"], [b"{}{}"], [b"\xff"], [b"[" * 100]])
async def test_what_is_no_document_is_an_error(pieces: list[bytes]) -> None:
    sink, _ = whole()
    for piece in pieces:
        sink.feed(piece)
    assert not sink.take_end()
    sink.end(None)
    with pytest.raises(UpstreamFailed, match="no JSON document"):
        await sink.wait_body()


async def test_what_broke_it_off_is_raised() -> None:
    sink, _ = whole()
    sink.feed(b"{}")
    sink.end(UpstreamFailed("broke off"))
    with pytest.raises(UpstreamFailed, match="broke off"):
        await sink.wait_body()


async def test_one_that_is_too_long_is_closed_and_said_so() -> None:
    sink, answer = whole(limit=3)
    sink.feed(b"12")
    waiting = asyncio.ensure_future(sink.wait_body())
    sink.feed(b"34")
    with pytest.raises(UpstreamFailed, match="too long") as caught:
        await waiting
    assert answer.closed_by is caught.value
    assert not sink.take_end()
