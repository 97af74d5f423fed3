"""Takes an answer to its end for a client that asked for no stream, so that it never gets half of it: see ADR 4."""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from llmgate.errors import GateError, UpstreamFailed
from llmgate.upstreams.answer import Answer

logger = logging.getLogger("llmgate")


class Taker(Protocol):
    """Takes in a body. A Gathering is one, which puts the answer together from a stream; Held is another."""

    @property
    def complete(self) -> bool:
        """All of the answer is here, whatever becomes of the message that carries it."""
        ...

    @property
    def failed(self) -> bool:
        """`end` will raise: the rest need not be read."""
        ...

    def feed(self, data: bytes) -> None: ...

    def end(self) -> bytes:
        """The answer; raises GateError where it is none."""
        ...


class Held:
    """At most `limit` bytes, as they are."""

    __slots__ = ("_left", "_pieces")

    complete = False

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._pieces: list[bytes] = []

    @property
    def failed(self) -> bool:
        return self._left < 0

    def feed(self, data: bytes) -> None:
        self._left -= len(data)
        if not self.failed:
            self._pieces.append(data)

    def end(self) -> bytes:
        if self.failed:
            raise UpstreamFailed("llmgate: the upstream's answer is too long to be held (UPSTREAM_ERROR)")
        return b"".join(self._pieces)


class Whole:
    """The sink of one answer; `read` makes of what was taken what the client gets, or raises GateError.

    See Relay for `on_told` and `give_up`.
    """

    __slots__ = ("_answer", "_body", "_error", "_on_piece", "_on_told", "_over", "_read", "_taken", "_taker")

    def __init__(
        self,
        answer: Answer,
        taker: Taker,
        read: Callable[[bytes], bytes],
        on_piece: Callable[[], None] | None = None,
        on_told: Callable[[], None] | None = None,
    ) -> None:
        """`on_piece` is called after each piece of the body."""
        self._answer = answer
        self._taker = taker
        self._read = read
        self._on_piece = on_piece
        self._on_told = on_told
        self._error: GateError | None = None
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._taken = False
        self._body = b""

    @property
    def is_told(self) -> bool:
        """The answer is all here, although its message is not over."""
        return self._taker.complete

    @property
    def error(self) -> GateError | None:
        """What went wrong with it, as far as that is known."""
        return self._error

    def feed(self, data: bytes) -> None:
        try:
            self._taker.feed(data)
            if self._on_piece is not None:
                self._on_piece()
        except Exception as error:
            self._break(error)
        if self._error is None and self._taker.failed:
            self.take_end()
        if self._error is not None:
            self.end(self._error)
            self._answer.close(self._error)
        elif self.is_told and not self._answer.ended and (on_told := self._on_told) is not None:
            self._on_told = None
            on_told()

    def give_up(self) -> None:
        """After `on_told`: the answer is taken as it is, and its message is cut where it is not over."""
        if not self._over.done():
            self.take_end()
            self._answer.close(self._error)
            self.end(None)

    def let_go(self) -> None:
        """Nobody is told any more: what is left of the message is the transport's to end."""
        self._on_told = None

    def take_end(self) -> bool:
        """Nothing more will come that matters: whether what is here is a whole answer."""
        if self._error is not None or self._taken:
            return self._taken
        try:
            self._body = self._read(self._taker.end())
        except GateError as error:
            self._error = error
        except Exception as error:
            self._break(error)
        self._taken = self._error is None
        return self._taken

    def end(self, error: GateError | None) -> None:
        if not self._taken:
            self._error = self._error or error
        if not self._over.done():
            self._over.set_result(None)

    async def wait_body(self) -> bytes:
        """What the client gets; raises what went wrong with it."""
        await self._over
        if self._error is not None:
            raise self._error
        return self._body

    def _break(self, error: Exception) -> None:
        """A fault of ours."""
        logger.error("an answer could not be passed on", exc_info=error)
        self._error = GateError("llmgate: an internal error, see the log of llmgate (INTERNAL)")
