"""One request and its answer on a client's connection: uvicorn's, with what HTTP/1.0 and an early answer need.

- An answer that begins before the request is here to its end is the last one on its connection, and says so.
- HTTP/1.0 knows no chunks: an answer without a length ends with the connection. A connection is kept for another
  request only where the client asked for that, and is told.
- The head goes out with what follows in the same turn of the loop: each write is a segment, and a call of the kernel.
- Whether and how the connection is closed after the answer is the protocol's to decide, in `on_response`.
"""

import asyncio
import functools
from typing import Any

from uvicorn.protocols.http.httptools_impl import HEADER_RE, HEADER_VALUE_RE, STATUS_LINE, RequestResponseCycle

from llmgate.errors import GateError
from llmgate.protocols.wire_answer import wire_body
from llmgate.server.asgi import INTERNAL, JSON

_NO_BODY = (204, 304)
_CLOSE = (b"connection", b"close")
_NO_HEADER = "a header of an answer holds what no header may hold"


@functools.lru_cache(maxsize=1024)
def _checked_name(name: bytes) -> bytes:
    """In lower case; the same few come again and again."""
    if HEADER_RE.search(name):
        raise RuntimeError(_NO_HEADER)
    return name.lower()


class Cycle(RequestResponseCycle):
    """See RequestResponseCycle; `keep_alive` is false after an answer that is the last one."""

    _until_close = False
    """The answer has neither length nor chunks."""
    _head = b""
    """Not written yet."""

    async def run_asgi(self, app: Any) -> None:
        """uvicorn's. The scope knows the connection, which knows the scope, to the end of the request and no longer."""
        try:
            await super().run_asgi(app)
        finally:
            self.scope.pop("extensions", None)

    async def send_500_response(self) -> None:
        """Instead of uvicorn's, which is a line of text: no client reads that as an error."""
        error = GateError(INTERNAL)
        body = wire_body(error)
        length, code = (b"content-length", b"%d" % len(body)), (b"llmgate-code", error.code.encode())
        await self.send({"type": "http.response.start", "status": 500, "headers": [JSON, length, code, _CLOSE]})
        await self.send({"type": "http.response.body", "body": body})

    async def send(self, message: Any) -> None:
        """ASGI's send."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if self.response_complete:
            raise RuntimeError("something is sent behind the end of an answer")
        wanted = "http.response.body" if self.response_started else "http.response.start"
        if message["type"] != wanted:
            raise RuntimeError(f"{wanted} has to be sent, not {message['type']}")
        if self.response_started:
            self._send_body(message.get("body", b""), more=message.get("more_body", False))
        else:
            self._send_head(message["status"], message.get("headers", ()))

    def _send_head(self, status: int, headers: Any) -> None:
        self.response_started = True
        self.waiting_for_100_continue = False
        pieces = [STATUS_LINE[status]]
        says_close = False
        for name, value in headers:
            lower = _checked_name(name)
            if HEADER_VALUE_RE.search(value):
                raise RuntimeError(_NO_HEADER)
            if lower == b"content-length":
                self.chunked_encoding = False
                self.expected_content_length = int(value)
            elif lower == b"connection":
                says_close = b"close" in value.lower()
            pieces += (lower, b": ", value, b"\r\n")
        pieces.append(self._framing(status, says_close=says_close))
        self._head = b"".join(pieces)
        asyncio.get_running_loop().call_soon(self._write)

    def _framing(self, status: int, *, says_close: bool) -> bytes:
        """The rest of the head: how the end of the answer is told, and whether the connection is kept."""
        is_old = self.scope["http_version"] == "1.0"
        framing = b""
        if self.chunked_encoding is None and self.scope["method"] != "HEAD" and status not in _NO_BODY:
            self.chunked_encoding = not is_old
            self._until_close = is_old
            framing = b"" if is_old else b"transfer-encoding: chunked\r\n"
        if self.more_body or says_close or self._until_close:
            self.keep_alive = False
        if self.keep_alive:
            return framing + (b"connection: keep-alive\r\n\r\n" if is_old else b"\r\n")
        return framing + (b"\r\n" if says_close else b"connection: close\r\n\r\n")

    def _send_body(self, body: bytes, *, more: bool) -> None:
        if self.scope["method"] == "HEAD":
            self.expected_content_length = 0
        elif self.chunked_encoding:
            self._send_chunk(body, more=more)
        elif body:
            self._count(len(body))
            self._write(body)
        if not more:
            if self.expected_content_length:
                raise RuntimeError("an answer is shorter than it said")
            self._write()
            self.response_complete = True
            self.message_event.set()
            self.on_response()

    def _send_chunk(self, body: bytes, *, more: bool) -> None:
        pieces = [b"%x\r\n" % len(body), body, b"\r\n"] if body else []
        if not more:
            pieces.append(b"0\r\n\r\n")
        self._write(b"".join(pieces))

    def _write(self, data: bytes = b"") -> None:
        """Behind the head, where that is not out."""
        head, self._head = self._head, b""
        if head and not self.transport.is_closing():
            self.transport.writelines((head, data) if data else (head,))
        elif data:
            self.transport.write(data)

    def _count(self, size: int) -> None:
        if self._until_close:
            return
        if size > self.expected_content_length:
            raise RuntimeError("an answer is longer than it said")
        self.expected_content_length -= size
