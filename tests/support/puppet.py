"""A scripted upstream: does exactly what a test tells it on each connection, and keeps a ledger of what it saw.

    async def script(connection: Connection) -> None:
        request = await connection.read_request()
        await connection.send(b"HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\n", b"o", b"k")

    async with Puppet(script) as puppet:
        ... puppet.url ... puppet.requests ... puppet.open_connections

A script runs once per connection and may loop for the next request. When it returns, the connection stays open until
the client closes it. An exception in a script fails the test when the puppet is closed.
"""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Self, cast

LIVENESS_SECONDS = 30.0
"""Bound for whatever a test waits for; only a broken program comes near it."""


@dataclass(frozen=True)
class Request:
    head: bytes
    body: bytes

    @property
    def line(self) -> bytes:
        return self.head.split(b"\r\n", 1)[0]

    def header(self, name: bytes) -> bytes | None:
        """The value of the first header of this name, written in lower case."""
        for line in self.head.split(b"\r\n")[1:]:
            key, _, value = line.partition(b":")
            if key.lower() == name:
                return value.strip()
        return None


class Connection(asyncio.Protocol):
    """One connection as the server sees it."""

    def __init__(self, puppet: "Puppet") -> None:
        self.puppet = puppet
        self.number = len(puppet.connections)
        """0 for the first one."""
        self.received = bytearray()
        """Every byte that came."""
        self.requests: list[Request] = []
        self.lost: Exception | None = None
        """ConnectionResetError after the client's RST."""
        self.is_open = True
        self._read_to = 0
        self._writable = asyncio.Event()
        self._writable.set()
        self._news = asyncio.Event()

    # what a script does

    async def read_request(self) -> Request:
        """The next request with its whole body; ConnectionError when the client closed instead."""
        while True:
            request = self._cut_request()
            if request is not None:
                self.requests.append(request)
                self.puppet.requests.append(request)
                return request
            if not self.is_open:
                raise ConnectionError("the client closed")
            await self._wait_news()

    async def read_bytes(self, count: int) -> None:
        """Until so many bytes came in all."""
        while len(self.received) < count and self.is_open:
            await self._wait_news()

    async def send(self, *pieces: bytes) -> None:
        """Each piece leaves by itself, and the loop turns between two: a client in the same loop reads them apart."""
        for piece in pieces:
            if not self.is_open:
                raise ConnectionError("the client closed")
            self.transport.write(piece)
            await self._writable.wait()
            await turn()

    def close(self) -> None:
        """FIN, after what was sent."""
        self.transport.close()

    def reset(self) -> None:
        """RST: what the client has not read yet is lost to it."""
        fd = self.transport.get_extra_info("socket").fileno()
        with socket.socket(fileno=socket.dup(fd)) as twin:
            twin.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    async def wait_closed(self) -> None:
        while self.is_open:
            await self._wait_news()

    # what the loop tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.puppet.on_connection(self)

    def data_received(self, data: bytes) -> None:
        self.received += data
        self._news.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self.lost = exc
        self._writable.set()
        self._news.set()
        self.puppet.on_news()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # own

    def _cut_request(self) -> Request | None:
        head_end = self.received.find(b"\r\n\r\n", self._read_to)
        if head_end < 0:
            return None
        head = bytes(self.received[self._read_to : head_end])
        length = int(Request(head, b"").header(b"content-length") or 0)
        body_end = head_end + 4 + length
        if len(self.received) < body_end:
            return None
        self._read_to = body_end
        return Request(head, bytes(self.received[head_end + 4 : body_end]))

    async def _wait_news(self) -> None:
        self._news.clear()
        await self._news.wait()


Script = Callable[[Connection], Awaitable[None]]


class Puppet:
    """Listens on a port of its own on 127.0.0.1, or on one that is held for it; with TLS if a context is given."""

    def __init__(self, script: Script, *, ssl_context: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.script = script
        self.connections: list[Connection] = []
        self.requests: list[Request] = []
        """Of all connections, in the order in which scripts read them."""
        self.port = port
        self._ssl_context = ssl_context
        self._tasks: list[asyncio.Task[None]] = []
        self._server: asyncio.Server | None = None
        self._news = asyncio.Event()

    @property
    def url(self) -> str:
        return f"{'https' if self._ssl_context else 'http'}://127.0.0.1:{self.port}"

    @property
    def open_connections(self) -> int:
        return sum(connection.is_open for connection in self.connections)

    async def wait(self, condition: Callable[[], bool]) -> None:
        """Until it holds; looked at whenever a connection comes or goes, and once in a while."""
        async with asyncio.timeout(LIVENESS_SECONDS):
            while not condition():
                self._news.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.01):
                        await self._news.wait()

    async def wait_all_closed(self) -> None:
        await self.wait(lambda: self.open_connections == 0)

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self),
            "127.0.0.1",
            self.port,
            ssl=self._ssl_context,
            backlog=1024,
            reuse_address=True,
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        await self._stop_accepting(self._server)
        self._server.close()
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in self.connections:
            if connection.is_open:
                connection.transport.abort()
        await self.wait_all_closed()
        await self._server.wait_closed()
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, ConnectionError):
                raise result

    @staticmethod
    async def _stop_accepting(server: asyncio.Server) -> None:
        """A connection that is just being accepted while its server is closed would never be closed itself."""
        loop = asyncio.get_running_loop()
        if isinstance(loop, asyncio.SelectorEventLoop):
            for listener in server.sockets:
                loop.remove_reader(listener.fileno())
            await turn(5)

    def on_connection(self, connection: Connection) -> None:
        self.connections.append(connection)
        self._tasks.append(asyncio.get_running_loop().create_task(self._run(connection)))
        self.on_news()

    def on_news(self) -> None:
        self._news.set()

    async def _run(self, connection: Connection) -> None:
        await self.script(connection)


async def turn(times: int = 3) -> None:
    """Lets everything that is ready in this loop happen, reads of sockets included."""
    for _ in range(times):
        await asyncio.sleep(0)


@contextlib.contextmanager
def refusing_port() -> Iterator[int]:
    """A port on 127.0.0.1 where connections are refused, and that nobody else gets meanwhile."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@contextlib.contextmanager
def deaf_port() -> Iterator[int]:
    """A port on 127.0.0.1 whose backlog is full: connecting hangs, neither accepted nor refused."""
    with socket.socket() as listener, contextlib.ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
