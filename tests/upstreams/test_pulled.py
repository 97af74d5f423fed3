import asyncio

import pytest

from llmgate.errors import UpstreamFailed
from llmgate.upstreams.pulled import PULL_BYTES, PulledBody


class FakeAnswer:
    def __init__(self):
        self.sink, self.calls = None, []

    def start(self, sink):
        self.sink = sink

    def __getattr__(self, name):
        return lambda: self.calls.append(name)


async def test_pieces_that_wait_come_as_one():
    answer = FakeAnswer()
    body = PulledBody(answer)
    task = asyncio.get_running_loop().create_task(anext(body))
    await asyncio.sleep(0)
    answer.sink.feed(b"a")
    answer.sink.feed(b"b")
    assert await task == b"ab"
    answer.sink.feed(b"c")
    answer.sink.end(None)
    assert [piece async for piece in body] == [b"c"]


async def test_a_reader_that_is_behind_pauses_the_answer_until_it_pulled():
    answer = FakeAnswer()
    body = PulledBody(answer)
    task = asyncio.get_running_loop().create_task(anext(body))
    await asyncio.sleep(0)
    answer.sink.feed(bytes(PULL_BYTES - 1))
    assert answer.calls == []
    answer.sink.feed(b"x")
    assert answer.calls == ["pause"]
    assert len(await task) == PULL_BYTES
    assert answer.calls == ["pause", "resume"]


async def test_an_error_comes_after_what_was_read():
    answer = FakeAnswer()
    body = PulledBody(answer)
    task = asyncio.get_running_loop().create_task(anext(body))
    await asyncio.sleep(0)
    answer.sink.feed(b"a")
    answer.sink.end(UpstreamFailed("x"))
    assert await task == b"a"
    with pytest.raises(UpstreamFailed):
        await anext(body)


async def test_closing_closes_the_answer():
    answer = FakeAnswer()
    PulledBody(answer).close()
    assert answer.calls == ["close"]
