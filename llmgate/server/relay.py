"""Hands an answer's event stream on to the client, piece by piece, straight from the upstream's data callback.

No piece is awaited: the transport calls `feed`, the surface's watch says which whole events may pass, the reply sends
them. When the client is slow the upstream is paused until it has caught up, so nothing piles up in between.
The last piece is kept back until the slot has been given on: see `upstreams.answer`. Where the message goes on after
the stream in it told its end, `on_told` says so, once; whoever waits no longer for the rest calls `give_up`.
A fault of ours ends the one request: in the transport's callbacks it would cost the slot.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from llmgate.errors import GateError
from llmgate.protocols.surface import StreamWatch
from llmgate.server.reply import Reply, nothing
from llmgate.telemetry.ledger import Record
from llmgate.upstreams.answer import Answer

logger = logging.getLogger("llmgate")


class Relay:
    """The sink of one answer whose body is an event stream."""

    __slots__ = ("_answer", "_broken", "_last", "_on_first_event", "_on_told", "_over", "_record", "_reply", "watch")

    def __init__(
        self,
        answer: Answer,
        reply: Reply,
        watch: StreamWatch,
        record: Record | None,
        on_first_event: Callable[[], None],
        on_told: Callable[[], None] = nothing,
    ) -> None:
        self._answer = answer
        self._reply = reply
        self._record = record
        self._on_first_event = on_first_event
        self._on_told: Callable[[], None] | None = on_told
        self._over: asyncio.Future[GateError | None] = asyncio.get_running_loop().create_future()
        self._last = b""
        self._broken = False
        self.watch = watch
        reply.on_writable = answer.resume

    def feed(self, data: bytes) -> None:
        try:
            self._pass(data)
        except Exception as error:
            self._break(error)

    def _pass(self, data: bytes) -> None:
        watch, reply = self.watch, self._reply
        began = watch.started
        passed = watch.feed(data)
        if not began and watch.started:
            self._begin()
        if self._record is not None:
            self._record.output_tokens = watch.output_tokens
        if self._answer.ended:
            self._last = passed
            return
        reply.write(passed)
        if self.is_told and (on_told := self._on_told) is not None:
            self._on_told = None
            self._answer.resume()  # the end of the message must not wait for a slow client
            on_told()
        elif reply.blocked:
            self._answer.pause()

    def take_end(self) -> bool:
        """The upstream's message ended regularly: whether the stream in it told its own end, be it an error."""
        if self._broken:
            return False
        try:
            self._last += self.watch.finish()
        except Exception as error:
            self._break(error)
            return False
        if self._record is not None:
            self._record.input_tokens = self.watch.input_tokens or 0
        return self.is_told

    def end(self, error: GateError | None) -> None:
        """Where the stream in it told its own end, what became of the message is nothing that the client must know."""
        try:
            if self.is_told:
                self.finish()
            else:
                self._reply.write(self._last)
        finally:
            self._set_over(error)

    @property
    def is_told(self) -> bool:
        """The stream told its own end, be it an error: nothing of ours may follow but the end of the body."""
        return (self.watch.complete or self.watch.failed) and not self.watch.inside_event and not self._broken

    def give_up(self) -> None:
        """After `on_told`: the message is cut where it is not over, and the client has its end."""
        if not self._answer.ended and not self._over.done():
            self._answer.close()
            self.end(None)

    def let_go(self) -> None:
        """Nobody is told any more: what is left of the message is the transport's to end."""
        self._on_told = None

    def finish(self) -> None:
        """What is kept back, and the end of the body."""
        self._reply.finish(self._last)

    async def wait_over(self) -> GateError | None:
        """Until the upstream's message is over; what broke it off, if anything did."""
        return await self._over

    def _break(self, error: Exception) -> None:
        """A fault of ours: nothing more of the answer is passed on."""
        logger.error("an answer could not be passed on", exc_info=error)
        self._broken = True
        self._set_over(GateError("llmgate: an internal error, see the log of llmgate (INTERNAL)"))
        self._answer.close()

    def _set_over(self, error: GateError | None) -> None:
        if not self._over.done():
            self._over.set_result(error)

    def _begin(self) -> None:
        self._on_first_event()
        if self._record is not None:
            self._record.first_byte_at = time.monotonic()
