"""What a transport promises to its user: one request out, its answer pushed back, and word when the server is free."""

import asyncio
import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from llmgate.errors import GateError, UpstreamFailed
from llmgate.upstreams.pulse import Pulse

Headers = Sequence[tuple[bytes, bytes]]


class Done(enum.Enum):
    """What is known of the server when one exchange with it is over."""

    ENDED = "ended"
    """The answer's message ended regularly: the server is free of it."""
    UNSENT = "unsent"
    """No byte of the request was written: the server never knew of it."""
    LOST = "lost"
    """The server closed the connection, or broke the framing so that we closed it."""
    CUT = "cut"
    """We closed while the server may still be working: cancelled, timed out, client gone."""


OnDone = Callable[[Done, GateError | None], None]
"""What is known of the server, and what went wrong, be it with an answer that ended regularly; None where nothing did,
or whoever asked gave it up."""


class Sink(Protocol):
    """Takes the body of one answer, called from the event loop; neither method may raise."""

    def feed(self, data: bytes) -> None:
        """One piece of the body, never empty; all that came in one read is one piece."""
        ...

    def end(self, error: GateError | None) -> None:
        """Exactly once, and nothing after it; `None` is a regular end."""
        ...


class Answer(Protocol):
    """A response whose head is here and whose body is still coming."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Names in lower case, hop-by-hop ones included, in the order and number received."""
        ...

    @property
    def ended(self) -> bool:
        """The message is over and ended regularly: a piece that is fed while this is true is the last one."""
        ...

    def start(self, sink: Sink) -> None:
        """From here on the body is pushed; what is already here comes before this returns. Once per answer."""
        ...

    def pause(self) -> None:
        """Stop reading the socket: back-pressure. What was read before may still be pushed."""
        ...

    def resume(self) -> None: ...

    def close(self, error: GateError | None = None) -> None:
        """Give the answer up: a running message is cut, an ended one is left alone; nothing is pushed afterwards.

        `error`, where the answer itself is at fault, is what `on_done` is told. Idempotent and never blocks.
        """
        ...

    async def read(self, limit: int) -> bytes:
        """The whole body, instead of `start`.

        Raises the GateError that ended it, or UpstreamFailed when it is longer than `limit` bytes.
        """
        ...


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The clocks of one exchange, in seconds; `None` = no limit."""

    connect: float | None = None
    """TCP and TLS."""
    first_byte: float | None = None
    """From dispatch to the first byte of the answer's body (llama-server sends its headers long before)."""
    idle: float | None = None
    """Between two pieces of the body; does not run while back-pressure pauses the reading."""
    total: float | None = None
    """From dispatch to the end of the body."""
    pulse: Pulse | None = None
    """Asked before `first_byte` or `idle` runs out: they do not while the server works."""


NO_TIMEOUTS = Timeouts()


class Transport(Protocol):
    """One origin's HTTP client, without any limit on connections: only the gate queues."""

    async def open(
        self,
        method: bytes,
        target: bytes,
        headers: Headers,
        body: bytes,
        timeouts: Timeouts,
        on_done: OnDone,
    ) -> Answer:
        """Send one request; come back when the head of its answer is here.

        `target` is path and query. Host and Content-Length are added where absent.
        `on_done` is called exactly once per call, also when this raises or is cancelled: synchronously where it
        becomes known, ENDED between the last piece (so that the sink knows what it got) and `end`, which follows
        through the loop, and with the connection free for the next request; CUT and LOST when the socket is closed.
        ENDED waits for `start`, `read` or `close` where the message ends before any of them.
        Raises UpstreamDown (nothing was sent), UpstreamTimeout, UpstreamFailed; ValueError for a bad header.
        """
        ...

    @property
    def in_use(self) -> int:
        """Connections with a request on them, and those that are being made for one."""
        ...

    def retire(self) -> None:
        """Keep no connection from now on; running exchanges go on."""
        ...

    async def aclose(self) -> None:
        """Close every connection; running exchanges are cut."""
        ...


class Collector:
    """The sink behind `Answer.read`: gathers a body of at most `limit` bytes."""

    __slots__ = ("_answer", "_error", "_left", "_over", "_pieces")

    def __init__(self, answer: Answer, limit: int) -> None:
        self._answer = answer
        self._left = limit
        self._pieces: list[bytes] = []
        self._over = asyncio.get_running_loop().create_future()
        self._error: GateError | None = None

    def feed(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            error = UpstreamFailed("llmgate: the upstream's answer is too long (UPSTREAM_ERROR)")
            self.end(error)
            self._answer.close(error)
        else:
            self._pieces.append(data)

    def end(self, error: GateError | None) -> None:
        self._error = self._error or error
        if not self._over.done():
            self._over.set_result(None)

    async def wait_body(self) -> bytes:
        """The body; raises what ended it. Given up, it closes the answer: the half that is here helps nobody."""
        try:
            self._answer.start(self)
            await self._over
        except BaseException:
            self._answer.close()
            raise
        if self._error is not None:
            raise self._error
        return b"".join(self._pieces)
