"""Requests that are given up at any await, once and twice: no socket, idle link or on_done is lost or doubled.

Loops turn, never sleep: the k-th turn of the loop after `open` began is each await of it in turn.
"""

import asyncio
import os
import random

import pytest
from puppet import LIVENESS_SECONDS, deaf_port, turn
from recorder import CHUNKED, OK, Recorder, ask, fetch

from llmgate.errors import GateError
from llmgate.upstreams.answer import Done, Timeouts
from llmgate.upstreams.stock import StockTransport
from llmgate.upstreams.transport import WireTransport


def open_sockets():
    return sum(os.path.realpath(f"/dev/fd/{name}").startswith("socket") or _is_socket(name) for name in fds())


def fds():
    return os.listdir("/dev/fd")


def _is_socket(name):
    try:
        return os.fstat(int(name)).st_mode & 0o170000 == 0o140000
    except OSError:
        return False  # the listing's own descriptor


def gentle_server(seed):
    """Answers every request in several pieces, with random pauses of the loop between."""
    chance = random.Random(seed)

    async def script(connection):
        while True:
            await connection.read_request()
            await turn(chance.randrange(4))
            await connection.send(CHUNKED, *[b"3\r\nabc\r\n"] * chance.randrange(4), b"0\r\n\r\n")

    return script


async def give_up(transport, recorder, turns, again):
    """One request, cancelled after so many turns, and again after `again` more."""
    task = asyncio.get_running_loop().create_task(fetch(transport, recorder, timeouts=Timeouts(60, 60, 60, 60)))
    await turn(1 + turns)  # the first one lets it begin: before that there is no `open` yet
    task.cancel()
    if again is not None:
        await turn(again)
        task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return "cancelled"
    return "answered"


async def check_healthy(puppet, transport, recorders):
    for recorder in recorders:
        await recorder.wait_done()
    assert all(len(recorder.dones) == 1 for recorder in recorders)
    await puppet.wait(lambda: puppet.open_connections == len(transport._links) == len(transport._idle))
    async with asyncio.timeout(LIVENESS_SECONDS), asyncio.TaskGroup() as group:
        bodies = [group.create_task(fetch(transport, Recorder())) for _ in range(50)]
    assert all(task.result().strip(b"abc") == b"" for task in bodies)
    await puppet.wait(lambda: puppet.open_connections == len(transport._links) == len(transport._idle))


async def storm(start_puppet, *, count, width, reach, tls=None):
    chance = random.Random(count)
    puppet = await start_puppet(gentle_server(count), ssl_context=tls and tls.server)
    before = open_sockets()
    transport = WireTransport(puppet.url, rest_seconds=0, ssl_context=tls and tls.client)
    recorders, outcomes = [], []
    for _ in range(count // width):
        batch = [Recorder() for _ in range(width)]
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(
                    give_up(transport, recorder, chance.randrange(reach), chance.choice([None, 0, 1, 2, 3]))
                )
                for recorder in batch
            ]
        outcomes += [task.result() for task in tasks]
        recorders += batch
    await check_healthy(puppet, transport, recorders)
    assert {"answered", "cancelled"} == set(outcomes)
    assert {Done.ENDED, Done.CUT} <= {recorder.dones[0] for recorder in recorders}
    await transport.aclose()
    await puppet.wait_all_closed()
    assert open_sockets() == before


async def test_a_thousand_random_cancellations(start_puppet):
    await storm(start_puppet, count=1000, width=20, reach=45)


async def test_random_cancellations_over_tls(start_puppet, tls):
    await storm(start_puppet, count=200, width=10, reach=120, tls=tls)


@pytest.mark.parametrize("again", [None, 0, 1])
@pytest.mark.parametrize("secure", [False, True])
async def test_a_cancellation_at_every_turn_on_a_new_connection(start_puppet, tls, again, secure):
    puppet = await start_puppet(gentle_server(1), ssl_context=tls.server if secure else None)
    before = open_sockets()
    recorders = []
    for turns in range(60):
        transport = WireTransport(puppet.url, rest_seconds=0, ssl_context=tls.client)
        recorders.append(Recorder())
        await give_up(transport, recorders[-1], turns, again)
        await transport.aclose()
        await recorders[-1].wait_done()
    await puppet.wait_all_closed()
    assert [len(recorder.dones) for recorder in recorders] == [1] * 60
    assert {Done.ENDED, Done.CUT, Done.UNSENT} == {recorder.dones[0] for recorder in recorders}
    assert recorders[0].dones == [Done.UNSENT]
    assert recorders[-1].dones == [Done.ENDED]
    assert open_sockets() == before


@pytest.mark.parametrize("again", [None, 0, 1])
async def test_a_cancellation_at_every_turn_on_a_kept_connection(start_puppet, again):
    puppet = await start_puppet(gentle_server(2))
    transport = WireTransport(puppet.url, rest_seconds=0)
    recorders = []
    for turns in range(40):
        await fetch(transport, Recorder())
        recorders.append(Recorder())
        await give_up(transport, recorders[-1], turns, again)
    await check_healthy(puppet, transport, recorders)
    await transport.aclose()


async def test_a_request_that_is_cut_never_answers_the_next_one(start_puppet):
    async def script(connection):
        while True:
            request = await connection.read_request()
            await turn(2)
            await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n", request.line[6:10])

    puppet = await start_puppet(script)
    transport = WireTransport(puppet.url, rest_seconds=0)
    for number in range(300):
        await give_up(transport, Recorder(), number % 25, None)
        assert await fetch(transport, Recorder(), target=b"/%04d" % number) == b"%04d" % number
    await transport.aclose()


async def test_giving_up_while_connecting_hangs(connect_to):
    """F08: nothing accepts; the connection attempt is withdrawn at once and its socket is gone."""
    with deaf_port() as port:
        before = open_sockets()
        recorder = Recorder()
        transport = connect_to(f"http://127.0.0.1:{port}")
        task = asyncio.get_running_loop().create_task(ask(transport, recorder))
        await turn(10)
        assert open_sockets() == before + 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert recorder.dones == [Done.UNSENT]
        await turn(10)
        assert open_sockets() == before


async def test_a_connection_that_comes_after_its_owner_left_is_closed(start_puppet, connect_to, monkeypatch):
    """A loop may finish connecting after it was told to stop."""
    puppet = await start_puppet(gentle_server(3))
    transport = connect_to(puppet.url)
    loop = asyncio.get_running_loop()
    late = []

    async def stubborn(link):
        try:
            await loop.create_future()
        finally:
            late.append(lambda: link)

    monkeypatch.setattr(transport, "_dial", stubborn)
    task = loop.create_task(ask(transport, Recorder()))
    await turn()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await loop.create_connection(late[0], "127.0.0.1", puppet.port)
    await puppet.wait(lambda: len(puppet.connections) == 1)
    await puppet.wait_all_closed()
    assert not transport._links
    assert not transport._idle


async def test_a_cancellation_in_the_tick_of_an_error_leaves_no_unseen_exception(start_puppet, connect_to):
    """Warnings are errors here: a future whose exception nobody fetched would fail this test."""

    async def script(connection):
        await connection.read_request()
        connection.reset()

    transport = connect_to((await start_puppet(script)).url)
    for turns in range(30):
        task = asyncio.get_running_loop().create_task(ask(transport, Recorder()))
        await turn(turns)
        task.cancel()
        with pytest.raises((asyncio.CancelledError, GateError)):
            await task


async def test_stock_transport_survives_the_same(start_puppet):
    chance = random.Random(5)
    puppet = await start_puppet(gentle_server(4))
    before = open_sockets()
    transport = StockTransport(puppet.url)
    recorders = [Recorder() for _ in range(200)]
    for start in range(0, 200, 20):
        async with asyncio.TaskGroup() as group:
            for recorder in recorders[start : start + 20]:
                again = chance.choice([None, 0, 1, 2])
                group.create_task(give_up(transport, recorder, chance.randrange(80), again))
    for recorder in recorders:
        await recorder.wait_done()
    await puppet.wait_all_closed()
    assert all(len(recorder.dones) == 1 for recorder in recorders)
    assert not transport._tasks
    assert open_sockets() == before
    await fetch(transport, Recorder())
    await transport.aclose()


async def test_answers_that_nobody_reads_are_cut_with_their_transport(start_puppet):
    async def script(connection):
        await connection.read_request()
        await connection.send(OK[:-1])

    puppet = await start_puppet(script)
    transport = WireTransport(puppet.url, rest_seconds=0)
    recorder = Recorder()
    await ask(transport, recorder)
    await transport.aclose()
    assert recorder.dones == [Done.CUT]
    await puppet.wait_all_closed()
