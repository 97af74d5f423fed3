"""One request's place at a gate in this process's memory, and the positions that it is told.

Its mailbox holds no message, only "look again": what it then reads is the newest, so a slow reader skips positions.
"""

import asyncio
import math
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from llmgate.core.account import Account
from llmgate.core.caller import Caller
from llmgate.core.line import Position
from llmgate.core.ticket import State, Ticket
from llmgate.errors import EXPLAINED, OWN_FAULT, GateError, Outcome, QueueError

if TYPE_CHECKING:
    from llmgate.admission.desk import Desk


class LocalPlace:
    """One request's place, as `admission.base.Place` promises."""

    __slots__ = (
        "_caller",
        "_desk",
        "_end",
        "_handed_over",
        "_look",
        "_max_wait",
        "_ticket",
        "_told",
        "had_slot",
        "queued",
    )

    def __init__(self, desk: "Desk", caller: Caller, max_wait: float | None) -> None:
        self._desk = desk
        self._caller = caller
        self._max_wait = max_wait
        self._ticket: Ticket | None = None
        self._end: QueueError | None = None
        self._look: asyncio.Future[None] | None = None
        self._told: tuple[int, str] | None = None
        self._handed_over = False
        self.queued = False
        self.had_slot = False

    async def __aenter__(self) -> Self:
        self._ticket = self._desk.enter(self, self._caller, self._max_wait)
        self.queued = self._ticket.state is State.WAITING
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        outcome = self._outcome_of(error)
        self.give_up(outcome, _reason_of(error) if outcome in EXPLAINED else "")

    def _outcome_of(self, error: BaseException | None) -> Outcome:
        if isinstance(error, GateError):
            return error.outcome
        if error is not None and not isinstance(error, asyncio.CancelledError):
            return "upstream_error"
        if self._taken().state is State.WAITING:
            return "abandoned"
        return "completed" if error is None else "client_gone"

    @property
    def endpoint(self) -> str:
        return self._taken().endpoint

    @property
    def account(self) -> Account | None:
        return self._taken().account

    @property
    def time_left(self) -> float:
        deadline = self._taken().deadline
        return math.inf if deadline is None else deadline - self._desk.clock()

    @property
    def waited(self) -> float:
        ticket = self._taken()
        until = ticket.admitted_at if ticket.admitted_at is not None else self._desk.clock()
        return until - ticket.entered_at

    def position(self) -> Position | None:
        position = self._stand()
        eta_ms = None if position is None else self._desk.eta_ms(position.position)
        return position if position is None or eta_ms is None else msgspec.structs.replace(position, eta_ms=eta_ms)

    def _stand(self) -> Position | None:
        """The position without an estimate."""
        return self._desk.gate.position(self._taken(), self._desk.clock())

    def positions(self) -> "Positions":
        return Positions(self)

    async def wait_admitted(self) -> None:
        while self.still_waits():
            await self.wait_for_news()

    def hand_over(self) -> None:
        self._handed_over = True

    @property
    def is_handed_over(self) -> bool:
        return self._handed_over

    def take_back(self) -> None:
        self._handed_over = False

    def requeue(self, reason: str) -> bool:
        ticket = self._taken()
        if not self._desk.requeue(ticket, self, reason):
            return False
        self._handed_over, self.had_slot, self._told = False, True, None
        return True

    def note_up(self) -> None:
        self._desk.note_up(self._taken().endpoint)

    def leave(self, outcome: Outcome, reason: str = "") -> None:
        self._desk.leave(self._taken(), outcome, reason)

    def give_up(self, outcome: Outcome, reason: str = "") -> None:
        if not self._handed_over:
            self.leave(outcome, reason)

    def drain(self, outcome: Outcome, seconds: float | None, reason: str = "") -> None:
        self._desk.drain(self._taken(), outcome, seconds, reason)

    def still_waits(self) -> bool:
        """False when the slot is there; raises what ended the wait otherwise."""
        if self._end is not None:
            raise self._end
        return self._taken().state is State.WAITING

    def next_position(self) -> Position | None:
        """The position now, if it has not been told yet."""
        position = self._stand()
        if position is None or (position.position, position.state) == self._told:
            return None
        self._told = position.position, position.state
        return self.position()

    async def wait_for_news(self) -> None:
        """Until somebody called `wake`; spurious returns are possible."""
        self._look = asyncio.get_running_loop().create_future()
        try:
            await self._look
        finally:
            self._look = None

    def wake(self) -> None:
        """There is something new to look at."""
        if self._look is not None and not self._look.done():
            self._look.set_result(None)

    def wake_if_moved(self) -> None:
        """As `wake`, for one who listens to positions and has not been told this one."""
        if self._told is None or self._look is None:
            return
        position = self._stand()
        if position is not None and (position.position, position.state) != self._told:
            self.wake()

    def end(self, error: QueueError) -> None:
        """The wait is over without a slot."""
        self._end = error
        self.wake()

    def _taken(self) -> Ticket:
        if self._ticket is None:
            raise RuntimeError("a place is taken by `async with`")
        return self._ticket


class Positions:
    """The positions of one place: an iterator without a frame of its own, so that nothing is held across a yield."""

    __slots__ = ("_place",)

    def __init__(self, place: LocalPlace) -> None:
        self._place = place

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Position:
        place = self._place
        while place.still_waits():
            position = place.next_position()
            if position is not None:
                return position
            await place.wait_for_news()
        raise StopAsyncIteration


def _reason_of(error: BaseException | None) -> str:
    """Of one that ended without a call: what went wrong with it."""
    return error.reason if isinstance(error, GateError) else OWN_FAULT
