"""One answer on its way to one client: in order, whatever the client's pace; stopped; and a client that stalls."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_loop import run, this_loop, turns

from llmgate.server.reply import Reply
from tests.server.stage import pass_time


class Client:
    """An ASGI `send` that takes messages at once, or, while `slow`, one at each `take`."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.slow = False
        self.error: Exception | None = None
        self._gate: asyncio.Future[None] | None = None

    async def send(self, message: Any) -> None:
        if self.slow:
            self._gate = asyncio.get_running_loop().create_future()
            await self._gate
        if self.error is not None:
            raise self.error
        self.messages.append(message)

    async def take(self) -> None:
        """One message, and what follows from it."""
        gate, self._gate = self._gate, None
        assert gate is not None
        gate.set_result(None)
        await turns()

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages)

    @property
    def is_ended(self) -> bool:
        return [message for message in self.messages if message.get("more_body") is False] == self.messages[-1:]


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def reply(client: Client) -> Reply:
    return Reply(client.send, None)


async def test_what_is_written_is_sent_at_once(client: Client, reply: Reply) -> None:
    assert not reply.started
    reply.start(200, [(b"a", b"b")])
    reply.write(b"x")
    reply.write(b"")
    assert (reply.started, reply.finished, reply.blocked) == (True, False, False)
    reply.finish(b"y")
    assert client.messages == [
        {"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]},
        {"type": "http.response.body", "body": b"x", "more_body": True},
        {"type": "http.response.body", "body": b"y", "more_body": False},
    ]
    assert reply.finished
    await reply.wait_sent()


async def test_a_whole_answer(client: Client, reply: Reply) -> None:
    reply.answer(404, [(b"a", b"b")], b"body")
    start, body = client.messages
    assert (start["status"], start["headers"]) == (404, [(b"a", b"b"), (b"content-length", b"4")])
    assert (body["body"], body["more_body"]) == (b"body", False)


async def test_after_the_finish_nothing_more_goes_out(client: Client, reply: Reply) -> None:
    reply.start(200, [])
    reply.finish()
    sent = list(client.messages)
    reply.write(b"x")
    reply.finish(b"y")
    assert client.messages == sent


async def test_a_slow_client_gets_everything_in_order(client: Client, reply: Reply) -> None:
    told: list[str] = []
    reply.on_writable = lambda: told.append("writable")
    reply.start(200, [])
    client.slow = True
    reply.write(b"1")
    assert reply.blocked
    reply.write(b"2")
    reply.write(b"3")
    reply.finish(b"4")
    waiting = asyncio.ensure_future(reply.wait_sent())
    for taken in (b"1", b"12", b"123"):
        await client.take()
        assert (client.body, reply.blocked, told, waiting.done()) == (taken, True, [], False)
    await client.take()
    assert (client.body, client.is_ended, reply.blocked, told) == (b"1234", True, False, ["writable"])
    await waiting


async def test_who_produces_at_the_word_writable_keeps_the_order(client: Client, reply: Reply) -> None:
    reply.start(200, [])
    client.slow = True
    reply.write(b"1")
    reply.write(b"2")
    reply.on_writable = lambda: reply.write(b"3")
    client.slow = False
    await client.take()
    assert client.body == b"123"


@given(st.lists(st.sampled_from(["write", "slow", "fast", "take", "turn"]), max_size=40))
def test_whatever_the_pace(steps: list[str]) -> None:
    async def main() -> None:
        client = Client()
        reply = Reply(client.send, None)
        reply.start(200, [])
        written = b""
        for number, step in enumerate(steps):
            if step == "write":
                piece = b"%d," % number
                written += piece
                reply.write(piece)
            elif step == "take" and client._gate is not None:
                await client.take()
            elif step == "turn":
                await turns()
            else:
                client.slow = step == "slow"
            assert written.startswith(client.body)
            assert reply.blocked or client.body == written
        reply.finish(b"end")
        client.slow = False
        while client._gate is not None:
            await client.take()
        assert client.body == written + b"end"
        assert client.is_ended
        await reply.wait_sent()

    run(main())


async def test_who_waits_and_is_cancelled_leaves_it_as_it_is(client: Client, reply: Reply) -> None:
    client.slow = True
    reply.start(200, [])
    waiting = asyncio.ensure_future(reply.wait_sent())
    await turns()
    waiting.cancel()
    await turns()
    assert waiting.cancelled()
    await client.take()
    assert not reply.blocked


# ---- giving up


async def test_stopped_it_sends_nothing_more(client: Client, reply: Reply) -> None:
    reply.start(200, [])
    client.slow = True
    reply.write(b"1")
    reply.write(b"2")
    waiting = asyncio.ensure_future(reply.wait_sent())
    await turns()
    reply.stop()
    assert (reply.finished, reply.blocked) == (True, False)
    await waiting
    reply.write(b"3")
    reply.finish(b"4")
    await turns()
    assert client.body == b""
    reply.stop()


async def test_stopped_without_anything_under_way(client: Client, reply: Reply) -> None:
    reply.stop()
    reply.finish(b"x")
    assert client.messages == []


async def test_an_error_at_once_is_raised_to_the_writer(client: Client, reply: Reply) -> None:
    client.error = RuntimeError("bad header")
    with pytest.raises(RuntimeError, match="bad header"):
        reply.start(200, [])
    assert reply.finished


async def test_an_error_after_a_wait_ends_it(client: Client, reply: Reply) -> None:
    """The producer is told that it may go on, and what it writes is dropped."""
    told: list[str] = []
    reply.on_writable = lambda: told.append("writable")
    reply.start(200, [])
    client.slow = True
    reply.write(b"1")
    reply.write(b"2")
    client.error = ConnectionResetError()
    await client.take()
    assert (reply.finished, reply.blocked, told, client.body) == (True, False, ["writable"], b"")
    await reply.wait_sent()


# ---- the client that takes nothing


class Stalled:
    def __init__(self, seconds: float | None) -> None:
        self.client = Client()
        self.reply = Reply(self.client.send, seconds)
        self.reply.on_stalled = self.note
        self.at: list[float] = []
        self.began = this_loop().time()

    def note(self) -> None:
        self.at.append(round(this_loop().time() - self.began, 3))


def test_it_is_told_once_when_nothing_was_taken_for_so_long() -> None:
    async def main() -> None:
        stalled = Stalled(5)
        stalled.reply.start(200, [])
        await pass_time(100)
        assert stalled.at == []
        stalled.client.slow = True
        stalled.reply.write(b"1")
        stalled.reply.write(b"2")
        await pass_time(4)
        await stalled.client.take()
        await pass_time(100)
        assert stalled.at == [109]
        await stalled.client.take()
        assert this_loop().timers == []

    run(main())


@pytest.mark.parametrize("stop", [False, True])
def test_a_client_that_takes_it_in_time_is_not_told_of(stop: bool) -> None:
    async def main() -> None:
        stalled = Stalled(5)
        stalled.client.slow = True
        stalled.reply.start(200, [])
        assert len(this_loop().timers) == 1
        if stop:
            stalled.reply.stop()
        else:
            await stalled.client.take()
        assert this_loop().timers == []
        assert stalled.at == []

    run(main())


def test_without_a_limit_there_is_no_timer() -> None:
    async def main() -> None:
        stalled = Stalled(None)
        stalled.client.slow = True
        stalled.reply.start(200, [])
        assert this_loop().timers == []
        await stalled.client.take()

    run(main())


def test_nobody_need_be_told() -> None:
    async def main() -> None:
        client = Client()
        reply = Reply(client.send, 1)
        client.slow = True
        reply.start(200, [])
        await pass_time(2)
        await client.take()
        assert len(client.messages) == 1

    run(main())


async def test_it_knows_when_it_wrote_last(client: Client, reply: Reply) -> None:
    before = reply.last_write
    await asyncio.sleep(0.002)
    reply.start(200, [])
    assert reply.last_write > before
