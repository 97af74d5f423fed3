import asyncio
import dataclasses

import pytest

from llmgate.errors import UpstreamFailed
from llmgate.upstreams.answer import Collector, Timeouts


class FakeAnswer:
    """Pushes what it was made with as soon as it is started."""

    status = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def __init__(self, *pieces, error=None, ends=True):
        self.pieces, self.error, self.ends, self.closes = pieces, error, ends, 0

    def start(self, sink):
        for piece in self.pieces:
            if not self.closes:
                sink.feed(piece)
        if self.ends and not self.closes:
            sink.end(self.error)

    def close(self, error=None):
        self.closes += 1
        self.closed_by = error


async def test_the_pieces_are_joined():
    answer = FakeAnswer(b"ab", b"c")
    assert await Collector(answer, 3).wait_body() == b"abc"
    assert answer.closes == 0


async def test_a_body_beyond_the_limit_closes_the_answer():
    answer = FakeAnswer(b"ab", b"cd")
    with pytest.raises(UpstreamFailed, match="too long") as caught:
        await Collector(answer, 3).wait_body()
    assert answer.closes >= 1
    assert answer.closed_by in (None, caught.value)


async def test_what_ended_the_body_is_raised():
    error = UpstreamFailed("x")
    with pytest.raises(UpstreamFailed) as caught:
        await Collector(FakeAnswer(b"ab", error=error), 3).wait_body()
    assert caught.value is error


async def test_a_reader_that_is_cancelled_closes_the_answer():
    answer = FakeAnswer(b"ab", ends=False)
    task = asyncio.get_running_loop().create_task(Collector(answer, 3).wait_body())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert answer.closes == 1


def test_timeouts_are_frozen_and_off_by_default():
    assert dataclasses.astuple(Timeouts()) == (None, None, None, None, None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Timeouts().idle = 3.0
