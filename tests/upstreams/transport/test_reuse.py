"""Connections that are kept: which carry another request, which are closed, and what a race with the server costs."""

import asyncio
import random

import pytest
from puppet import turn
from recorder import OK, Recorder, ask, fetch

from llmgate.errors import UpstreamFailed
from llmgate.upstreams.answer import Done
from tests.upstreams.serving import serve_ok


class TestReuse:
    async def test_one_connection_serves_one_request_after_the_other(self, start_puppet, connect_to):
        puppet = await start_puppet(serve_ok)
        transport = connect_to(puppet.url)
        for _ in range(20):
            assert await fetch(transport, Recorder()) == b"ok"
        assert len(puppet.connections) == 1

    async def test_the_newest_idle_connection_is_taken(self, start_puppet, connect_to):
        go = asyncio.Event()

        async def script(connection):
            await connection.read_request()
            if connection.number == 0:
                await go.wait()
            await connection.send(OK)
            await connection.read_request()
            await connection.send(OK)

        puppet = await start_puppet(script)
        transport = connect_to(puppet.url)
        async with asyncio.TaskGroup() as group:
            group.create_task(fetch(transport, Recorder()))
            await puppet.wait(lambda: len(puppet.connections) == 1)
            await fetch(transport, Recorder())
            go.set()
        await fetch(transport, Recorder())
        assert [len(connection.requests) for connection in puppet.connections] == [2, 1]

    async def test_no_limit_on_connections(self, start_puppet, connect_to):
        everybody = asyncio.Event()

        async def script(connection):
            await connection.read_request()
            if len(connection.puppet.requests) == 150:
                everybody.set()
            await everybody.wait()
            await connection.send(OK)

        transport = connect_to((await start_puppet(script)).url)
        async with asyncio.TaskGroup() as group:
            for _ in range(150):
                group.create_task(fetch(transport, Recorder()))

    @pytest.mark.parametrize("farewell", ["close", "reset", "stray"])
    async def test_a_connection_with_something_unread_is_not_used(self, start_puppet, connect_to, farewell):
        async def script(connection):
            await connection.read_request()
            await connection.send(OK)

        puppet = await start_puppet(script)
        transport = connect_to(puppet.url)
        await fetch(transport, Recorder())
        (link,) = transport._idle
        link._transport.pause_reading()  # the loop has not noticed yet: only a look at the socket can tell
        server = puppet.connections[0]
        if farewell == "stray":
            server.transport.write(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            getattr(server, farewell)()
        await turn()
        assert await fetch(transport, Recorder()) == b"ok"
        assert [len(connection.requests) for connection in puppet.connections] == [1, 1]

    async def test_stray_bytes_close_an_idle_connection(self, start_puppet, connect_to):
        async def script(connection):
            await connection.read_request()
            await connection.send(OK, b"HTTP/1.1 200 OK\r\n")

        puppet = await start_puppet(script)
        transport = connect_to(puppet.url)
        recorder = Recorder()
        assert await fetch(transport, recorder) == b"ok"
        await puppet.wait_all_closed()
        assert recorder.dones == [Done.ENDED]
        assert not transport._idle
        assert not transport._links

    async def test_idle_connections_are_swept_and_no_timer_is_left(self, start_puppet, connect_to):
        everybody = asyncio.Event()

        async def script(connection):
            await connection.read_request()
            if len(connection.puppet.requests) == 5:
                everybody.set()
            await everybody.wait()
            await connection.send(OK)

        puppet = await start_puppet(script)
        transport = connect_to(puppet.url, idle_limit_seconds=0.02)
        async with asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(fetch(transport, Recorder()))
        await puppet.wait_all_closed()
        await puppet.wait(lambda: transport._sweeper is None)
        assert not transport._idle
        assert not transport._links

    async def test_a_connection_that_was_idle_too_long_is_not_used(self, start_puppet, connect_to):
        puppet = await start_puppet(serve_ok)
        transport = connect_to(puppet.url, idle_limit_seconds=60)
        await fetch(transport, Recorder())
        (link,) = transport._idle
        link.idle_since -= 60.1
        await fetch(transport, Recorder())
        assert len(puppet.connections) == 2

    @pytest.mark.parametrize(
        "answer",
        [
            b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
            b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        ],
    )
    async def test_no_reuse_where_the_server_says_so(self, start_puppet, connect_to, answer):
        async def script(connection):
            await connection.read_request()
            await connection.send(answer)

        puppet = await start_puppet(script)
        transport = connect_to(puppet.url)
        for _ in range(2):
            recorder = Recorder()
            assert await fetch(transport, recorder) == b"ok"
            assert recorder.dones == [Done.ENDED]
        await puppet.wait_all_closed()
        assert len(puppet.connections) == 2

    async def test_http_1_0_with_keep_alive_is_reused(self, start_puppet, connect_to):
        async def script(connection):
            while True:
                await connection.read_request()
                await connection.send(b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok")

        puppet = await start_puppet(script)
        transport = connect_to(puppet.url)
        for _ in range(2):
            await fetch(transport, Recorder())
        assert len(puppet.connections) == 1

    async def test_an_answer_before_the_whole_request_ends_the_connection(self, start_puppet, connect_to):
        async def script(connection):
            await connection.read_bytes(1000)
            connection.transport.pause_reading()
            await connection.send(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")

        puppet = await start_puppet(script)
        transport = connect_to(puppet.url)
        recorder = Recorder()
        answer = await ask(transport, recorder, body=bytes(50_000_000))
        assert (answer.status, await answer.read(10)) == (413, b"no")
        assert recorder.dones == [Done.ENDED]
        assert not transport._idle


async def race_reuse_with_closing(start_puppet, connect_to, rounds):
    """F51: the server closes an idle connection just as it is used again."""
    chance = random.Random(rounds)

    async def script(connection):
        await connection.read_request()
        await connection.send(OK)
        await turn(chance.randrange(6))
        (connection.close if chance.random() < 0.7 else connection.reset)()

    puppet = await start_puppet(script)
    transport = connect_to(puppet.url)
    outcomes = []
    for number in range(rounds):
        recorder = Recorder()
        try:
            await fetch(transport, recorder, target=b"/%d" % number)
            outcomes.append("ok")
            assert recorder.dones == [Done.ENDED]
        except UpstreamFailed:
            outcomes.append("failed")
            assert recorder.dones == [Done.LOST]
        await turn(chance.randrange(6))
    lines = [request.line for request in puppet.requests]
    assert len(lines) == len(set(lines)), "a request was sent twice"
    assert outcomes.count("ok") > rounds / 3
    return outcomes


async def test_a_closing_connection_never_doubles_a_request(start_puppet, connect_to):
    await race_reuse_with_closing(start_puppet, connect_to, 100)


@pytest.mark.slow
async def test_a_closing_connection_never_doubles_a_request_long(start_puppet, connect_to):
    await race_reuse_with_closing(start_puppet, connect_to, 1000)


async def test_a_reused_connection_that_dies_under_the_request_is_its_failure(start_puppet, connect_to):
    async def script(connection):
        await connection.read_request()
        await connection.send(OK)
        await connection.read_request()
        connection.close()

    puppet = await start_puppet(script)
    transport = connect_to(puppet.url)
    await fetch(transport, Recorder())
    recorder = Recorder()
    with pytest.raises(UpstreamFailed, match="before it answered"):
        await fetch(transport, recorder)
    assert recorder.dones == [Done.LOST]
    assert len(puppet.requests) == 2
    assert len(puppet.connections) == 1
