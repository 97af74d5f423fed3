"""One HTTP/1.1 connection to an upstream: bytes out, parsed answers in, one exchange at a time.

Invariants:
- A link is idle, or carries exactly one answer. It goes back to its keeper only after a regular end of message with the
  whole request written, keep-alive granted and not one byte behind the end.
- An answer is told of its end (`on_over`) once: at the end of its message, or from connection_lost, never both.
- Nothing is decided inside a parser callback: they only note, and data_received decides when the read is parsed,
  because what follows the end of the message in the same read matters.
- A link whose owner gave up before it was connected closes itself as soon as it is.
"""

import asyncio
import select
from typing import Protocol, cast

import httptools

from llmgate.errors import GateError, UpstreamFailed
from llmgate.peer import watch_peer
from llmgate.upstreams.answer import Done
from llmgate.upstreams.wire import WireAnswer

HEAD_LIMIT = 64 * 1024
"""Bytes of a head (with all 1xx heads before it), and of anything later that brings no byte of the body."""

JOIN_LIMIT = 64 * 1024
"""A body up to this size goes out in one buffer with its head; a longer one as pieces of it, never joined."""

WRITE_STEP = 256 * 1024

_CLOSED_EARLY = "llmgate: the upstream closed the connection before it answered (UPSTREAM_ERROR)"
_BROKE_OFF = "llmgate: the upstream closed the connection before the end of its answer (UPSTREAM_ERROR)"
_BAD_HTTP = "llmgate: the upstream's answer is not valid HTTP (UPSTREAM_ERROR)"
_HEAD_TOO_LONG = "llmgate: the head of the upstream's answer is too long (UPSTREAM_ERROR)"
_TRAILING = "llmgate: the upstream sent more than it announced (UPSTREAM_ERROR)"


class Keeper(Protocol):
    """Who owns the links of one origin."""

    def on_made(self, link: "Link") -> bool:
        """A link is connected; False: it is not wanted any more."""
        ...

    def on_idle(self, link: "Link", *, streamed: bool) -> None:
        """A message ended regularly; `streamed`: its end was not known from a length."""
        ...

    def on_lost(self, link: "Link") -> None: ...


class _BadAnswerError(Exception):
    """Raised inside the parser, which passes it on as its own error."""


class Link(asyncio.Protocol):
    """Connected by the loop; `begin` starts an exchange on it."""

    __slots__ = (
        "_answer",
        "_complete",
        "_error",
        "_given_up",
        "_head_only",
        "_headers",
        "_interim",
        "_keep_alive",
        "_keeper",
        "_overhead",
        "_parser",
        "_pieces",
        "_poll",
        "_read_size",
        "_rest",
        "_sized",
        "_streamed",
        "_trailing",
        "_transport",
        "_verdict",
        "_writable",
        "idle_since",
    )

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._transport: asyncio.Transport | None = None
        self._given_up = False
        self._poll: select.poll | None = None
        self._writable = True
        self.idle_since = 0.0
        self._answer: WireAnswer | None = None
        self._reset()

    def _reset(self) -> None:
        self._parser: httptools.HttpResponseParser | None = None
        self._rest: memoryview | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []
        self._overhead = self._read_size = 0
        self._head_only = self._interim = self._sized = self._streamed = False
        self._complete = self._keep_alive = self._trailing = False
        self._verdict = Done.LOST
        self._error: GateError | None = None

    # for the keeper

    def give_up(self) -> None:
        """Nobody waits for this connection any more: close it, or refuse it when it comes."""
        self._given_up = True
        if self._transport is not None:
            self._transport.abort()

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._given_up and not self._transport.is_closing()

    def is_usable(self) -> bool:
        """Whether an idle link may carry a request: a FIN or stray bytes may wait unread in its socket."""
        return self.is_open and not self._is_readable()

    def begin(self, answer: WireAnswer, head: bytes, body: bytes, *, head_only: bool) -> None:
        """Write a request. `head_only`: the answer to a HEAD has no body, whatever its headers say."""
        transport = cast("asyncio.Transport", self._transport)
        self._answer = answer
        self._head_only = head_only
        self._parser = httptools.HttpResponseParser(self)
        answer.begin(self)
        if len(body) <= JOIN_LIMIT:
            transport.write(head + body)
        else:
            transport.write(head)
            self._rest = memoryview(body)
            self._write_rest(transport)

    def close_idle(self) -> None:
        if self._transport is not None:
            self._transport.close()

    # for the answer

    def pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def cut(self, error: GateError | None) -> None:
        self._abort(Done.CUT, error)

    # for the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        watch_peer(self._transport.get_extra_info("socket"))
        if self._given_up or not self._keeper.on_made(self):
            self._given_up = True
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        answer, self._answer = self._answer, None
        self._keeper.on_lost(self)
        self._given_up = True
        if answer is not None:
            error = self._error
            if error is None and self._verdict is Done.LOST:
                error = UpstreamFailed(_BROKE_OFF if answer.has_head else _CLOSED_EARLY)
                error.__cause__ = exc
            answer.on_over(self._verdict, error)
        self._reset()

    def eof_received(self) -> None:
        """The server's FIN: the regular end of a body without a length. The loop closes the connection after this."""
        answer = self._answer
        if answer is not None and answer.has_head and not self._sized and self._error is None:
            self._finish(answer)

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        if self._transport is not None and self._rest is not None:
            self._write_rest(self._transport)

    def data_received(self, data: bytes) -> None:
        answer, parser = self._answer, self._parser
        if answer is None or parser is None:
            self._drop()  # bytes that nobody asked for
            return
        if self._error is not None or self._verdict is Done.CUT:
            return
        self._read_size = len(data)
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if self._complete:
                self._trailing = True
            else:
                self._fail(_BAD_HTTP, error)
        self._settle(answer)

    # for the parser

    def on_message_begin(self) -> None:
        if self._complete:
            self._trailing = True

    def on_header(self, name: bytes, value: bytes) -> None:
        answer = self._answer
        if answer is None or answer.has_head:
            return  # a trailer: not asked for, not passed on
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        answer, parser = self._answer, self._parser
        if answer is None or parser is None or self._complete:
            return
        status = parser.get_status_code()
        if 100 <= status < 200 and status != 101:
            self._interim = True
            self._headers = []
            return
        if status < 200 or parser.get_http_version() not in {"1.1", "1.0"} or self._is_head_too_long():
            raise _BadAnswerError
        self._sized = self._has_length()
        answer.status, answer.headers, answer.has_head = status, self._headers, True
        if self._head_only:
            self._complete_message(parser)

    def on_body(self, data: bytes) -> None:
        if self._complete:
            self._trailing = True
        else:
            self._pieces.append(data)

    def on_message_complete(self) -> None:
        if self._interim:
            self._interim = False
        elif self._parser is not None and not self._complete:
            self._complete_message(self._parser)

    # own

    def _is_readable(self) -> bool:
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(cast("asyncio.Transport", self._transport).get_extra_info("socket"), select.POLLIN)
        return bool(self._poll.poll(0))

    def _write_rest(self, transport: asyncio.Transport) -> None:
        """Only as much as the transport takes: what it cannot send at once it copies."""
        while self._rest is not None and self._writable and not transport.is_closing():
            transport.write(self._rest[:WRITE_STEP])
            self._rest = self._rest[WRITE_STEP:] if len(self._rest) > WRITE_STEP else None

    def _has_length(self) -> bool:
        """Whether the end of the body is marked otherwise than by the end of the connection."""
        codings = [value.strip().lower() for name, value in self._headers if name == b"transfer-encoding"]
        if codings and codings != [b"chunked"]:
            raise _BadAnswerError  # we never ask for another coding and could not take it off
        self._streamed = bool(codings)
        return self._streamed or any(name == b"content-length" for name, _ in self._headers)

    def _complete_message(self, parser: httptools.HttpResponseParser) -> None:
        self._complete = True
        self._keep_alive = parser.should_keep_alive()  # not known any more when feed_data returns

    def _settle(self, answer: WireAnswer) -> None:
        """Decide about one read that has been parsed."""
        if self._trailing:
            self._fail(_TRAILING)
        elif self._complete:
            self._finish(answer)
            return
        elif not self._is_within_bounds():
            self._fail(_BAD_HTTP if answer.has_head else _HEAD_TOO_LONG)
        piece = self._take_pieces()
        if answer.has_head:
            answer.on_head()
            if piece:
                answer.on_piece(piece)

    def _is_within_bounds(self) -> bool:
        """False for an endless head, trailer or chunk extension: the parser would gather it without a bound."""
        self._overhead = 0 if self._pieces else self._overhead + self._read_size
        return self._overhead <= HEAD_LIMIT

    def _is_head_too_long(self) -> bool:
        """For a head that came complete, perhaps in a read much longer than it."""
        return self._overhead + self._read_size > HEAD_LIMIT and (
            sum(len(name) + len(value) + 4 for name, value in self._headers) > HEAD_LIMIT
        )

    def _take_pieces(self) -> bytes:
        pieces = self._pieces
        if not pieces:
            return b""
        self._pieces = []
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _finish(self, answer: WireAnswer) -> None:
        """The message ended regularly. Nothing of the link is touched after `on_over`: it may carry the next one."""
        transport = cast("asyncio.Transport", self._transport)
        last = self._take_pieces()
        reusable = self._keep_alive and not transport.is_closing()
        streamed = self._streamed
        unsent = self._rest is not None or transport.get_write_buffer_size() > 0
        self._answer = None
        self._reset()
        if unsent:
            transport.abort()  # an answer that came before the whole request was sent
        elif reusable:
            transport.resume_reading()
            self._keeper.on_idle(self, streamed=streamed)
        else:
            transport.close()
        answer.on_over(Done.ENDED, None, last)

    def _fail(self, message: str, cause: Exception | None = None) -> None:
        error = UpstreamFailed(message)
        error.__cause__ = cause
        self._abort(Done.LOST, error)

    def _abort(self, verdict: Done, error: GateError | None) -> None:
        if self._error is None and self._verdict is Done.LOST:
            self._verdict, self._error = verdict, error
        self._drop()

    def _drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()
