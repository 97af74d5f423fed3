"""Gates in this process's memory, with the loop's clock: one timer a gate, and a wake-up for whoever has news.

The gate decides, this wakes. A waiter's mailbox holds no message, only "look again": what it then reads is the newest,
so a slow reader skips positions and delays nobody. Wake-ups keep an order: who got the slot is woken first, in the same
turn of the loop; those whose position changed are woken in a later turn, the first ten at once, the rest together at
most every `_REST_SECONDS`, in batches that leave the loop free in between. (One who was awake already for earlier news
reads the newest, be it a turn early.)
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from llmgate.core.caller import Caller
from llmgate.core.events import (
    Abandoned,
    Admitted,
    Alarm,
    Dismissed,
    Event,
    Expired,
    Limits,
    ModeChanged,
    Moved,
    Requeued,
    TicketEvent,
)
from llmgate.core.gate import Gate, State, Ticket
from llmgate.core.line import Position
from llmgate.errors import Cancelled, GateError, Outcome, QueueError, QueueTimeout, Refused

logger = logging.getLogger("llmgate")

Listener = Callable[[Event], None]

_FIRST = 10
_REST_SECONDS = 0.5
_BATCH = 256

_TOLD_TO_OTHERS = (Admitted, Abandoned, Expired, Dismissed, Moved, Requeued, ModeChanged)
"""Events after which others who wait have a new position, or wait for something else."""


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
        self.give_up(self._outcome_of(error))

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
    def waited(self) -> float:
        ticket = self._taken()
        until = ticket.admitted_at if ticket.admitted_at is not None else self._desk.clock()
        return until - ticket.entered_at

    def position(self) -> Position | None:
        return self._desk.gate.position(self._taken(), self._desk.clock())

    def positions(self) -> "Positions":
        return Positions(self)

    async def wait_admitted(self) -> None:
        while self.still_waits():
            await self.wait_for_news()

    def hand_over(self) -> None:
        self._handed_over = True

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

    def leave(self, outcome: Outcome) -> None:
        self._desk.leave(self._taken(), outcome)

    def give_up(self, outcome: Outcome) -> None:
        if not self._handed_over:
            self.leave(outcome)

    def drain(self, outcome: Outcome, seconds: float | None) -> None:
        self._desk.drain(self._taken(), outcome, seconds)

    def still_waits(self) -> bool:
        """False when the slot is there; raises what ended the wait otherwise."""
        if self._end is not None:
            raise self._end
        return self._taken().state is State.WAITING

    def next_position(self) -> Position | None:
        """The position now, if it has not been told yet."""
        position = self.position()
        if position is None or (position.position, position.state) == self._told:
            return None
        self._told = position.position, position.state
        return position

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
        position = self.position()
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


class Desk:
    """One gate with its timer, its places and its listeners."""

    def __init__(self, gate: Gate, listener: Listener, clock: Callable[[], float]) -> None:
        self.gate = gate
        self.clock = clock
        self._listener = listener
        self._places: dict[int, LocalPlace] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None
        self._teller = Teller(self)

    def enter(self, place: LocalPlace, caller: Caller, max_wait: float | None) -> Ticket:
        try:
            ticket = self.gate.enter(self.clock(), caller, max_wait=max_wait)
            if ticket.state is State.WAITING:
                self._places[ticket.number] = place
        finally:
            self.pump()
        return ticket

    def leave(self, ticket: Ticket, outcome: Outcome) -> None:
        self.gate.leave(ticket, self.clock(), outcome)
        self.pump()

    def drain(self, ticket: Ticket, outcome: Outcome, seconds: float | None) -> None:
        now = self.clock()
        self.gate.drain(ticket, now, outcome, release_at=None if seconds is None else now + seconds)
        self.pump()

    def requeue(self, ticket: Ticket, place: LocalPlace, reason: str) -> bool:
        now = self.clock()
        self.gate.set_endpoint(ticket.endpoint, now, up=False, reason=reason)
        waits = self.gate.holds or any(endpoint.up for endpoint in self.gate.endpoints().values())
        if waits:
            self._places[ticket.number] = place
            self.gate.requeue(ticket, now)
        self.pump()
        return waits

    def note_up(self, endpoint: str) -> None:
        if not self.gate.is_up(endpoint):
            self.set_endpoint(endpoint, up=True)

    def set_endpoint(
        self, endpoint: str, *, up: bool | None = None, max_concurrent: int | None = None, reason: str = ""
    ) -> None:
        self.gate.set_endpoint(endpoint, self.clock(), up=up, max_concurrent=max_concurrent, reason=reason)
        self.pump()

    def set_alarm(self, alarm: Alarm, text: str | None) -> None:
        if text is None:
            self.gate.clear_alarm(alarm, self.clock())
        else:
            self.gate.raise_alarm(alarm, text, self.clock())
        self.pump()

    def place_of(self, ticket: Ticket) -> LocalPlace | None:
        return self._places.get(ticket.number)

    def pump(self) -> None:
        """Passes on what happened at the gate: to places and the timer first, since slots depend on that."""
        events = self.gate.take_events()
        moved = False
        for event in events:
            if isinstance(event, TicketEvent):
                self._notify(event)
            moved = moved or isinstance(event, _TOLD_TO_OTHERS)
        self._set_timer()
        if moved and self.gate.depth:
            self._teller.tell()
        for event in events:
            self._tell_listener(event)

    def _tell_listener(self, event: Event) -> None:
        try:
            self._listener(event)
        except Exception:
            logger.exception("what happened at %s could not be told", event.upstream)

    def _notify(self, event: TicketEvent) -> None:
        if not isinstance(event, (Admitted, Abandoned, Expired, Dismissed)):
            return
        place = self._places.pop(event.ticket, None)
        if place is None:
            return
        if isinstance(event, Admitted):
            place.wake()
        elif isinstance(event, (Expired, Dismissed)):
            place.end(_why(event, self.gate.depth))

    def _set_timer(self) -> None:
        deadline = self.gate.next_deadline()
        if deadline == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = None
        if deadline is not None:
            delay = max(0.0, deadline - self.clock())
            self._timer = asyncio.get_running_loop().call_later(delay, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = self._timer_at = None
        self.gate.handle_timer(self.clock())
        self.pump()

    def stop(self) -> None:
        """No timer of it fires any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._teller.stop()


class Teller:
    """Wakes those whose position changed: the first ten in the next turn of the loop, the rest now and then."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._handle: asyncio.Handle | None = None
        self._rest: asyncio.Handle | None = None
        self._rest_at = 0.0
        self._moved_meanwhile = False
        """Positions changed since the rest was last begun to be told: some may have heard what is old by now."""

    def tell(self) -> None:
        if self._handle is None:
            self._handle = asyncio.get_running_loop().call_soon(self._tell_first)

    def _tell_first(self) -> None:
        self._handle = None
        for number, ticket in enumerate(self._desk.gate.waiting()):
            if number >= _FIRST:
                self._arm_rest()
                return
            self._wake(ticket)

    def _arm_rest(self) -> None:
        self._moved_meanwhile = True
        if self._rest is None:
            delay = max(0.0, self._rest_at - self._desk.clock())
            self._rest = asyncio.get_running_loop().call_later(delay, self._tell_rest)

    def _tell_rest(self) -> None:
        self._moved_meanwhile = False
        self._rest_at = self._desk.clock() + _REST_SECONDS
        self._tell_batch(list(self._desk.gate.waiting())[_FIRST:], 0)

    def _tell_batch(self, tickets: list[Ticket], start: int) -> None:
        for ticket in tickets[start : start + _BATCH]:
            self._wake(ticket)
        if start + _BATCH < len(tickets):
            self._rest = asyncio.get_running_loop().call_soon(self._tell_batch, tickets, start + _BATCH)
            return
        self._rest = None
        if self._moved_meanwhile:
            self._arm_rest()

    def _wake(self, ticket: Ticket) -> None:
        place = self._desk.place_of(ticket)
        if place is not None:
            place.wake_if_moved()

    def stop(self) -> None:
        for handle in (self._handle, self._rest):
            if handle is not None:
                handle.cancel()


class LocalAdmission:
    """The gates of one process. Make and use it inside a running loop."""

    def __init__(self, gates: Iterable[Gate], listener: Listener, clock: Callable[[], float] = time.monotonic) -> None:
        self._desks = {gate.upstream: Desk(gate, listener, clock) for gate in gates}

    def enter(self, upstream: str, caller: Caller, *, max_wait: float | None = None) -> LocalPlace:
        return LocalPlace(self._desks[upstream], caller, max_wait)

    def gate(self, upstream: str) -> Gate:
        """For looking; whoever changes it calls the methods below."""
        return self._desks[upstream].gate

    def upstreams(self) -> Iterable[str]:
        return self._desks.keys()

    def set_limits(self, upstream: str, limits: Limits) -> None:
        """Live limits of one upstream."""
        desk = self._desks[upstream]
        desk.gate.set_limits(limits, desk.clock())
        desk.pump()

    def set_endpoint(
        self,
        upstream: str,
        endpoint: str,
        *,
        up: bool | None = None,
        max_concurrent: int | None = None,
        reason: str = "",
    ) -> None:
        """One of its servers is down, or back, or has another limit of its own: see Gate.set_endpoint."""
        self._desks[upstream].set_endpoint(endpoint, up=up, max_concurrent=max_concurrent, reason=reason)

    def set_alarm(self, upstream: str, alarm: Alarm, text: str | None) -> None:
        """Raises it, or, without a text, clears it."""
        self._desks[upstream].set_alarm(alarm, text)

    def close(self) -> None:
        """Takes nobody new at any upstream, and dismisses all who wait."""
        for desk in self._desks.values():
            desk.gate.close(desk.clock(), dismiss=True)
            desk.pump()

    def stop(self) -> None:
        """Ends all timers; nothing may be asked of it afterwards."""
        for desk in self._desks.values():
            desk.stop()


def _why(event: Expired | Dismissed, depth: int) -> QueueError:
    if isinstance(event, Expired):
        return QueueTimeout(
            f"llmgate: no slot of upstream {event.upstream} fell free in time (QUEUE_TIMEOUT)", depth=depth
        )
    if event.outcome == "cancelled":
        return Cancelled(
            f"llmgate: an operator cancelled this request at upstream {event.upstream} (CANCELLED)", depth=depth
        )
    return Refused(
        f"llmgate: upstream {event.upstream} takes no more requests, llmgate is stopping (REFUSED)", depth=depth
    )
