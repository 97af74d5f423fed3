"""A stage: real exchanges behind uvicorn's own protocol, with sockets and upstreams that a test plays by hand.

It runs in a virtual loop: nothing takes time, and what is ready happens when the test says `await turns()`. Everything
of llmgate is real but for the two ends: `Wire` is the socket of a client, `Call` the connection to the upstream, which
keeps what `upstreams.answer` promises.
"""

import asyncio
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from gateprocess import MESSAGES, request_body
from hands import CHAT_SPOKEN, MESSAGES_SPOKEN
from rawclient import post
from spoken import Spoken
from virtual_loop import run, this_loop, turns

from llmgate.errors import GateError, UpstreamDown, UpstreamFailed
from llmgate.protocols.speech import Speech
from llmgate.server.exchange import Exchange
from llmgate.server.frontdoor import FrontDoor
from llmgate.server.http_protocol import GateProtocol
from llmgate.server.http_server import HttpServer
from llmgate.upstreams.answer import Answer, Done, Headers, OnDone, Timeouts
from llmgate.upstreams.wire import WireAnswer
from tests.server.house import UPSTREAM, Guests, services_for

SETTLED = 12
"""Turns in which everything that is ready has happened."""

EVENT_STREAM = [(b"content-type", b"text/event-stream"), (b"set-cookie", b"a=b"), (b"x-request-id", b"up-1")]
PLAIN = [(b"content-type", b"application/json")]


class Call:
    """One exchange at the upstream, played by hand; the link of a real WireAnswer."""

    def __init__(self, answer: WireAnswer, target: bytes, headers: Headers, body: bytes) -> None:
        self.answer = answer
        self.target = target
        self.headers = dict(headers)
        self.body = body
        self.connected: asyncio.Future[None] = this_loop().create_future()
        self.sent = False
        self.over = False
        self.paused = False

    # the upstream's part

    def connect(self) -> None:
        if not self.connected.done():
            self.connected.set_result(None)

    def refuse(self, *, is_told_first: bool = False) -> None:
        """`is_told_first`: `on_done` is told of it turns before whoever asked is, as a transport may do it."""
        if not self.connected.done():
            error = UpstreamDown("llmgate: no connection to the upstream (UPSTREAM_DOWN)")
            if is_told_first:
                self.answer.give_up(error)
            self.connected.set_exception(error)

    @property
    def speaks(self) -> bool:
        """The head is here, the end is not."""
        return self.sent and not self.over and self.answer.has_head

    @property
    def awaited(self) -> bool:
        """The request is sent, the head is not here."""
        return self.sent and not self.over and not self.answer.has_head

    @property
    def spoken(self) -> Spoken:
        """What is said on the surface that was asked for."""
        return CHAT_SPOKEN if self.target == b"/v1/chat/completions" else MESSAGES_SPOKEN

    def head(self, status: int = 200, headers: list[tuple[bytes, bytes]] = EVENT_STREAM) -> None:
        self.answer.status, self.answer.headers, self.answer.has_head = status, headers, True
        self.answer.on_head()

    def piece(self, data: bytes) -> None:
        assert self.speaks
        self.answer.on_piece(data)

    def end(self, last: bytes = b"") -> None:
        assert self.speaks
        self.over = True
        self.answer.on_over(Done.ENDED, None, last)

    def lose(self) -> None:
        """The server closes the connection."""
        if self.sent and not self.over:
            self.over = True
            message = "llmgate: the upstream closed the connection before the end of its answer (UPSTREAM_ERROR)"
            self.answer.on_over(Done.LOST, UpstreamFailed(message))

    # the link's part

    def begin(self) -> None:
        self.sent = True
        self.answer.begin(self)

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def cut(self, error: GateError | None) -> None:
        """The socket is closed; that is told in a later turn."""
        if not self.over:
            self.over = True
            this_loop().call_soon(self.answer.on_over, Done.CUT, error)


class Upstreams:
    """A Transport whose calls wait to be played."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.dones: list[Done] = []

    async def open(
        self, method: bytes, target: bytes, headers: Headers, body: bytes, timeouts: Timeouts, on_done: OnDone
    ) -> Answer:
        def note(done: Done, error: GateError | None) -> None:
            self.dones.append(done)
            on_done(done, error)

        answer = WireAnswer(timeouts, note)
        call = Call(answer, target, headers, body)
        self.calls.append(call)
        try:
            await call.connected
            call.begin()
            await answer.wait_head()
        except GateError as error:
            answer.give_up(error)
            raise
        except BaseException:
            answer.give_up()
            raise
        return answer

    async def aclose(self) -> None:
        """Nothing is open."""


class Wire(asyncio.Transport):
    """The socket of one client, between uvicorn's protocol and the test."""

    def __init__(self, protocol: GateProtocol, number: int) -> None:
        super().__init__()
        self.protocol = protocol
        self.peer = ("192.0.2.1", number)
        self.received = b""
        self.paused = False
        self.aborted = False
        self.gone = False
        self._closing = False
        self._blocked = False
        protocol.connection_made(self)

    # the client's part

    def send(self, data: bytes) -> None:
        self.protocol.data_received(data)

    def leave(self, error: Exception | None = None) -> None:
        self._closing = True
        self._lose(error)

    def block(self) -> None:
        """It stops reading, and the kernel's buffers are full."""
        if not self._blocked and not self.gone:
            self._blocked = True
            self.protocol.pause_writing()

    def unblock(self) -> None:
        if self._blocked and not self.gone:
            self._blocked = False
            self.protocol.resume_writing()
            if self._closing:
                this_loop().call_soon(self._lose, None)

    @property
    def answer(self) -> "Parsed":
        return Parsed(self.received)

    def _lose(self, error: Exception | None) -> None:
        if not self.gone:
            self.gone = True
            self.protocol.connection_lost(error)

    # the transport's part

    def get_write_buffer_size(self) -> int:
        return 1 << 20 if self._blocked else 0

    def write(self, data: bytes) -> None:
        assert not self._closing or self.gone, "written after the close"
        self.received += data

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            if not self._blocked:
                this_loop().call_soon(self._lose, None)

    def abort(self) -> None:
        self.aborted = self._closing = True
        this_loop().call_soon(self._lose, None)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """The client's part is to leave."""

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.peer if name == "peername" else default


class Parsed:
    """One HTTP answer, as far as it came. More than one, or a broken one, fails."""

    def __init__(self, received: bytes) -> None:
        head, found, rest = received.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.begun = bool(found)
        self.status = int(lines[0].split()[1]) if found else 0
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        self.body, self.ended = b"", False
        if "content-length" in self.headers:
            self.body, self.ended = rest, len(rest) == int(self.headers["content-length"])
            assert len(rest) <= int(self.headers["content-length"])
        elif found:
            self._unchunk(rest)

    def _unchunk(self, rest: bytes) -> None:
        while rest:
            assert not self.ended, f"something behind the end: {rest!r}"
            size, _, rest = rest.partition(b"\r\n")
            length = int(size, 16)
            assert rest[length : length + 2] == b"\r\n"
            self.body += rest[:length]
            rest = rest[length + 2 :]
            self.ended = length == 0

    @property
    def errors(self) -> int:
        """Errors told, of whatever kind: a status or an event."""
        return (self.status >= 400) + self.body.count(b"event: error\n")

    @property
    def is_whole(self) -> bool:
        """A client would take it for a complete success."""
        return self.ended and self.status == 200 and self.errors == 0


class Stage(Guests):
    """Make it inside `play`."""

    def __init__(self, **sections: Any) -> None:
        super().__init__()
        self.services = services_for("http://upstream.invalid", self.on_event, self.ledger, **sections)
        self.upstreams = Upstreams()
        for upstream in self.services.upstreams.values():
            upstream._transport = self.upstreams
        self.front = FrontDoor(self.services, ("/llm", ""))
        self._server = HttpServer(self.front, [])._server
        self.complaints: list[Any] = []
        self.wires: list[Wire] = []
        this_loop().set_exception_handler(lambda _, context: self.complaints.append(context))

    def connect(self) -> Wire:
        wire = Wire(GateProtocol(self._server.config, self._server.server_state, {}, this_loop()), len(self.wires))
        self.wires.append(wire)
        return wire

    def ask(self, *, stream: bool = True, path: str = MESSAGES, model: str = "m", **headers: str) -> Wire:
        """A client that has sent one request; it is taken up in the next turn."""
        wire = self.connect()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        wire.send(post(path, request_body(model, stream=stream), named))
        return wire

    @property
    def calls(self) -> list[Call]:
        return self.upstreams.calls

    @property
    def speech(self) -> Speech:
        return self.services.upstreams[UPSTREAM].speech

    def exchange_of(self, wire: Wire) -> Exchange:
        for exchange in self.services.running:
            if isinstance(exchange, Exchange) and exchange._scope["client"] == wire.peer:
                return exchange
        raise AssertionError("it is over")

    @property
    def tasks(self) -> int:
        return len(self._server.server_state.tasks)

    def check_over(self) -> None:
        """Nothing is left of anything."""
        self.check_empty()
        assert self.complaints == []
        assert self.tasks == 0
        for upstream in self.services.upstreams.values():
            traffic = upstream.traffic
            assert (traffic.oldest_without_head(), traffic.with_head()) == (None, frozenset())
        assert len(self.upstreams.dones) == len(self.calls)
        assert all(call.over or not call.sent for call in self.calls)


async def pass_time(seconds: float) -> None:
    passed = this_loop().create_future()
    this_loop().call_later(seconds, passed.set_result, None)
    await passed


async def settle() -> None:
    await turns(SETTLED)


def play(main: Coroutine[Any, Any, None]) -> None:
    """Runs a test on a stage, whose `time.monotonic` is the virtual time."""

    async def with_its_clock() -> None:
        with virtual_clock():
            await main

    run(with_its_clock())


@contextmanager
def virtual_clock() -> Iterator[None]:
    with patch.object(time, "monotonic", this_loop().time):
        yield
