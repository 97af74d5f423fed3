"""A raw client of the simulated server: what it sends and gets is seen byte by byte."""

import asyncio
import json
from typing import Any

import pytest


class Wire:
    """One connection to a simulated server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int) -> "Wire":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def post(self, path: str = "/v1/messages", *, call_id: str = "", headers: str = "", **fields: Any) -> None:
        body = json.dumps({"model": "m", "stream": True, "messages": []} | fields)
        marked = f"llmgate-request-id: {call_id}\r\n" if call_id else ""
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n{marked}{headers}\r\n"
        self.writer.write((head + body).encode())

    def get(self, path: str) -> None:
        self.writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())

    async def head(self) -> str:
        return (await self.reader.readuntil(b"\r\n\r\n")).decode()

    async def until(self, end: bytes) -> bytes:
        return await self.reader.readuntil(end)

    async def answer(self) -> tuple[int, Any]:
        """Status and JSON of an answer with a Content-Length."""
        head = await self.head()
        length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
        return int(head.split()[1]), json.loads(await self.reader.readexactly(length))

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


@pytest.fixture
def wire() -> type[Wire]:
    return Wire
