import asyncio
import random
import ssl

import httpx
import pytest
from puppet import LIVENESS_SECONDS, refusing_port, turn
from recorder import CHUNKED, OK, Recorder, ask, fetch

from llmgate.errors import UpstreamDown, UpstreamFailed
from llmgate.upstreams.answer import Done, Timeouts
from llmgate.upstreams.transport import WireTransport


async def serve_ok(connection):
    while True:
        await connection.read_request()
        await connection.send(OK)


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


class TestHttpx:
    async def test_a_client_on_top(self, start_puppet):
        async def script(connection):
            await connection.read_request()
            await connection.send(CHUNKED + b"5\r\nhello\r\n", b"6\r\n world\r\n", b"0\r\n\r\n")

        puppet = await start_puppet(script)
        async with httpx.AsyncClient(
            transport=WireTransport(puppet.url, rest_seconds=0), base_url=puppet.url
        ) as client:
            response = await client.post("/x?y=1", json={"a": 1})
        assert response.text == "hello world"
        assert puppet.requests[0].line == b"POST /x?y=1 HTTP/1.1"
        assert puppet.requests[0].body == b'{"a":1}'
        await puppet.wait_all_closed()

    async def test_a_streamed_request_is_sent_with_its_length(self, start_puppet):
        async def pieces():
            yield b"ab"
            yield b"cd"

        puppet = await start_puppet(serve_ok)
        async with httpx.AsyncClient(
            transport=WireTransport(puppet.url, rest_seconds=0), base_url=puppet.url
        ) as client:
            await client.post("/", content=pieces())
        assert puppet.requests[0].body == b"abcd"
        assert puppet.requests[0].header(b"transfer-encoding") is None

    async def test_it_streams_and_a_client_that_leaves_cuts_the_answer(self, start_puppet):
        async def script(connection):
            await connection.read_request()
            await connection.send(CHUNKED + b"1\r\na\r\n")

        puppet = await start_puppet(script)
        async with httpx.AsyncClient(
            transport=WireTransport(puppet.url, rest_seconds=0), base_url=puppet.url
        ) as client:
            async with client.stream("GET", "/") as response, asyncio.timeout(LIVENESS_SECONDS):
                assert await anext(response.aiter_raw()) == b"a"
            await puppet.wait_all_closed()

    async def test_a_reader_that_pulls_slowly_slows_the_server(self, start_puppet):
        async def script(connection):
            await connection.read_request()
            await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 30000000\r\n\r\n", bytes(30_000_000))

        puppet = await start_puppet(script)
        size = 0
        async with (
            httpx.AsyncClient(transport=WireTransport(puppet.url, rest_seconds=0), base_url=puppet.url) as client,
            client.stream("GET", "/") as response,
        ):
            async for piece in response.aiter_raw():
                size += len(piece)
                assert len(piece) < 1_000_000
                await turn()
        assert size == 30_000_000

    async def test_head_has_no_body_whatever_it_says(self, start_puppet):
        async def script(connection):
            while True:
                await connection.read_request()
                await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")

        puppet = await start_puppet(script)
        async with httpx.AsyncClient(
            transport=WireTransport(puppet.url, rest_seconds=0), base_url=puppet.url
        ) as client:
            for _ in range(2):
                response = await client.head("/")
                assert (response.headers["content-length"], response.content) == ("1000", b"")
        assert len(puppet.connections) == 1

    async def test_redirects_are_answers(self, start_puppet):
        async def script(connection):
            await connection.read_request()
            await connection.send(b"HTTP/1.1 302 Found\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n")

        puppet = await start_puppet(script)
        async with httpx.AsyncClient(
            transport=WireTransport(puppet.url, rest_seconds=0), base_url=puppet.url
        ) as client:
            assert (await client.get("/")).status_code == 302
        assert len(puppet.requests) == 1

    @pytest.mark.parametrize(
        ("sent", "kind"),
        [
            (b"", httpx.RemoteProtocolError),
            (b"hello\r\n", httpx.RemoteProtocolError),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab", httpx.RemoteProtocolError),
        ],
    )
    async def test_failures_have_httpx_names(self, start_puppet, sent, kind):
        async def script(connection):
            await connection.read_request()
            await connection.send(sent)
            connection.close()

        puppet = await start_puppet(script)
        async with httpx.AsyncClient(
            transport=WireTransport(puppet.url, rest_seconds=0), base_url=puppet.url
        ) as client:
            with pytest.raises(kind):
                await client.get("/")

    async def test_timeouts_have_httpx_names(self, start_puppet):
        async def script(connection):
            await connection.read_request()
            if connection.requests[0].line.startswith(b"GET /idle"):
                await connection.send(CHUNKED + b"1\r\na\r\n")

        puppet = await start_puppet(script)
        timeout = httpx.Timeout(10, read=0.03)
        async with httpx.AsyncClient(
            transport=WireTransport(puppet.url, rest_seconds=0), base_url=puppet.url, timeout=timeout
        ) as client:
            for path in ("/silent", "/idle"):
                with pytest.raises(httpx.ReadTimeout):
                    await client.get(path)

    async def test_no_connection_has_a_httpx_name(self):
        with refusing_port() as port:
            async with httpx.AsyncClient(transport=WireTransport(f"http://127.0.0.1:{port}")) as client:
                with pytest.raises(httpx.ConnectError):
                    await client.get(f"http://127.0.0.1:{port}/")

    async def test_a_bad_header_has_a_httpx_name(self, start_puppet):
        puppet = await start_puppet(serve_ok)
        async with httpx.AsyncClient(
            transport=WireTransport(puppet.url, rest_seconds=0), base_url=puppet.url
        ) as client:
            with pytest.raises(httpx.LocalProtocolError):
                await client.get("/", headers={"a": "b\r\nc: d"})


async def test_a_request_without_any_clock_has_no_timer(start_puppet, connect_to):
    puppet = await start_puppet(serve_ok)
    answer = await ask(connect_to(puppet.url), Recorder(), timeouts=Timeouts())
    assert answer._timer is None
    assert answer._deadlines is None


async def until(condition):
    async with asyncio.timeout(LIVENESS_SECONDS):
        while not condition():  # noqa: ASYNC110  nothing tells when a timer of the transport has fired
            await asyncio.sleep(0.005)


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
