"""uvicorn's server as we run it: on our sockets, started and stopped by us, silent, and without timers of its own."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from rawclient import Client, CutOff

from llmgate.server.http_server import HttpServer
from llmgate.server.sockets import UnixSocket, bind_listen

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


class App:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.go.set()
        self.asked = 0
        self.cancelled = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked += 1
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok", "more_body": False})

    async def wait_asked(self, count: int) -> None:
        async with asyncio.timeout(10):
            while self.asked < count:  # noqa: ASYNC110
                await asyncio.sleep(0.001)


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture
async def served(app: App) -> AsyncIterator[tuple[HttpServer, int]]:
    bound = bind_listen("127.0.0.1:0")
    port = bound.getsockname()[1]
    server = HttpServer(app, [bound])
    await server.start()
    yield server, port
    await Client.close_all()
    await server.stop()


async def test_it_answers_without_saying_who_it_is(served: tuple[HttpServer, int]) -> None:
    client = await Client.connect(served[1])
    client.send(GET)
    assert (await client.head()).headers == {"content-length": "2"}
    assert await client.body() == b"ok"


async def test_it_listens_on_all_its_sockets_and_closes_them(app: App, tmp_path: Path) -> None:
    open_files = []
    for _ in range(3):
        with UnixSocket(tmp_path / "s", mode=0o600, private=False) as unix:
            tcp = bind_listen("127.0.0.1:0")
            server = HttpServer(app, [tcp, unix.bound])
            await server.start()
            for address in (tcp.getsockname(), str(tmp_path / "s")):
                await ask_at(address)
            await server.stop()
            assert (tmp_path / "s").stat().st_mode & 0o777 == 0o600
        open_files.append(len(os.listdir("/dev/fd")))
    assert open_files[1] == open_files[2], "a loop may keep some of its own from the first time on"


async def ask_at(address: Any) -> None:
    raw = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, address)
    reader, writer = await asyncio.open_connection(sock=raw)
    writer.write(GET)
    assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 OK")
    writer.close()
    await writer.wait_closed()


async def test_nobody_new_after_the_listeners_closed(served: tuple[HttpServer, int], app: App) -> None:
    server, port = served
    old = await Client.connect(port)
    old.send(GET)
    await old.body()
    server.close_listeners()
    await asyncio.sleep(0)
    with pytest.raises(ConnectionRefusedError):
        await Client.connect(port)
    old.next_answer()
    old.send(GET)
    assert await old.body() == b"ok"


async def test_stopping_closes_who_is_idle(served: tuple[HttpServer, int]) -> None:
    server, port = served
    client = await Client.connect(port)
    client.send(GET)
    await client.body()
    await server.stop()
    assert await client.wait_closed() == b""


async def test_stopping_lets_the_running_end_and_then_closes(served: tuple[HttpServer, int], app: App) -> None:
    server, port = served
    app.go.clear()
    client = await Client.connect(port)
    client.send(GET)
    await app.wait_asked(1)
    stopping = asyncio.ensure_future(server.stop())
    await asyncio.sleep(0.01)
    app.go.set()
    assert (await client.head()).headers["connection"] == "close"
    assert await client.body() == b"ok"
    await stopping
    assert app.cancelled == 0


async def test_after_a_second_it_cancels(
    served: tuple[HttpServer, int], app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, port = served
    monkeypatch.setattr(server._server.config, "timeout_graceful_shutdown", 0.02)
    app.go.clear()
    client = await Client.connect(port)
    client.send(GET)
    await app.wait_asked(1)
    await server.stop()
    assert (await client.head()).status == 500
    await client.body()
    client.next_answer()
    with pytest.raises(CutOff):
        await client.head()
    assert app.cancelled == 1


async def test_it_is_woken_by_nothing_while_nobody_asks(served: tuple[HttpServer, int]) -> None:
    """No task of its own: uvicorn's main loop, which ticks ten times a second, is not run."""
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux has it")
async def test_connections_have_their_timers_from_the_listening_socket(app: App) -> None:
    """Asked of the accepted socket itself: it is not set on each of them. A reload counts for those that come."""
    bound = bind_listen("127.0.0.1:0")
    server = HttpServer(app, [bound], stall_seconds=90)
    await server.start()

    async def told() -> list[int]:
        before = set(server._server.server_state.connections)
        client = await Client.connect(bound.getsockname()[1])
        client.send(GET)
        assert await client.body() == b"ok"
        (connection,) = set(server._server.server_state.connections) - before
        raw = connection.transport.get_extra_info("socket")
        tcp = (socket.TCP_USER_TIMEOUT, socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        return [raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)] + [
            raw.getsockopt(socket.IPPROTO_TCP, option) for option in tcp
        ]

    assert await told() == [1, 100_000, 30, 10, 3]
    server.set_stall(500)
    assert await told() == [1, 510_000, 30, 10, 3]
    server.close_listeners()
    server.set_stall(90)
    await Client.close_all()
    await server.stop()
