"""uvicorn's HTTP/1.1 protocol with what a gate cannot do without. Invariants:

- The parser sees whole, checked heads and plainly framed bodies only, of one request at a time (RequestReader).
- Reading never stops while a request waits: what comes too early (pipelining) is dropped, and the connection closes
  after the first answer. uvicorn would stop reading instead, and so never learn that the waiting client has left.
- Every state but that of a request at work has a deadline: no first byte, half a head, nothing after an answer, and a
  close whose client does not close. One timer serves them all; it is not set anew for each of them: when it rings too
  early it is set for the rest. The body's deadline is that of whoever reads it.
- What the kernel must know of a connection it has from its listening socket: see HttpServer.
- A connection with unread input is not closed before its client had time to read the answer: the kernel would send a
  reset, which can overtake it. Until then what comes is thrown away, for a bounded time and a bounded size.
- `scope["extensions"]["llmgate.connection"]` is an `asgi.Connection`. Its `abort` closes at once: a plain close waits
  for ever for a client that has stopped reading, and an answer that breaks off must not look complete.
"""

import asyncio
import fcntl
import re
import sys
import termios
import urllib.parse
from collections.abc import Callable

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from llmgate.core.bodies import Bodies
from llmgate.core.closing import UNBEGUN
from llmgate.core.lateness import REREAD_SECONDS, is_late
from llmgate.errors import BadRequest, GateError, HeadTimeout, Refused, TooManyBodies
from llmgate.peer import set_user_timeout
from llmgate.protocols.request_reader import RequestReader
from llmgate.protocols.wire_answer import wire_answer
from llmgate.server.asgi import CONNECTION
from llmgate.server.cycle import Cycle

IDLE_SECONDS = 75.0
"""How long a connection is kept for another request."""

LINGER_SECONDS = 5.0
LINGER_BYTES = 64 << 20
"""A client that sends its whole body before it looks for an answer is let do so, up to the largest usual body."""
HEAD_LINGER_BYTES = 1 << 20
"""Nobody sends more of a head before it looks."""

RETRY_SECONDS = 1

_TICK = 0.001
"""A loop's clock is no finer."""

_SLASH = re.compile("%2f", re.IGNORECASE)

_BLANK = (b"\r\n", b"\r", b"\n")
"""What some clients send behind a body; it is no request."""


class GateProtocol(HttpToolsProtocol):
    """One client connection."""

    user_timeout: float | None = 60.0
    """Seconds without an acknowledgement after which the kernel gives a client up; None = the kernel's own."""
    header_timeout: float | None = 10.0
    """Seconds to the first byte of a new connection, and from there to the end of a head; None = no limit."""
    bodies = Bodies(None)
    """What all connections together hold."""

    cycle: Cycle | None  # type: ignore[assignment]

    _held = 0
    """Bytes of this request's body that count in `bodies`."""
    _has_dropped = False
    """Something came before its time."""
    _lingered: int | None = None
    """Bytes thrown away since the last answer; None = the connection is not closing yet."""
    _timer: asyncio.TimerHandle | None = None
    _due = 0.0
    _then: Callable[[], object] | None = None
    """What happens when the loop's clock says `_due`; None: nothing does."""
    _watched = True
    """The kernel's user timeout is on."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Instead of uvicorn's, which asks the kernel for what the transport knows."""
        self.connections.add(self)
        self.transport = transport
        self.flow = FlowControl(transport)
        peer, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        self.client = peer[:2] if isinstance(peer, tuple) else None
        self.server = own[:2] if isinstance(own, tuple) else (own, None)
        self.scheme = "https" if transport.get_extra_info("ssl_object") is not None else "http"
        self._reader = RequestReader()
        self._arm(self.header_timeout, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._arm(None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._release_body()
        super().connection_lost(exc)
        self.scope = None  # type: ignore[assignment]  # it knows this connection

    # ---- what comes

    def data_received(self, data: bytes) -> None:
        if self._lingered is not None:
            self._throw_away(len(data))
            return
        if self._is_answering and self._reader.is_complete:
            self._drop(data)
            return
        began_before = self._reader.has_half_a_head
        try:
            wanted, early = self._reader.feed(data)
            if wanted:
                self.parser.feed_data(wanted)
        except GateError as error:
            self.refuse(error)
        except httptools.HttpParserInvalidMethodError:
            unknown = BadRequest("llmgate: no path here takes this method (BAD_REQUEST)")
            unknown.status = 501
            self.refuse(unknown)
        except httptools.HttpParserError:
            self.refuse(BadRequest("llmgate: the request cannot be read (BAD_REQUEST)"))
        else:
            if early:
                self._drop(early)
            if self._reader.has_half_a_head and not began_before:
                self._arm(self.header_timeout, self._time_out)

    def _drop(self, data: bytes) -> None:
        """What comes before the answer is there belongs to no request; a blank line is none."""
        if data not in _BLANK and self.cycle is not None:
            self.cycle.keep_alive = False
            self._has_dropped = True

    def _time_out(self) -> None:
        self.refuse(HeadTimeout("llmgate: the head of the request did not arrive in time (HEAD_TIMEOUT)"))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {CONNECTION: self}  # type: ignore[dict-item]
        self._arm(None)
        self._leave_to_kernel(True)

    def on_headers_complete(self) -> None:
        version = self.parser.get_http_version()
        path, _, query = self.url.partition(b"?")
        text = path.decode("ascii")
        self.scope["method"] = self.parser.get_method().decode("ascii")
        self.scope["http_version"] = version
        self.scope["path"] = _decoded(text) if "%" in text else text
        self.scope["raw_path"] = path
        self.scope["query_string"] = query
        self.cycle = Cycle(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=[],
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue and version != "1.0",
            keep_alive=self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        self._start_asgi_task(self.cycle, self.app)

    def on_body(self, body: bytes) -> None:
        cycle = self.cycle
        if cycle is None or cycle.response_complete or self._lingered is not None:
            return
        self._held += len(body)
        if not self.bodies.take(len(body)):
            self.refuse(TooManyBodies("llmgate: too many requests are held in memory (TOO_MANY_BODIES)"))
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.more_body = cycle.waiting_for_100_continue = False
            cycle.message_event.set()

    # ---- the answer and the end

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        self._release_body()
        if self.unsent:
            self._leave_to_kernel(False)
        if self.transport.is_closing() or self.cycle is None:
            return
        if self.cycle.keep_alive and self._reader.is_complete:
            self._reader.next()
            self.flow.resume_reading()
            self._arm(IDLE_SECONDS, self.transport.close)
        elif self._reader.is_complete and not self._has_dropped:
            self.transport.close()
        else:
            self._linger()

    def refuse(self, error: GateError) -> None:
        """Ends what is there with this answer, unless another one has begun, and closes."""
        if self._lingered is not None or self.transport.is_closing():
            return
        has_begun = False
        if self.cycle is not None and not self.cycle.response_complete:
            has_begun = self.cycle.response_started
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if has_begun:
            self.transport.abort()
            return
        self._release_body()
        self.transport.write(wire_answer(error, RETRY_SECONDS if isinstance(error, TooManyBodies) else None))
        self._linger()

    def _linger(self) -> None:
        """The answer is written: gives its client time to read it."""
        self._lingered = 0
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._wait_for_close(self.unsent)

    def _wait_for_close(self, unsent: int) -> None:
        self._arm(LINGER_SECONDS, lambda: self._end_linger(unsent))

    def _end_linger(self, unsent_before: int) -> None:
        """A client that still takes some of the answer is not late."""
        if 0 < (unsent := self.unsent) < unsent_before:
            self._wait_for_close(unsent)
        else:
            self.transport.abort()

    def _throw_away(self, size: int) -> None:
        self._lingered = (self._lingered or 0) + size
        if self._lingered > (HEAD_LINGER_BYTES if self._reader.is_in_head else LINGER_BYTES):
            self.transport.abort()

    def shutdown(self) -> None:
        """The server stops: closes when the answer that is under way is written, at once where there is none. Whose
        body is not whole is told, for nobody will read it."""
        if not self._is_answering or self.cycle is None or self.cycle.disconnected:
            self.transport.close()
        elif self._reader.is_complete or self.cycle.response_started:
            self.cycle.keep_alive = False
        else:
            self.refuse(Refused(UNBEGUN))

    def abort(self) -> None:
        """See asgi.Connection."""
        if self._is_answering and self.cycle is not None:
            self.cycle.disconnected = True  # as it will be when that is told: an answer without an end is no fault now
        self.transport.abort()

    def _release_body(self) -> None:
        self.bodies.give(self._held)
        self._held = 0

    def _arm(self, seconds: float | None, then: Callable[[], object] | None = None) -> None:
        """The one deadline that holds now; None = there is none."""
        self._then = then
        if seconds is None:
            self._then = None
            return
        self._due = self.loop.time() + seconds
        if self._timer is not None:
            if self._timer.when() <= self._due:
                return
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self._ring)

    def _ring(self) -> None:
        self._timer = None
        then = self._then
        if then is None:
            return
        now = self.loop.time()
        if is_late(now, self._due):  # everything stood still: what came meanwhile is to be read first
            self._due = now + REREAD_SECONDS
        if (left := self._due - now) > _TICK:
            self._timer = self.loop.call_later(left, self._ring)
        else:
            self._then = None
            then()

    # ---- how much is on its way

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
        if sys.platform != "linux" or raw is None or (number := raw.fileno()) < 0:
            return 0
        return int.from_bytes(fcntl.ioctl(number, termios.TIOCOUTQ, b"\0" * 4), sys.byteorder)

    async def wait_writable(self) -> None:
        """See asgi.Connection."""
        await self.flow.drain()

    def pause_writing(self) -> None:
        self._leave_to_kernel(False)
        super().pause_writing()

    def _leave_to_kernel(self, watched: bool) -> None:
        """A client that reads slowly is not gone, but the kernel gives it up: it counts from the moment in which the
        window closed, though it opens again and again, too little each time. So while much is on its way only our own
        clock counts, which looks for progress; that is until the next request on this connection."""
        if watched != self._watched:
            self._watched = watched
            raw = self.transport.get_extra_info("socket")
            if raw is not None and raw.fileno() >= 0:
                set_user_timeout(raw, self.user_timeout if watched else None)


def _decoded(path: str) -> str:
    """A path without its percent-encodings, but for that of a slash, which stays "%2F": it is a part of a segment, and
    divides none (RFC 3986, 2.2), so that such a path is not the one that it looks like without it."""
    return "%2F".join(urllib.parse.unquote(part) for part in _SLASH.split(path))
