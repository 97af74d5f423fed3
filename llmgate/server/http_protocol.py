"""uvicorn's HTTP/1.1 protocol with four things that a gate cannot do without.

- A second request on a connection whose first is not answered yet (pipelining) is dropped and the connection closes
  after the first answer. uvicorn would stop reading instead, and so never learn that the waiting client has left.
- `scope["extensions"]["llmgate.connection"]` is an `asgi.Connection`. Its `abort` closes at once: a plain close waits
  for ever for a client that has stopped reading, and an answer that breaks off must not look complete.
- A request that offers an upgrade (Java's HttpClient and `curl --http2` offer h2c with every first one) is answered in
  HTTP/1.1, as RFC 9110 7.8 allows: the parser would take its body for the other protocol.
- A head is at most `HEAD_LIMIT` bytes long; beyond it the answer is 431 and the connection closes.
"""

import asyncio
import fcntl
import re
import struct
import sys
import termios

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from llmgate.server.asgi import CONNECTION
from llmgate.upstreams.peer import set_user_timeout, watch_peer

HEAD_LIMIT = 64 * 1024
_HEAD_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"

_OFFER = re.compile(rb"\r\nupgrade:", re.IGNORECASE)
_NO_OFFER = b"\r\nx-offer:"


class GateProtocol(HttpToolsProtocol):
    """One client connection."""

    user_timeout: float | None = 60.0
    """Seconds without an acknowledgement after which the kernel gives a client up; None = the kernel's own."""

    _pipelined = False
    _head_bytes = 0
    _in_head = False

    _watched = True
    """The kernel's user timeout is on."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        raw = transport.get_extra_info("socket")
        if raw is not None:
            watch_peer(raw, user_timeout=self.user_timeout)

    def data_received(self, data: bytes) -> None:
        if not self._is_answering:
            data = _OFFER.sub(_NO_OFFER, data)
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_LIMIT:
                self._refuse_head()

    def _refuse_head(self) -> None:
        if not self._is_answering:
            self.transport.write(_HEAD_TOO_LONG)
        self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {CONNECTION: self}  # type: ignore[dict-item]
        self._in_head, self._head_bytes = True, 0
        self._leave_to_kernel(True)
        if self._is_answering:
            self._pipelined = True
            self.cycle.keep_alive = False

    @property
    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    @property
    def is_behind(self) -> bool:
        """See asgi.Connection."""
        return bool(self.flow.write_paused)

    @property
    def unsent(self) -> int:
        """See asgi.Connection."""
        return 0 if self.transport.is_closing() else self.transport.get_write_buffer_size() + self._unacknowledged()

    def _unacknowledged(self) -> int:
        """What the kernel still holds for the client, where it tells; it frees room only in large steps."""
        raw = self.transport.get_extra_info("socket")
        if sys.platform != "linux" or raw is None or raw.fileno() < 0:
            return 0
        return int(struct.unpack("i", fcntl.ioctl(raw.fileno(), termios.TIOCOUTQ, b"\0" * 4))[0])

    async def wait_writable(self) -> None:
        """See asgi.Connection."""
        await self.flow.drain()

    def abort(self) -> None:
        """See asgi.Connection."""
        if self._is_answering:
            self.cycle.disconnected = True  # as it will be when that is told: an answer without an end is no fault now
        self.transport.abort()

    def pause_writing(self) -> None:
        self._leave_to_kernel(False)
        super().pause_writing()

    def on_response_complete(self) -> None:
        if self.unsent:
            self._leave_to_kernel(False)
        super().on_response_complete()

    def _leave_to_kernel(self, watched: bool) -> None:
        """A client that reads slowly is not gone, but the kernel gives it up: it counts from the moment in which the
        window closed, though it opens again and again, too little each time. So while much is on its way only our own
        clock counts, which looks for progress; that is until the next request on this connection."""
        if watched != self._watched:
            self._watched = watched
            raw = self.transport.get_extra_info("socket")
            if raw is not None and raw.fileno() >= 0:
                set_user_timeout(raw, self.user_timeout if watched else None)

    def on_headers_complete(self) -> None:
        self._in_head = False
        if not self._pipelined:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._pipelined:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._pipelined:
            super().on_message_complete()
