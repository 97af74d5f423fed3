"""An answer that is held until it is whole."""

import asyncio

import pytest

from llmgate.errors import GateError, UpstreamFailed
from llmgate.server.whole import Held, Whole


class FakeAnswer:
    def __init__(self) -> None:
        self.closed_by: GateError | None = None
        self.closes = 0
        self.ended = False

    def close(self, error: GateError | None = None) -> None:
        self.closed_by = error
        self.closes += 1


def read(body: bytes) -> bytes:
    """Only digits are an answer, and 0 is a fault of ours."""
    if not body.isdigit():
        raise UpstreamFailed("no digits")
    return b"%d" % (100 // int(body))


def whole(limit: int = 100) -> tuple[Whole, FakeAnswer]:
    answer = FakeAnswer()
    return Whole(answer, Held(limit), read), answer  # type: ignore[arg-type]


async def test_pieces_become_what_is_read_in_them() -> None:
    sink, _ = whole()
    sink.feed(b"2")
    sink.feed(b"0")
    assert sink.take_end()
    sink.end(None)
    assert sink.error is None
    assert await sink.wait_body() == b"5"


@pytest.mark.parametrize("pieces", [[], [b"2", b"x"]])
async def test_what_cannot_be_read_is_an_error(pieces: list[bytes]) -> None:
    sink, _ = whole()
    for piece in pieces:
        sink.feed(piece)
    assert not sink.take_end()
    sink.end(None)
    with pytest.raises(UpstreamFailed, match="no digits") as caught:
        await sink.wait_body()
    assert sink.error is caught.value


async def test_a_fault_of_ours_is_logged_and_told(caplog: pytest.LogCaptureFixture) -> None:
    sink, _ = whole()
    sink.feed(b"0")
    assert not sink.take_end()
    sink.end(None)
    with pytest.raises(GateError, match=r"see the log of llmgate \(INTERNAL\)"):
        await sink.wait_body()
    assert "could not be passed on" in caplog.text


async def test_what_broke_it_off_is_raised() -> None:
    sink, _ = whole()
    sink.feed(b"{}")
    sink.end(UpstreamFailed("broke off"))
    with pytest.raises(UpstreamFailed, match="broke off"):
        await sink.wait_body()


class Taken:
    """A Taker that is complete with the first "."."""

    failed = False

    def __init__(self) -> None:
        self.body = b""

    @property
    def complete(self) -> bool:
        return b"." in self.body

    def feed(self, data: bytes) -> None:
        self.body += data

    def end(self) -> bytes:
        return self.body.partition(b".")[0]


@pytest.mark.parametrize(("piece", "given"), [(b"20.", b"5"), (b"x.", None)])
async def test_given_up_after_its_end_it_is_what_it_is(piece: bytes, given: bytes | None) -> None:
    answer, told = FakeAnswer(), []
    sink = Whole(answer, Taken(), read, on_told=lambda: told.append(1))  # type: ignore[arg-type]
    for fed in (piece[:1], piece[1:], b"more"):
        sink.feed(fed)
    assert told == [1]
    sink.give_up()
    assert answer.closes == 1
    if given is not None:
        assert await sink.wait_body() == given
    else:
        with pytest.raises(UpstreamFailed, match="no digits") as caught:
            await sink.wait_body()
        assert answer.closed_by is caught.value
    sink.give_up()
    assert answer.closes == 1


async def test_an_end_with_the_end_of_the_message_is_not_told() -> None:
    answer, told = FakeAnswer(), []
    answer.ended = True
    sink = Whole(answer, Taken(), read, on_told=lambda: told.append(1))  # type: ignore[arg-type]
    sink.feed(b"20.")
    assert told == []


async def test_one_that_is_too_long_is_closed_and_said_so() -> None:
    sink, answer = whole(limit=3)
    sink.feed(b"12")
    waiting = asyncio.ensure_future(sink.wait_body())
    sink.feed(b"34")
    with pytest.raises(UpstreamFailed, match="too long") as caught:
        await waiting
    assert answer.closed_by is caught.value
    assert not sink.take_end()
