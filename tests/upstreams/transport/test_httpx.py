"""The transport as httpx's."""

import asyncio

import httpx
import pytest
from puppet import LIVENESS_SECONDS, refusing_port, turn
from recorder import CHUNKED

from llmgate.upstreams.transport import WireTransport
from tests.upstreams.serving import serve_ok


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
