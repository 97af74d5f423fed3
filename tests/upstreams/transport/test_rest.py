"""Connections at rest: how long they are kept, and what becomes of those of a transport that retires."""

import asyncio

from puppet import turn
from recorder import CHUNKED, OK, Recorder, fetch

from tests.upstreams.serving import until


class TestRest:
    """llama-server closes right after each streamed answer, though it offers to keep the connection."""

    async def closing(self, connection):
        await connection.read_request()
        await connection.send(CHUNKED + b"2\r\nok\r\n0\r\n\r\n")
        await turn(3)
        connection.close()

    async def test_a_request_is_not_written_to_a_connection_that_may_close_after_a_stream(
        self, start_puppet, connect_to
    ):
        puppet = await start_puppet(self.closing)
        transport = connect_to(puppet.url, rest_seconds=60)
        for _ in range(20):
            assert await fetch(transport, Recorder()) == b"ok"
        assert len(puppet.connections) == 20

    async def test_a_connection_that_outlived_its_rest_is_used_again(self, start_puppet, connect_to):
        async def script(connection):
            while True:
                await connection.read_request()
                await connection.send(CHUNKED + b"2\r\nok\r\n0\r\n\r\n")

        puppet = await start_puppet(script)
        transport = connect_to(puppet.url, rest_seconds=0.01)
        await fetch(transport, Recorder())
        await until(lambda: transport._idle)
        for _ in range(5):  # the server is known now: no rest is needed
            await fetch(transport, Recorder())
        assert len(puppet.connections) == 1

    async def test_a_server_that_closes_once_is_not_trusted_again(self, start_puppet, connect_to):
        async def script(connection):
            while True:
                await connection.read_request()
                await connection.send(CHUNKED + b"2\r\nok\r\n0\r\n\r\n")
                if len(puppet.requests) > 2:
                    connection.close()
                    return

        puppet = await start_puppet(script)
        transport = connect_to(puppet.url, rest_seconds=0.5)
        await fetch(transport, Recorder())
        await until(lambda: transport._idle)
        await fetch(transport, Recorder())
        await fetch(transport, Recorder())
        await until(lambda: not transport._links)
        assert not transport._keeps_after_stream
        for _ in range(5):
            assert await fetch(transport, Recorder()) == b"ok"

    async def test_one_that_closed_while_it_rested_is_forgotten(self, start_puppet, connect_to):
        puppet = await start_puppet(self.closing)
        transport = connect_to(puppet.url, rest_seconds=0.01)
        await fetch(transport, Recorder())
        await until(lambda: not transport._links)
        await asyncio.sleep(0.03)
        assert not transport._idle

    async def test_an_answer_with_a_length_needs_no_rest(self, start_puppet, connect_to):
        async def script(connection):
            while True:
                await connection.read_request()
                await connection.send(OK)

        puppet = await start_puppet(script)
        transport = connect_to(puppet.url, rest_seconds=0.05)
        for _ in range(5):
            await fetch(transport, Recorder())
        assert len(puppet.connections) == 1


class TestRetire:
    """Other settings took its place: what runs goes on, and nothing is kept."""

    async def test_idle_connections_are_closed_and_the_running_one_after_its_answer(self, start_puppet, connect_to):
        go = asyncio.Event()

        async def script(connection):
            while True:
                await connection.read_request()
                if connection.number == 0:
                    await go.wait()
                await connection.send(OK)

        puppet = await start_puppet(script)
        transport = connect_to(puppet.url)
        running = asyncio.ensure_future(fetch(transport, Recorder()))
        await puppet.wait(lambda: len(puppet.requests) == 1)
        assert await fetch(transport, Recorder()) == b"ok"
        assert (transport.in_use, len(transport._idle)) == (1, 1)
        transport.retire()
        await puppet.wait(lambda: puppet.open_connections == 1)
        go.set()
        assert await running == b"ok"
        await puppet.wait_all_closed()
        assert transport.in_use == 0

    async def test_a_connection_in_the_making_is_in_use_and_one_that_rests_is_not(self, start_puppet, connect_to):
        async def script(connection):
            await connection.read_request()
            await connection.send(CHUNKED + b"2\r\nok\r\n0\r\n\r\n")

        puppet = await start_puppet(script)
        transport = connect_to(puppet.url, rest_seconds=60)
        asking = asyncio.ensure_future(fetch(transport, Recorder()))
        await turn(1)
        assert transport.in_use == 1
        await asking
        assert (transport.in_use, len(transport._resting)) == (0, 1)
        transport.retire()
        puppet.connections[0].transport.abort()
        await turn(20)
        assert (transport.in_use, transport._resting) == (0, set())
