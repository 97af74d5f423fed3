"""A server on a Unix socket that says what the test wants, and what it heard."""

import asyncio
import re
from pathlib import Path

import pytest

from llmgate.adminapi import FeedItem, Status
from llmgate.adminclient import AdminClient
from llmgate.errors import AdminError

STATUS = Status(
    version="0.1.0", pid=1, started_at="", uptime_ms=1, now_at="", now_ms=5, state="running", listen=[], config="",
    socket="", upstreams=[],
)  # fmt: skip
ITEM = FeedItem(type="progress", number=3, now_ms=5)
SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
PATH = Path("/run/x.sock")


def answer(body: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body)


class Server:
    """Says `data` to everybody, then hangs up, unless `stays`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = b""
        self.stays = False
        self.heard: list[bytes] = []
        self.bodies: list[bytes] = []
        self.came = asyncio.Event()
        self.closed = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.heard.append(head)
            length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
            self.bodies.append(await reader.readexactly(int(length[1])) if length else b"")
        except asyncio.IncompleteReadError:
            writer.close()
            return
        self.came.set()
        writer.write(self.data)
        if self.stays:
            await reader.read()
        writer.close()
        self.closed.set()


async def failure(server: Server) -> str:
    with pytest.raises(AdminError) as caught:
        await asyncio.to_thread(AdminClient(server.path).status)
    return str(caught.value)


async def watched(server: Server) -> tuple[list[FeedItem], str]:
    """What came until the feed broke off, and why it did."""
    items: list[FeedItem] = []
    try:
        async with AdminClient(server.path).watch() as feed:
            while True:
                items.append(await anext(feed))
    except AdminError as error:
        return items, str(error)
