"""What is the same for every request that is sent with a slot: where the slot is between `enter` and its return.

The slot is given back by `_upstream_done`, which the transport calls exactly once for every call it was asked for: at
the upstream's end of message, so that the next request is dispatched before the last bytes go out here; or when the
socket is closed. Nothing else gives back a slot that was handed over, but `_judged`, which kept it for another call.
A request of which nothing was begun stands in the line again: its server was not there, or loads its model.
"""

import asyncio
import enum
import time
from collections.abc import Awaitable, Callable

from starlette.types import Receive, Scope, Send

from llmgate.admission.base import LOADING_MODEL, NO_CONNECTION, Place
from llmgate.core.caller import Caller
from llmgate.errors import GateError, Outcome, UpstreamDown, UpstreamFailed
from llmgate.protocols.speech import is_loading
from llmgate.protocols.surface import Surface
from llmgate.server.destination import Destination
from llmgate.server.errand import Errand
from llmgate.server.outcome import outcome_of, reason_of
from llmgate.server.services import Services
from llmgate.server.voice import Voice
from llmgate.upstreams.answer import Answer, Done
from llmgate.upstreams.upstream import Call, Upstream

LARGEST_ERROR = 1024 * 1024
"""Bytes of an answer that tells an error."""

MOST_LOADINGS = 3
"""A server that says so again and again, and between that it is well, will not load: its answer is passed on then."""

_LARGEST_STATUS = 599


class Verdict(enum.Enum):
    """What a call to a server came to."""

    PASSED_ON = "passed on"
    """The client has its answer."""
    OTHER_WAY = "other way"
    """The server does not know the path: the slot is still there for another try."""
    AGAIN = "again"
    """Nothing of it was begun, since the server is not there: it waits again."""


class Sending(Errand):
    """One request that may take a slot. A kind of request adds the methods that are not there."""

    __slots__ = (
        "_answer_status",
        "_fault",
        "_keeps_slot",
        "_loadings",
        "_release_timeout",
        "_requeued",
        "_server",
        "_voice",
    )

    def __init__(self, services: Services, surface: Surface, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(services, scope, receive, send)
        self._voice = Voice(services, surface, self._reply, self._id)
        self._release_timeout = 0.0
        self._keeps_slot = False
        """What the answer says decides whether the request is asked again: until then its slot is not given back."""
        self._loadings = 0
        """How often a server said that it was loading its model."""
        self._requeued = False
        """The call that just failed sent nothing: the request stands in the line again."""
        self._server: Upstream | None = None
        """Whom it was sent to last."""
        self._answer_status = 0
        self._fault: GateError | None = None
        """What was wrong with the answer."""

    async def _take_place(
        self,
        destination: Destination,
        caller: Caller,
        max_wait: float | None,
        work: Callable[[Place], Awaitable[None]],
    ) -> None:
        """Does the work with a place at the gate. Raises what the gate or `destination.settings` does."""
        self._release_timeout = destination.settings.release_timeout
        async with self._services.admission.enter(destination.name, caller, max_wait=max_wait) as place:
            self._place = place
            try:
                await work(place)
            except asyncio.CancelledError:
                stopped_by = self._stopped_by
                if stopped_by is not None and self._outcome != "client_gone":
                    reason = "" if stopped_by.outcome == "cancelled" else stopped_by.reason
                    place.give_up(stopped_by.outcome, reason)  # its block would take it for a client that left
                raise

    async def _find_server(self, place: Place) -> Upstream | None:
        """The slot is there: whom to ask, once that has room. None: a reload took that away, so that it waits again.

        Raises UpstreamDown where nobody waits for a server to be there.
        """
        await self._services.wait_for_room(place)
        self._server = server = self._services.upstreams.get(place.endpoint)
        if server is None and not place.requeue(NO_CONNECTION):
            raise UpstreamDown("llmgate: no server of this upstream is there any more, try again (UPSTREAM_DOWN)")
        return server

    async def _send(
        self, call: Call, place: Place, take: Callable[[Answer], Awaitable[Verdict]], waits_at: Upstream | None = None
    ) -> Verdict:
        """Makes the call with the slot; `take` gets the answer as soon as its head is here. `waits_at`: the server,
        where it sends a head as soon as it begins."""
        self._answer_status = 0
        place.hand_over()
        if waits_at is not None:
            waits_at.traffic.sent(self._id, time.monotonic())
        try:
            async with call as answer:
                return await take(answer)
        except UpstreamDown:
            if not self._requeued:
                raise
            self._requeued = False
            return Verdict.AGAIN

    # ---- an answer that may say that nothing was begun

    async def _read_judged(self, answer: Answer, limit: int) -> bytes:
        """The body of such an answer; `_judged` follows, unless the request is asked again."""
        self._keeps_slot = self._place is not None
        return await answer.read(limit)

    def _waits_again(self, answer: Answer, body: bytes) -> bool:
        """Whether its server loads its model: nobody else is sent there."""
        if self._place is None or self._loadings == MOST_LOADINGS or not is_loading(answer.status, body):
            return False
        if not self._place.requeue(LOADING_MODEL):
            return False
        self._loadings += 1
        return True

    def _judged(self) -> None:
        """It said something else: the client has it, the slot is given back."""
        if self._place is not None:
            self._place.leave(*self._end_of(Done.ENDED, None))

    # ---- the slot

    def _upstream_done(self, done: Done, error: GateError | None) -> None:
        """The transport knows what became of the call: the slot is free, or drains, or is kept for another call."""
        place = self._place
        if place is None:
            return
        if self._server is not None:
            self._server.traffic.over(self._id)
        keeps, self._keeps_slot = self._keeps_slot, False
        if keeps and done is Done.ENDED:
            place.take_back()
            return
        if done is Done.UNSENT and self._outcome is None and isinstance(error, UpstreamDown):
            self._requeued = place.requeue(NO_CONNECTION)
            if self._requeued:
                return
        outcome, reason = self._end_of(done, error)
        if done in (Done.CUT, Done.LOST):
            lost, had_head, seconds = done is Done.LOST, self._answer_status > 0, self._release_timeout
            self._services.drain(place, outcome, seconds, lost=lost, had_head=had_head, reason=reason)
        else:
            place.leave(outcome, reason)

    def _end_of(self, done: Done, error: GateError | None) -> tuple[Outcome, str]:
        """How it ended, now that the call did, and why."""
        told_end, status, failed = self._has_told_end(done), self._answer_status, self._stream_failed
        cut = self._outcome or (self._fault.outcome if self._fault is not None else None)
        outcome = outcome_of(done, status=status, told_end=told_end, stream_failed=failed, cut=cut, error=error)
        fault = self._fault or self._stopped_by or error
        return outcome, reason_of(outcome, done, status=status, stream_failed=failed, fault=fault)

    def _has_told_end(self, done: Done) -> bool | None:
        """Whether what is in the answer told its own end; None where that does not matter. It may note a fault."""
        raise NotImplementedError

    @property
    def _stream_failed(self) -> bool:
        """Whether that end was an error."""
        return False


def check_status(answer: Answer) -> None:
    """Raises UpstreamFailed for a status that no client could be told."""
    if answer.status > _LARGEST_STATUS:
        raise UpstreamFailed("llmgate: the upstream's status is none of HTTP's (UPSTREAM_ERROR)")
