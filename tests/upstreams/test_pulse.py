"""The clocks of a silent request stand while the server's slots show that it comes on, over both transports."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from puppet import LIVENESS_SECONDS, Connection
from recorder import CHUNKED, OK

from llmgate.errors import GateError, UpstreamTimeout
from llmgate.upstreams import slot_source
from llmgate.upstreams.answer import Done, Timeouts, Transport
from llmgate.upstreams.deadlines import Deadlines
from llmgate.upstreams.pulse import Pulse
from llmgate.upstreams.slots import SlotWatch
from llmgate.upstreams.stock import StockTransport
from llmgate.upstreams.transport import WireTransport
from llmgate.upstreams.upstream import Upstream

SOON = 0.4
LOOKS = 4


class Reading:
    """A llama-server that reads a prompt: each look shows more of it, so many times; then it answers, or never."""

    def __init__(self, *, answers: bool, piece: bytes = b"") -> None:
        self.looks = 0
        self.asked = 0
        self._answers = answers
        self._piece = piece
        self._read = asyncio.Event()

    async def script(self, connection: Connection) -> None:
        while True:
            request = await connection.read_request()
            if request.line.startswith(b"GET /slots"):
                await self._tell(connection)
            else:
                self.asked += 1
                await self._work(connection)

    async def _tell(self, connection: Connection) -> None:
        self.looks += 1
        slot = {"id": 0, "is_processing": True, "id_task": 1, "n_prompt_tokens_processed": min(self.looks, LOOKS)}
        body = json.dumps([slot]).encode()
        await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        if self.looks == LOOKS:
            self._read.set()

    async def _work(self, connection: Connection) -> None:
        if self._piece:
            await connection.send(CHUNKED + b"1\r\na\r\n")
        await self._read.wait()
        if self._answers:
            await connection.send(b"1\r\nb\r\n0\r\n\r\n" if self._piece else OK)


Fetch = Callable[[Transport, Timeouts], Awaitable[bytes]]


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look may take its time on a busy machine."""
    monkeypatch.setattr(slot_source, "_TIMEOUTS", Timeouts(total=4.0))


@pytest.fixture(params=[WireTransport, StockTransport])
async def fetch(request: pytest.FixtureRequest) -> AsyncIterator[Callable[[str, Timeouts], Awaitable[bytes]]]:
    """`await fetch(url, timeouts)`: one request to a llama-server whose slots are watched."""
    transports: list[Transport] = []

    async def one(url: str, timeouts: Timeouts) -> bytes:
        transport: Transport = request.param(url)
        transports.append(transport)
        upstream = Upstream("a", transport, timeouts=timeouts, kind="llama-server")
        watch = SlotWatch(upstream, lambda: None, lambda _: None, lambda _: None)
        watching = asyncio.get_running_loop().create_task(watch.run())
        try:
            async with (
                asyncio.timeout(6 * LIVENESS_SECONDS),
                upstream.call(b"POST", b"/v1/messages", {}, b"{}", ignore) as answer,
            ):
                return await answer.read(1000)
        finally:
            watching.cancel()

    yield one
    for transport in transports:
        await transport.aclose()


def ignore(_: Done, __: GateError | None) -> None:
    """Nobody keeps a slot."""


@pytest.mark.usefixtures("patience")
async def test_a_prompt_may_take_longer_than_the_first_byte(start_puppet, fetch):
    server = Reading(answers=True)
    puppet = await start_puppet(server.script)
    assert await fetch(puppet.url, Timeouts(connect=60, first_byte=SOON)) == b"ok"
    assert (server.asked, server.looks) == (1, LOOKS), "it was asked when the clock was due, and not all the time"


@pytest.mark.usefixtures("patience")
async def test_a_server_that_stands_still_is_late(start_puppet, fetch):
    server = Reading(answers=False)
    puppet = await start_puppet(server.script)
    with pytest.raises(UpstreamTimeout):
        await fetch(puppet.url, Timeouts(connect=60, first_byte=SOON))
    assert server.asked == 1
    assert server.looks in (LOOKS + 1, LOOKS + 2), "once more where the clock is found long past its end"


@pytest.mark.usefixtures("patience")
async def test_a_silence_in_the_middle_is_looked_into_as_well(start_puppet, fetch):
    server = Reading(answers=True, piece=b"a")
    puppet = await start_puppet(server.script)
    assert await fetch(puppet.url, Timeouts(connect=60, idle=SOON)) == b"ab"
    assert (server.asked, server.looks) == (1, LOOKS)


async def test_a_server_that_answers_nobody_is_late(start_puppet, fetch):
    async def script(connection: Connection) -> None:
        await connection.read_request()

    puppet = await start_puppet(script)
    with pytest.raises(UpstreamTimeout):
        await fetch(puppet.url, Timeouts(connect=60, first_byte=SOON))


@pytest.mark.usefixtures("patience")
async def test_a_server_that_does_not_tell_is_late(start_puppet, fetch):
    asked: list[bytes] = []

    async def script(connection: Connection) -> None:
        while True:
            request = await connection.read_request()
            asked.append(request.line)
            if request.line.startswith(b"GET"):
                await connection.send(b"HTTP/1.1 501 No\r\ncontent-length: 2\r\n\r\n{}")

    puppet = await start_puppet(script)
    with pytest.raises(UpstreamTimeout):
        await fetch(puppet.url, Timeouts(connect=60, first_byte=SOON))
    assert len(asked) == 2


# ---- the pulse itself


def test_who_asks_is_told_once():
    woken: list[bool] = []
    pulse = Pulse(lambda: True, lambda: woken.append(True))
    told: list[object] = []
    assert not pulse.is_wanted
    pulse.ask(told.append)
    assert (pulse.is_wanted, woken) == (True, [True])
    (asker,) = pulse.take()
    assert not pulse.is_wanted
    asker(None)
    assert told == [None]


def test_the_others_that_are_heard_are_counted():
    pulse = Pulse(lambda: True, lambda: None)
    ours = [Deadlines(Timeouts(idle=9), 100) for _ in range(3)]
    for one in ours:
        pulse.join(one)
        one.received(105)
    assert pulse.heard(102, ours[0]) == 2
    assert pulse.heard(106, ours[0]) == 0
    pulse.leave(ours[1])
    pulse.leave(ours[1])
    assert pulse.heard(102, ours[0]) == 1
    assert not pulse.is_idle
    pulse.leave(ours[0])
    pulse.leave(ours[2])
    assert pulse.is_idle
