"""One gate in this process's memory, with the loop's clock: its one timer, and a wake-up for whoever has news.

The gate decides, this wakes. A waiter's mailbox holds no message, only "look again": what it then reads is the newest,
so a slow reader skips positions and delays nobody. Wake-ups keep an order: who got the slot is woken first, in the same
turn of the loop; those whose position changed are woken in a later turn, the first ten at once, the rest together at
most every `_REST_SECONDS`, in batches that leave the loop free in between. (One who was awake already for earlier news
reads the newest, be it a turn early.)
"""

import asyncio
import logging
from collections.abc import Callable

from llmgate.admission.place import LocalPlace
from llmgate.core.caller import Caller
from llmgate.core.closing import dismissal
from llmgate.core.eta import Estimator, Schedule, slots_of
from llmgate.core.events import (
    Abandoned,
    Admitted,
    Alarm,
    Dismissed,
    EndpointChanged,
    Event,
    Expired,
    ModeChanged,
    Moved,
    Requeued,
    TicketEvent,
)
from llmgate.core.gate import Gate
from llmgate.core.ticket import State, Ticket
from llmgate.errors import Cancelled, Outcome, QueueError, QueueTimeout

logger = logging.getLogger("llmgate")

Listener = Callable[[Event], None]

_FIRST = 10
_REST_SECONDS = 0.5
_BATCH = 256

_TOLD_TO_OTHERS = (Admitted, Abandoned, Expired, Dismissed, Moved, Requeued, ModeChanged, EndpointChanged)
"""Events after which others who wait have a new position, or wait for something else."""


class Desk:
    """One gate with its timer, its places and its listeners."""

    def __init__(self, gate: Gate, listener: Listener, clock: Callable[[], float]) -> None:
        self.gate = gate
        self.clock = clock
        self._listener = listener
        self._places: dict[int, LocalPlace] = {}
        """Of those who wait, by the number of the ticket."""
        self._waiting: dict[str, Ticket] = {}
        """The same tickets by the id of the request, for an operator."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None
        self._teller = Teller(self)
        self._cancels: dict[str, tuple[str, asyncio.Future[None]]] = {}
        """Who cancelled a request that has a slot, by its id, until it is over for its client."""
        self._estimator = Estimator()

    def change(self, do: Callable[[Gate, float], object]) -> None:
        """Does something with the gate, now, and passes on what came of it."""
        do(self.gate, self.clock())
        self.pump()

    def enter(self, place: LocalPlace, caller: Caller, max_wait: float | None) -> Ticket:
        try:
            ticket = self.gate.enter(self.clock(), caller, max_wait=max_wait)
            if ticket.state is State.WAITING:
                self._note_waiting(ticket, place)
        finally:
            self.pump()
        return ticket

    def leave(self, ticket: Ticket, outcome: Outcome, reason: str = "") -> None:
        by, over = self._who_cancelled(ticket)
        self.gate.leave(ticket, self.clock(), outcome, by=by if outcome == "cancelled" else "", reason=reason)
        self.pump()
        if over is not None and not over.done():
            over.set_result(None)

    def drain(self, ticket: Ticket, outcome: Outcome, seconds: float | None, reason: str = "") -> None:
        now = self.clock()
        release_at = None if seconds is None else now + seconds
        by, over = self._who_cancelled(ticket)
        by = by if outcome == "cancelled" else ""
        self.gate.drain(ticket, now, outcome, release_at=release_at, by=by, reason=reason)
        self.pump()
        if over is not None and not over.done():
            over.set_result(None)

    def _who_cancelled(self, ticket: Ticket) -> tuple[str, asyncio.Future[None] | None]:
        return self._cancels.pop(ticket.caller.id, ("", None)) if self._cancels else ("", None)

    def _note_waiting(self, ticket: Ticket, place: LocalPlace) -> None:
        self._places[ticket.number] = place
        self._waiting[ticket.caller.id] = ticket

    def find_waiting(self, request_id: str) -> Ticket | None:
        """The request of that id, if it waits."""
        return self._waiting.get(request_id)

    def dismiss(self, request_id: str, by: str) -> bool:
        ticket = self.find_waiting(request_id)
        if ticket is None:
            return False
        self.change(lambda gate, now: gate.leave(ticket, now, "cancelled", by=by))
        return True

    def note_cancel(self, request_id: str, by: str) -> asyncio.Future[None]:
        known = self._cancels.get(request_id)
        over = known[1] if known is not None else asyncio.get_running_loop().create_future()
        self._cancels[request_id] = by, over
        return over

    def move_to_front(self, request_id: str, by: str) -> bool:
        ticket = self.find_waiting(request_id)
        if ticket is None:
            return False
        self.change(lambda gate, now: gate.move_to_front(ticket, now, by=by))
        return True

    def requeue(self, ticket: Ticket, place: LocalPlace, reason: str) -> bool:
        now = self.clock()
        if ticket.endpoint:  # not one that a reload took away
            self.gate.set_endpoint(ticket.endpoint, now, up=False, reason=reason)
        waits = self.gate.holds or any(endpoint.up for endpoint in self.gate.endpoints().values())
        if waits:
            self._note_waiting(ticket, place)
            self.gate.requeue(ticket, now)
        self.pump()
        return waits

    def note_up(self, endpoint: str) -> None:
        if endpoint and not self.gate.is_up(endpoint):
            self.set_endpoint(endpoint, up=True)

    def set_endpoint(
        self, endpoint: str, *, up: bool | None = None, max_concurrent: int | None = None, reason: str = ""
    ) -> None:
        self.change(
            lambda gate, now: gate.set_endpoint(endpoint, now, up=up, max_concurrent=max_concurrent, reason=reason)
        )

    def look_again(self) -> None:
        """Another upstream may have given room at a server that they share."""
        if self.gate.depth:
            self.change(Gate.handle_timer)

    def set_alarm(self, alarm: Alarm, text: str | None) -> None:
        if text is None:
            self.change(lambda gate, now: gate.clear_alarm(alarm, now))
        else:
            self.change(lambda gate, now: gate.raise_alarm(alarm, text, now))

    def schedule(self) -> Schedule | None:
        """When those who wait will get their slots; None while nobody can say."""
        if self.gate.stands:
            return None
        return self._estimator.schedule(slots_of(self.gate.limits, self.gate.endpoints().values()), self.clock())

    def eta_ms(self, position: int) -> int | None:
        schedule = self.schedule()
        return None if schedule is None else schedule.eta_ms(position, self.clock())

    def place_of(self, ticket: Ticket) -> LocalPlace | None:
        return self._places.get(ticket.number)

    def pump(self) -> None:
        """Passes on what happened at the gate: to places and the timer first, since slots depend on that."""
        events = self.gate.take_events()
        moved = False
        for event in events:
            self._estimator.apply(event)
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
        self._waiting.pop(event.caller.id, None)
        if isinstance(event, Admitted):
            place.wake()
        elif isinstance(event, (Expired, Dismissed)):
            place.end(_why(event, self.gate))

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
        self.change(Gate.handle_timer)

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


def _why(event: Expired | Dismissed, gate: Gate) -> QueueError:
    depth = gate.depth
    if isinstance(event, Expired):
        return QueueTimeout(
            f"llmgate: no slot of upstream {event.upstream} fell free in time (QUEUE_TIMEOUT)", depth=depth
        )
    if event.outcome == "cancelled":
        return Cancelled(
            f"llmgate: an operator cancelled this request at upstream {event.upstream} (CANCELLED)", depth=depth
        )
    return dismissal(gate.closing, event.upstream, depth)
