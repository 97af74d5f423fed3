"""One request over one connection: as it arrives, where nobody is there, when it is closed, over TLS."""

import asyncio
import random
import ssl

import pytest
from puppet import refusing_port, turn
from recorder import CHUNKED, OK, Recorder, ask, fetch

from llmgate.errors import UpstreamDown, UpstreamFailed
from llmgate.upstreams.answer import Done, Timeouts
from llmgate.upstreams.transport import WireTransport
from tests.upstreams.serving import serve_ok


class TestRequest:
    async def test_it_arrives_byte_for_byte(self, start_puppet, connect_to):
        puppet = await start_puppet(serve_ok)
        transport = connect_to(puppet.url)
        answer = await ask(transport, Recorder(), headers=[(b"Accept", b"*/*")], body=b'{"a":1}')
        assert await answer.read(10) == b"ok"
        assert (answer.status, answer.headers) == (200, [(b"content-length", b"2")])
        host = b"127.0.0.1:%d" % puppet.port
        assert bytes(puppet.connections[0].received) == (
            b"POST /v1/messages HTTP/1.1\r\nHost: "
            + host
            + b"\r\nAccept: */*\r\nContent-Length: 7\r\n\r\n"
            + b'{"a":1}'
        )

    async def test_a_large_body_arrives_whole(self, start_puppet, connect_to):
        puppet = await start_puppet(serve_ok)
        body = random.Random(1).randbytes(5_000_003)
        assert await fetch(connect_to(puppet.url), Recorder(), body=body) == b"ok"
        assert puppet.requests[0].body == body

    async def test_a_bad_header_is_refused_before_anything_is_sent(self, start_puppet, connect_to):
        puppet = await start_puppet(serve_ok)
        recorder = Recorder()
        with pytest.raises(ValueError, match="CR, LF or NUL"):
            await ask(connect_to(puppet.url), recorder, headers=[(b"a", b"b\r\nc: d")])
        assert recorder.told == ["done:unsent"]
        assert puppet.connections == []


class TestDown:
    async def test_refused(self, connect_to):
        recorder = Recorder()
        with refusing_port() as port, pytest.raises(UpstreamDown) as caught:
            await ask(connect_to(f"http://127.0.0.1:{port}"), recorder)
        assert recorder.told == ["done:unsent"]
        assert str(port) not in str(caught.value)

    async def test_no_such_name(self, connect_to):
        recorder = Recorder()
        with pytest.raises(UpstreamDown):
            await ask(connect_to("http://nowhere.invalid:1"), recorder)
        assert recorder.told == ["done:unsent"]

    async def test_closed_at_once(self, start_puppet, connect_to):
        async def script(connection):
            connection.close()

        recorder = Recorder()
        with pytest.raises((UpstreamDown, UpstreamFailed)):
            await ask(connect_to((await start_puppet(script)).url), recorder)
        assert recorder.dones in ([Done.UNSENT], [Done.LOST])


class TestClose:
    async def test_idle_and_running_connections_are_closed(self, start_puppet):
        async def script(connection):
            await connection.read_request()
            if connection.requests[0].line.startswith(b"POST /idle"):
                await connection.send(OK)
            else:
                await connection.send(CHUNKED + b"2\r\nab\r\n")

        puppet = await start_puppet(script)
        transport = WireTransport(puppet.url, rest_seconds=0)
        running, waiting = Recorder(), Recorder()
        answer = await ask(transport, running, target=b"/run")
        answer.start(running)
        await fetch(transport, waiting, target=b"/idle")
        await transport.aclose()
        assert not transport._links
        await running.wait_ended()
        assert running.told == ["done:cut", "error:UPSTREAM_ERROR"]
        await puppet.wait_all_closed()
        await transport.aclose()

    async def test_nothing_opens_afterwards(self, start_puppet):
        puppet = await start_puppet(serve_ok)
        transport = WireTransport(puppet.url, rest_seconds=0)
        await transport.aclose()
        recorder = Recorder()
        with pytest.raises(UpstreamDown, match="closed"):
            await ask(transport, recorder)
        assert recorder.told == ["done:unsent"]
        assert puppet.connections == []

    async def test_a_connection_that_is_being_made_is_refused(self, start_puppet):
        puppet = await start_puppet(serve_ok)
        transport = WireTransport(puppet.url, rest_seconds=0)
        recorder = Recorder()
        task = asyncio.get_running_loop().create_task(ask(transport, recorder))
        await asyncio.sleep(0)
        await transport.aclose()
        with pytest.raises(UpstreamDown):
            await task
        assert recorder.told == ["done:unsent"]
        await puppet.wait_all_closed()
        assert puppet.requests == []


class TestTls:
    async def test_requests_and_reuse(self, start_puppet, connect_to, tls):
        puppet = await start_puppet(serve_ok, ssl_context=tls.server)
        transport = connect_to(puppet.url, ssl_context=tls.client)
        body = random.Random(1).randbytes(1_000_003)
        for _ in range(3):
            assert await fetch(transport, Recorder(), body=body) == b"ok"
        assert len(puppet.connections) == 1
        assert puppet.requests[2].body == body

    async def test_an_answer_until_the_end_of_the_connection(self, start_puppet, connect_to, tls):
        async def script(connection):
            await connection.read_request()
            await connection.send(b"HTTP/1.1 200 OK\r\n\r\n", b"a" * 300_000)
            connection.close()

        puppet = await start_puppet(script, ssl_context=tls.server)
        recorder = Recorder()
        assert await fetch(connect_to(puppet.url, ssl_context=tls.client), recorder) == b"a" * 300_000
        assert recorder.dones == [Done.ENDED]

    async def test_a_server_that_is_not_trusted_is_down(self, start_puppet, connect_to, tls):
        puppet = await start_puppet(serve_ok, ssl_context=tls.server)
        recorder = Recorder()
        with pytest.raises(UpstreamDown) as caught:
            await ask(connect_to(puppet.url), recorder)
        assert isinstance(caught.value.__cause__, ssl.SSLError)
        assert recorder.told == ["done:unsent"]
        assert puppet.requests == []

    async def test_the_name_in_the_certificate_counts(self, start_puppet, connect_to, tls):
        puppet = await start_puppet(serve_ok, ssl_context=tls.server)
        transport = connect_to(f"https://localhost:{puppet.port}", ssl_context=tls.client)
        with pytest.raises(UpstreamDown):
            await ask(transport, Recorder())

    async def test_a_slow_reader_pauses_the_server(self, start_puppet, connect_to, tls):
        async def script(connection):
            await connection.read_request()
            await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 30000000\r\n\r\n", bytes(30_000_000))

        puppet = await start_puppet(script, ssl_context=tls.server)
        recorder = Recorder()
        answer = await ask(connect_to(puppet.url, ssl_context=tls.client), recorder)
        await turn(200)
        assert answer._held_bytes < 1_000_000
        assert recorder.dones == []
        assert len(await answer.read(1 << 30)) == 30_000_000


async def test_a_request_without_any_clock_has_no_timer(start_puppet, connect_to):
    puppet = await start_puppet(serve_ok)
    answer = await ask(connect_to(puppet.url), Recorder(), timeouts=Timeouts())
    assert answer._timer is None
    assert answer._deadlines is None
