"""TLS between a client's connection and what speaks HTTP on it. Invariants:

- It stands in the loop's own transport as its protocol, and before the HTTP protocol as its transport, the same on
  every loop: half closes, aborts, the deadline of a handshake and what is unsent are ours to say. OpenSSL does the
  rest.
- What is written goes out in the same call, in one piece.
- The HTTP protocol is told of a connection once its handshake is over; until then this one counts among the
  connections. From there on it lives as long as the connection below: that one is lost first.
- A client's end is its goodbye (close_notify) or the end of its connection, whichever comes first. Ours is both; but an
  abort says no goodbye, so that an answer that is cut off does not look complete.
- Whoever speaks plain HTTP is told so in plain HTTP.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable, Iterable
from typing import Any, Protocol, cast

from llmgate.core.lateness import REREAD_SECONDS, is_late
from llmgate.errors import BadRequest, GateError
from llmgate.peer import is_tcp

logger = logging.getLogger("llmgate")

ALERT = b"\x15\x03\x01\x00\x02\x02\x50"
"""A fatal internal_error (RFC 8446, 6.2): all that can be said to a client that is turned away before its handshake."""

PLAIN = "llmgate: this port speaks HTTPS: begin the URL with https:// (BAD_REQUEST)"

_HANDSHAKE = 0x16
"""The type of the first record of every client (RFC 8446, 5.1)."""
_READ = 1 << 18


class Secured(Protocol):
    """What speaks HTTP: an asyncio.Protocol that can refuse."""

    def connection_made(self, transport: asyncio.Transport) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def eof_received(self) -> bool | None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def refuse(self, error: GateError) -> None: ...


class TlsConnection(asyncio.Protocol, asyncio.Transport):
    """One client connection. On a Unix socket it steps aside."""

    _lower: asyncio.Transport
    _inner: Secured

    def __init__(
        self, inner: Secured, context: ssl.SSLContext, connections: set[Any], handshake_timeout: float | None
    ) -> None:
        """`connections`: those that stand; `handshake_timeout` in seconds, None = no limit."""
        super().__init__()
        self._inner = inner
        self._connections = connections
        self._seconds = handshake_timeout
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._engine = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._timer: asyncio.TimerHandle | None = None
        self._began = False
        self._stands = False
        """The handshake is over."""
        self._ended = False
        """We have said goodbye."""

    # ---- the loop's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._lower = lower = cast("asyncio.Transport", transport)
        if not is_tcp(lower.get_extra_info("socket")):
            self._step_aside()
            return
        self._connections.add(self)
        if self._seconds is not None:
            self._call_later(self._seconds, self._time_out)

    def data_received(self, data: bytes) -> None:
        if not self._began:
            self._began = True
            if data[0] != _HANDSHAKE:
                self._answer_plainly(data)
                return
        if self._ended:  # thrown away; but how much comes is looked at
            self._inner.data_received(data)
            return
        self._incoming.write(data)
        if self._stands or self._shake_hands():
            self._read()

    def eof_received(self) -> bool | None:
        if not self._stands:
            self._tell("it left in its handshake")
            return None
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_handshake()
        if self._stands:
            self._inner.connection_lost(exc)
        del self._inner  # it knows this one

    def pause_writing(self) -> None:
        if self._stands:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._stands:
            self._inner.resume_writing()

    # ---- the handshake

    def _step_aside(self) -> None:
        inner, lower = self._inner, self._lower
        del self._inner
        lower.set_protocol(cast("asyncio.Protocol", inner))
        inner.connection_made(lower)

    def _answer_plainly(self, data: bytes) -> None:
        """A method begins with a letter; what else it may be hears nothing."""
        self._end_handshake()
        if not data[:1].isalpha():
            self._tell("it does not speak TLS")
            self._lower.close()
            return
        self._tell("it speaks plain HTTP")
        inner = self._inner
        self._step_aside()
        inner.refuse(BadRequest(PLAIN))

    def _shake_hands(self) -> bool:
        """Whether it is over, and well."""
        try:
            self._engine.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except ssl.SSLError as error:
            self._tell(_in_words(error))
            self._flush()  # the alert, which says why
            self._lower.close()
            return False
        self._end_handshake()
        self._stands = True
        self._flush()
        self._inner.connection_made(self)
        return True

    def _end_handshake(self) -> None:
        self._connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _call_later(self, seconds: float, then: Callable[[float], None]) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(seconds, then, loop.time() + seconds)

    def _time_out(self, due: float) -> None:
        if is_late(asyncio.get_running_loop().time(), due):  # what came while everything stood still is read first
            self._call_later(REREAD_SECONDS, self._give_up)
        else:
            self._give_up(due)

    def _give_up(self, _: float) -> None:
        self._tell("it did not end its handshake in time")
        self._lower.abort()

    def shutdown(self) -> None:
        """As of whatever is among the connections: there is no request."""
        self._lower.close()

    def _tell(self, why: str) -> None:
        """For whoever looks for a reason. Anybody can cause it, so the log says nothing of it otherwise."""
        address, port = (self._lower.get_extra_info("peername") or ("a client that is gone", 0))[:2]
        logger.debug("no request from %s:%s: %s", address, port, why)

    # ---- the protocol's side

    def _read(self) -> None:
        is_over = False
        while not (is_over or self._ended or self._lower.is_closing()):
            try:
                data = self._engine.read(_READ)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                data = b""
            except ssl.SSLError as error:
                self._break(error)
                return
            if data:
                self._inner.data_received(data)
            else:
                is_over = True
        self._flush()  # an answer of TLS's own: other keys, say
        if is_over and not self._inner.eof_received():
            self.close()

    def _break(self, error: ssl.SSLError) -> None:
        self._tell(_in_words(error))
        self._flush()
        self._lower.abort()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._lower.write(self._outgoing.read())

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Nothing once an end was said."""
        if not data or self._ended or self._lower.is_closing():
            return
        try:
            sent = self._engine.write(data)
            while sent < len(data):
                sent += self._engine.write(memoryview(data)[sent:])
        except ssl.SSLError as error:
            self._break(error)
        else:
            self._flush()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def _say_goodbye(self) -> None:
        if not self._ended and not self._lower.is_closing():
            self._ended = True
            with contextlib.suppress(ssl.SSLError):  # it is written; the client's own is not waited for
                self._engine.unwrap()
            self._flush()

    def write_eof(self) -> None:
        self._say_goodbye()
        self._lower.write_eof()

    def can_write_eof(self) -> bool:
        return self._lower.can_write_eof()

    def close(self) -> None:
        self._say_goodbye()
        self._lower.close()

    def abort(self) -> None:
        self._lower.abort()

    def is_closing(self) -> bool:
        return self._lower.is_closing()

    def pause_reading(self) -> None:
        self._lower.pause_reading()

    def resume_reading(self) -> None:
        self._lower.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._lower.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._engine if name == "ssl_object" else self._lower.get_extra_info(name, default)


def _in_words(error: ssl.SSLError) -> str:
    return (error.reason or "its TLS cannot be read").lower().replace("_", " ")
