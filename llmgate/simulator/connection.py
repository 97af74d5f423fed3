"""One client's connection to a simulated server: HTTP/1.1 in and out, told at once when the client is gone."""

import asyncio
import http.client
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import httptools

MAX_BODY = 64 * 1024 * 1024


@dataclass
class Request:
    """One request as it came in; header names in lower case."""

    method: str = ""
    path: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


Handle = Callable[["Connection", Request], None]
Track = Callable[["Connection", bool], None]
"""Told True when a connection is there, False when it is gone."""


class Connection(asyncio.Protocol):
    """Reads one request at a time and hands it to `handle`; a second one before the answer is over ends the connection.

    Whoever answers sets `on_lost` and `on_writable` for as long as its answer runs.
    """

    def __init__(self, handle: Handle, track: Track) -> None:
        self._handle = handle
        self._track = track
        self._parser = httptools.HttpRequestParser(self)
        self._request = Request()
        self._pieces: list[bytes] = []
        self._size = 0
        self._busy = False
        self._last = False
        self.writable = True
        self.on_lost: Callable[[], None] | None = None
        self.on_writable: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._track(self, True)

    def connection_lost(self, _exc: Exception | None) -> None:
        self._track(self, False)
        if self.on_lost is not None:
            self.on_lost()

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        if self.on_writable is not None:
            self.on_writable()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.abort()

    def on_message_begin(self) -> None:
        self._request = Request()
        self._pieces = []
        self._size = 0
        if self._busy:
            self.abort()

    def on_url(self, url: bytes) -> None:
        self._request.path += url.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._request.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        self._size += len(body)
        if self._size > MAX_BODY:
            self.abort()

    def on_message_complete(self) -> None:
        if self._transport.is_closing():
            return
        request = self._request
        request.method = self._parser.get_method().decode("latin-1")
        request.path = request.path.partition("?")[0]
        request.body = b"".join(self._pieces)
        self._busy = True
        self._last = not self._parser.should_keep_alive()
        self._handle(self, request)

    def respond(
        self, status: int, body: bytes, *, written: int | None = None, content_type: str = "application/json"
    ) -> None:
        """Send a whole answer; with `written`, only that many bytes of its body, and no end."""
        self._head(status, b"content-type: %b\r\ncontent-length: %d\r\n" % (content_type.encode(), len(body)))
        self._transport.write(body[:written])
        if written is None:
            self._over()

    def open_stream(self, content_type: str = "text/event-stream") -> None:
        """Send the headers of a stream; `chunk` and `end_stream` follow."""
        headers = f"content-type: {content_type}\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n"
        self._head(200, headers.encode())

    def chunk(self, data: bytes) -> None:
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def end_stream(self) -> None:
        self._transport.write(b"0\r\n\r\n")
        self._over()

    def close(self) -> None:
        """Close once what was written has gone out."""
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def _head(self, status: int, headers: bytes) -> None:
        phrase = http.client.responses.get(status, "Failed")
        last = b"connection: close\r\n" if self._last else b""
        self._transport.write(b"HTTP/1.1 %d %b\r\n%b%b\r\n" % (status, phrase.encode(), headers, last))

    def _over(self) -> None:
        self._busy = False
        self.on_lost = None
        self.on_writable = None
        if self._last:
            self._transport.close()
