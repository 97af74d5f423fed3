"""One raw HTTP/1.1 connection of a client: every byte it gets is kept, and it can leave in every way a client can."""

import asyncio
import contextlib
import json
import socket
import ssl
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from puppet import LIVENESS_SECONDS

_HEARD = 1 << 20


class CutOff(Exception):
    """The connection ended before the answer did."""


@dataclass(frozen=True)
class Head:
    status: int
    headers: dict[str, str]
    """Names in lower case."""


class _Reader(asyncio.StreamReader):
    read_at = 0.0

    def feed_data(self, data: bytes) -> None:
        self.read_at = time.monotonic()
        super().feed_data(data)


class Client:
    """Sends what it is told to. Of an answer `head` comes first, then `frame` again and again, or `body`."""

    opened: ClassVar[list["Client"]] = []
    """All that were made and not closed by `close_all`."""

    def __init__(self, reader: "_Reader", writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._head: Head | None = None
        self._unread = b""
        self._ended = False
        self.opened.append(self)
        self.received = b""
        """Of the body, without its chunk sizes."""

    @classmethod
    async def connect(
        cls, where: int | str, *, receive_buffer: int | None = None, tls: ssl.SSLContext | None = None
    ) -> Self:
        """To a port of this machine, or a Unix socket. With `receive_buffer` bytes in the kernel it is soon full, when
        nothing is read. With `tls` it shakes hands first."""
        raw = socket.socket() if isinstance(where, int) else socket.socket(socket.AF_UNIX)
        if receive_buffer is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        raw.setblocking(False)
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_connect(raw, ("127.0.0.1", where) if isinstance(where, int) else where)
        except BaseException:
            raw.close()
            raise
        reader = _Reader(2**16 if receive_buffer is None else 4096)
        name = "127.0.0.1" if tls is not None else None
        transport, protocol = await loop.create_connection(
            lambda: asyncio.StreamReaderProtocol(reader), sock=raw, ssl=tls, server_hostname=name
        )
        return cls(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    @classmethod
    async def close_all(cls) -> None:
        """At the end of a test."""
        for client in cls.opened:
            client._writer.transport.abort()
        for client in cls.opened:
            with contextlib.suppress(OSError):
                await client._writer.wait_closed()
        cls.opened.clear()

    # ---- sending

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    def post(self, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send(post(path, body, headers))

    def fin(self) -> None:
        """Closes: FIN, and RST to whatever still comes."""
        self._writer.close()

    def reset(self) -> None:
        """RST."""
        raw = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def half_close(self) -> None:
        """FIN, and goes on reading."""
        self._writer.write_eof()

    # ---- reading

    @property
    def heard(self) -> str:
        """Headers and body of its newest answer, as far as they were read; the first of a very long one."""
        headers = str(self._head.headers) if self._head is not None else ""
        return headers + self.received[:_HEARD].decode(errors="replace")

    @property
    def read_at(self) -> float:
        """When the newest bytes came, on the monotonic clock."""
        return self._reader.read_at

    def next_answer(self) -> None:
        """The answer before was read whole: `head` is that of the next one on this connection."""
        self._head = None
        self._ended = False
        self._unread = self.received = b""

    async def head(self) -> Head:
        """Status and headers."""
        if self._head is None:
            lines = (await self._until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            pairs = [line.partition(":") for line in lines[1:] if line]
            headers = {name.lower(): value.strip() for name, _, value in pairs}
            self._head = Head(int(lines[0].split()[1]), headers)
        return self._head

    async def chunk(self) -> bytes:
        """The next chunk of the body; b"" is its regular end, and comes again when asked again."""
        await self.head()
        if self._ended:
            return b""
        size = int(await self._until(b"\r\n"), 16)
        data = (await self._exactly(size + 2))[:-2]
        self._ended = not size
        self.received += data
        return data

    async def frame(self) -> bytes:
        """The next event or comment with its blank line; b"" at the regular end of the body."""
        return await self._piece(b"\n\n")

    async def line(self) -> bytes:
        """The next line of a stream of lines; b"" at the regular end of the body."""
        return await self._piece(b"\n")

    async def _piece(self, end: bytes) -> bytes:
        while end not in self._unread:
            data = await self.chunk()
            if not data:
                assert not self._unread, f"half an event before the end: {self._unread!r}"
                return b""
            self._unread += data
        piece, _, self._unread = self._unread.partition(end)
        return piece + end

    async def frames(self) -> list[bytes]:
        """All that are left."""
        found = []
        while frame := await self.frame():
            found.append(frame)
        return found

    async def until(self, name: str) -> list[bytes]:
        """All frames up to the first event of this name, which is the last one of them."""
        found = [await self.frame()]
        while name_of(found[-1]) != name:
            assert found[-1], f"no {name} in {found}"
            found.append(await self.frame())
        return found

    async def body(self) -> bytes:
        """The rest of the body, however it is framed."""
        head = await self.head()
        length = head.headers.get("content-length")
        if length is not None:
            self.received = await self._exactly(int(length))
            return self.received
        while await self.chunk():
            pass
        return self.received

    async def json(self) -> Any:
        return json.loads(await self.body())

    async def wait_closed(self) -> bytes:
        """What came until the other side closed."""
        async with asyncio.timeout(LIVENESS_SECONDS):
            return await self._reader.read()

    async def _until(self, end: bytes) -> bytes:
        try:
            async with asyncio.timeout(LIVENESS_SECONDS):
                return (await self._reader.readuntil(end)).removesuffix(end)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise CutOff from error

    async def _exactly(self, count: int) -> bytes:
        try:
            async with asyncio.timeout(LIVENESS_SECONDS):
                return await self._reader.readexactly(count)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise CutOff from error


def post(path: str, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
    """The bytes of one request."""
    named = {"host": "127.0.0.1", "content-type": "application/json", "content-length": str(len(body))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in {**named, **(headers or {})}.items())
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


def name_of(frame: bytes) -> str:
    """The event's name; ":" of a comment, "" where there is none."""
    if frame.startswith(b":"):
        return ":"
    first = frame.split(b"\n", 1)[0]
    return first.removeprefix(b"event: ").decode() if first.startswith(b"event: ") else ""


def data_of(frame: bytes) -> Any:
    """The JSON of an event's data."""
    return json.loads(frame.split(b"data: ", 1)[1])


def names_of(frames: list[bytes]) -> list[str]:
    return [name_of(frame) for frame in frames]


def positions_of(frames: list[bytes]) -> list[tuple[int, int]]:
    """Position and depth of each queue event."""
    told = [data_of(frame) for frame in frames if name_of(frame) == "queue"]
    return [(data["position"], data["depth"]) for data in told]
