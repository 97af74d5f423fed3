"""Every state of a connection but that of a request at work has an end: heads, idle connections, closing ones."""

import asyncio
from typing import Self

import pytest
from puppet import LIVENESS_SECONDS
from rawclient import Client

from llmgate.server import http_protocol
from llmgate.server.http_server import HttpServer, WireLimits
from llmgate.server.sockets import bind_listen

GET = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n"


class Asked:
    """Answers each request without reading its body; knows how many there were."""

    def __init__(self) -> None:
        self.count = 0
        self.go = asyncio.Event()
        self.go.set()

    async def __call__(self, scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        self.count += 1
        await self.go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


class Site:
    """A server with these limits on a port of its own."""

    def __init__(self, header_timeout: float | None) -> None:
        self.app = Asked()
        bound = bind_listen("127.0.0.1:0")
        self.port = bound.getsockname()[1]
        self.server = HttpServer(self.app, [bound], limits=WireLimits(header_timeout=header_timeout))

    async def __aenter__(self) -> Self:
        await self.server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await Client.close_all()
        await self.server.stop()

    async def wait(self, condition) -> None:  # type: ignore[no-untyped-def]
        async with asyncio.timeout(LIVENESS_SECONDS):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    @property
    def connections(self) -> list[http_protocol.GateProtocol]:
        return list(self.server._server.server_state.connections)  # type: ignore[arg-type]


async def test_a_connection_on_which_nothing_comes_is_closed_without_a_word() -> None:
    async with Site(0.02) as site:
        client = await Client.connect(site.port)
        assert await client.wait_closed() == b""


@pytest.mark.parametrize("begin", [b"G", b"\r", GET[:-1], GET[:20]])
async def test_half_a_head_is_told_so_and_closed(begin: bytes) -> None:
    async with Site(0.5) as site:
        client = await Client.connect(site.port)
        client.send(begin)
        head = await client.head()
        assert (head.status, head.headers["llmgate-code"]) == (408, "HEAD_TIMEOUT")
        assert site.app.count == 0


async def test_a_head_that_trickles_in_has_one_deadline_for_all_of_it() -> None:
    async with Site(0.5) as site:
        client = await Client.connect(site.port)
        for byte in b"GET / HTTP/1.1\r\nx: " + b"y" * 10_000:
            client.send(bytes([byte]))
            await asyncio.sleep(0.005)
            if not site.connections or client._reader._buffer:
                break
        assert (await client.head()).status == 408


async def test_the_deadline_begins_with_the_first_byte() -> None:
    """And ends with the head: a body may take longer. The timer is the same all along."""
    async with Site(60) as site:
        client = await Client.connect(site.port)
        await site.wait(lambda: site.connections)
        (connection,) = site.connections
        timer, first = connection._timer, connection._due
        await asyncio.sleep(0.01)
        client.send(GET[:5])
        await site.wait(lambda: connection._reader.has_half_a_head)
        second = connection._due
        assert second > first
        client.send(GET[5:20])
        await site.wait(lambda: len(connection._reader._head._kept) == 20)
        assert connection._due == second
        site.app.go.clear()
        client.send(GET[20:])
        await site.wait(lambda: site.app.count == 1)
        assert connection._then is None
        assert connection._timer is timer
        site.app.go.set()
        assert await client.body() == b"ok"


async def test_a_timer_that_rings_too_early_is_set_for_the_rest() -> None:
    async with Site(60) as site:
        client = await Client.connect(site.port)
        client.send(GET)
        assert await client.body() == b"ok"
        (connection,) = site.connections
        assert connection._timer is not None
        assert connection._timer.when() < connection._due - 10
        connection._timer.cancel()
        connection._ring()
        assert connection._timer.when() == pytest.approx(connection._due, abs=1)
        connection._timer.cancel()
        site.app.go.clear()
        client.next_answer()
        client.send(GET)
        await site.wait(lambda: site.app.count == 2)
        connection._ring()
        assert connection._timer is None, "nothing is due while a request is at work"
        site.app.go.set()
        assert await client.body() == b"ok"


async def test_the_next_head_has_its_deadline_too() -> None:
    async with Site(0.5) as site:
        client = await Client.connect(site.port)
        client.send(GET)
        assert await client.body() == b"ok"
        client.next_answer()
        client.send(GET[:30])
        assert (await client.head()).status == 408


async def test_without_a_limit_there_is_no_deadline() -> None:
    async with Site(None) as site:
        client = await Client.connect(site.port)
        client.send(GET[:30])
        await site.wait(lambda: site.connections and site.connections[0]._reader.has_half_a_head)
        assert site.connections[0]._timer is None
        client.send(GET[30:])
        assert await client.body() == b"ok"


async def test_an_idle_connection_is_closed_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "IDLE_SECONDS", 0.02)
    async with Site(10) as site:
        client = await Client.connect(site.port)
        client.send(GET)
        assert await client.body() == b"ok"
        assert await client.wait_closed() == b""


async def test_a_lost_connection_leaves_no_timer() -> None:
    async with Site(10) as site:
        client = await Client.connect(site.port)
        client.send(GET)
        await client.body()
        (connection,) = site.connections
        timer = connection._timer
        client.reset()
        await site.wait(lambda: not site.connections)
        assert timer is not None
        assert timer.cancelled()


async def test_an_early_answer_can_be_read_by_a_client_that_still_sends() -> None:
    """413 and the like: a close with unread input would reset the connection before the client has read why."""
    async with Site(10) as site:
        client = await Client.connect(site.port)
        client.send(POST)
        await client.head()
        for _ in range(50):
            client.send(b"x" * 20_000)
            await client._writer.drain()
        assert await client.wait_closed() == b"ok"


async def test_what_a_closing_client_sends_is_bounded_in_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "LINGER_BYTES", 100_000)
    async with Site(10) as site:
        client = await Client.connect(site.port)
        client.send(POST)
        assert await client.body() == b"ok"
        client.send(b"x" * 10_000_000)
        await site.wait(lambda: not site.connections)


async def test_and_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "LINGER_SECONDS", 0.02)
    async with Site(10) as site:
        client = await Client.connect(site.port)
        client.send(b"no HTTP\r\n\r\n")
        assert (await client.head()).status == 400
        await site.wait(lambda: not site.connections)


async def test_a_client_that_still_reads_its_answer_is_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "LINGER_SECONDS", 0.05)
    async with Site(10) as site:
        client = await Client.connect(site.port)
        client.send(b"no HTTP\r\n\r\n")
        await client.head()
        (connection,) = site.connections
        unsent = iter([9, 5, 1, 1])
        looked = []

        def look(_: object) -> int:
            looked.append(next(unsent))
            return looked[-1]

        monkeypatch.setattr(http_protocol.GateProtocol, "unsent", property(look))
        connection._wait_for_close(10)
        await site.wait(lambda: not site.connections)
        assert looked == [9, 5, 1, 1]


async def test_stopping_waits_for_no_client_that_was_refused() -> None:
    site = Site(10)
    async with site:
        client = await Client.connect(site.port)
        client.send(b"no HTTP\r\n\r\n")
        await client.head()
        broken = await Client.connect(site.port)
        site.app.go.clear()
        broken.send(b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nx\r\n")
        assert (await broken.head()).status == 400
        site.app.go.set()
        await site.server.stop()
        assert site.connections == []
