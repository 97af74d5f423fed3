"""One upstream's queue and slots: who runs, who waits, in which order, and when each of them stops waiting.

What holds after every public call, whatever was called before:
- running + draining never exceeds max_concurrent, unless max_concurrent was lowered under running work;
- nobody waits while a slot is free, unless the gate is paused or held: `_settle`, the one place that admits, ends every
  call, and gives a freed slot to the head of the line, so a newcomer never overtakes;
- a ticket leaves each state once: `leave` is the one way out, idempotent, and whoever comes second changes nothing;
- nobody is admitted whose deadline has passed: what is due is handled before anything else in every call;
- each change is one numbered event, and the events fold to the statistics;
- whoever runs or drains is counted at one endpoint, which had room and was up when it was admitted.

Pure: it takes `now` (seconds, monotonic), it calls nobody, it keeps facts until `take_events()` fetches them.
"""

import enum
import math
from collections.abc import Iterator, Mapping

from llmgate.core.caller import Caller
from llmgate.core.endpoints import Endpoints, EndpointStatistics
from llmgate.core.events import (
    Abandoned,
    Admitted,
    Alarm,
    AlarmCleared,
    AlarmRaised,
    Dismissed,
    Drained,
    EndpointChanged,
    EndpointsReplaced,
    Event,
    Expired,
    GateStatistics,
    Limits,
    LimitsChanged,
    Mode,
    ModeChanged,
    Moved,
    Queued,
    Refused,
    Released,
    Requeued,
    Tally,
)
from llmgate.core.line import Line, Position
from llmgate.core.timers import Timer, Timers
from llmgate.errors import Outcome, QueueFull
from llmgate.errors import Refused as RefusedError


class State(enum.Enum):
    WAITING = "waiting"
    RUNNING = "running"
    DRAINING = "draining"
    """The request is over for the client, the server is not known to be free of it."""
    GONE = "gone"


class Ticket:
    """One request's place at one gate, from arrival until all it stood for is given back. Only its gate writes it."""

    __slots__ = ("admitted_at", "caller", "deadline", "endpoint", "entered_at", "number", "order", "state", "timer")

    def __init__(self, number: int, caller: Caller, now: float) -> None:
        self.number = number
        self.caller = caller
        self.order = number
        self.entered_at = now
        self.admitted_at: float | None = None
        self.deadline: float | None = None
        """When its wait ends, should it have to wait; None = it may wait for ever."""
        self.endpoint = ""
        """The server that it was sent to last; "" once a reload took that server away."""
        self.timer: Timer | None = None
        """The one live entry in its gate's timers: the end of the wait, or of draining."""
        self.state = State.RUNNING

    def __repr__(self) -> str:
        return f"<Ticket {self.number} {self.state.value}>"


class Gate:
    """The queue of one upstream."""

    def __init__(
        self, upstream: str, limits: Limits, endpoints: Mapping[str, int] | None = None, *, holds: bool = True
    ) -> None:
        """`endpoints`: how many requests each server takes at once, by its name (0: as many as max_concurrent says);
        None: there is one, called as the upstream. `holds`: while all are down everybody waits, else all are tried."""
        self.upstream = upstream
        self._endpoints = Endpoints({upstream: 0} if endpoints is None else endpoints, holds=holds)
        self._limits = limits
        self._tally = Tally(limits)
        self._line: Line[Ticket] = Line()
        self._in_flight: set[Ticket] = set()
        self._paused = self._closed = self._dismisses = False
        self._stands = False
        """Admits nobody, whatever is free: it is paused, or no server is there."""
        self._stuck_since: float | None = None
        """Since when somebody waits and no slot fell free; None: nobody waits for a slot."""
        self._stall_due = math.inf
        """When that is alarming: kept beside it, since every call looks at it."""
        self._mode = Mode.OPEN
        self._tickets = 0
        self._first_order = 0
        self._events: list[Event] = []
        self._event_count = 0
        self._timers: Timers[Ticket] = Timers()

    # ---- one request

    def enter(self, now: float, caller: Caller, *, max_wait: float | None = None) -> Ticket:
        """A ticket, running or waiting; QueueFull or Refused when there is no room.

        `max_wait` (seconds) shortens this one's queue_timeout; 0 means a slot now or QueueFull.
        """
        self._handle_due(now)
        self._settle(now)
        if self._closed:
            self._refuse(now, caller, "refused", None)
            raise RefusedError(f"llmgate: upstream {self.upstream} takes no new requests (REFUSED)")
        self._tickets += 1
        ticket = Ticket(self._tickets, caller, now)
        ticket.deadline = self._deadline(now, max_wait)
        endpoint = self._endpoints.take(caller.session) if not self._line and self._may_admit() else None
        if endpoint is None:
            self._queue(ticket, now, max_wait)
            if self._stuck_since is None:
                self._watch_for_a_stall(now)
        else:
            self._admit(ticket, endpoint, now, queued=False)
        return ticket

    def leave(self, ticket: Ticket, now: float, outcome: Outcome, *, by: str = "") -> None:
        """The way out of every state. Who calls first (or a timer) decides the outcome; later calls do nothing.

        `by`, here and below: who had it done, for the event.
        """
        self._handle_due(now)
        match ticket.state:
            case State.WAITING:
                self._leave_line(ticket, now, outcome, by)
            case State.RUNNING:
                self._release(ticket, now, outcome, by)
            case State.DRAINING:
                self._release(ticket, now, None)
        self._settle(now)

    def drain(self, ticket: Ticket, now: float, outcome: Outcome, *, release_at: float | None, by: str = "") -> None:
        """Its request is over, its slot is not: until `leave`, or until `release_at` at the latest (None = no latest).

        One that still waits never reached the server: it just leaves. One that drains or is gone stays as it is.
        """
        self._handle_due(now)
        if ticket.state is State.WAITING:
            self._leave_line(ticket, now, outcome, by)
        elif ticket.state is State.RUNNING:
            ticket.state = State.DRAINING
            self._note(Drained(*self._about(ticket, now), outcome, self._ran(ticket, now), by))
            self._timers.set(ticket, release_at)
            self._handle_due(now)
        self._settle(now)

    def requeue(self, ticket: Ticket, now: float) -> None:
        """Back from running to its old place in the line: nothing of it was sent. Out of time by now, it expires."""
        self._handle_due(now)
        if ticket.state is State.RUNNING:
            self._give_back(ticket)
            ticket.state, ticket.admitted_at = State.WAITING, None
            self._stand_by_order(ticket)
            self._note(Requeued(*self._about(ticket, now), ticket.order))
            self._timers.set(ticket, ticket.deadline)
            self._handle_due(now)
            if self._dismisses and ticket.state is State.WAITING:
                self._leave_line(ticket, now, "refused")
        self._settle(now)

    def move_to_front(self, ticket: Ticket, now: float, *, by: str = "") -> None:
        """Makes a waiting ticket the next to run."""
        self._handle_due(now)
        if ticket.state is State.WAITING and self._line.head() is not ticket:
            self._first_order = min(self._first_order, self._line.head().order) - 1
            ticket.order = self._first_order
            self._line.remove(ticket)
            self._line.push_front(ticket)
            self._note(Moved(*self._about(ticket, now), ticket.order, by))
        self._settle(now)

    # ---- the whole gate

    def set_limits(self, limits: Limits, now: float, *, by: str = "") -> None:
        """New limits at once: a higher cap admits, a lower one kills nothing; who waits keeps place and deadline."""
        self._handle_due(now)
        if limits != self._limits:
            old, self._limits = self._limits, limits
            self._note(LimitsChanged(self._next(), now, self.upstream, old, limits, by))
            self._set_stall_due()
        self._settle(now)

    def set_paused(self, paused: bool, now: float, *, by: str = "") -> None:
        """An operator's pause, or its end."""
        self._handle_due(now)
        self._paused = paused
        self._change_mode(now, by)
        self._settle(now)

    def set_endpoint(
        self,
        name: str,
        now: float,
        *,
        up: bool | None = None,
        max_concurrent: int | None = None,
        reason: str = "",
    ) -> None:
        """A server is down (`reason` says why) or back, or has another limit of its own.

        While all are down the gate is held, unless it was made not to be. Independent of a pause: either keeps
        everybody waiting.
        """
        self._handle_due(now)
        old = self._endpoints.statistics()[name]
        changed = up is not None and self._endpoints.set_up(name, up, reason)
        if max_concurrent is not None:
            changed = self._endpoints.set_cap(name, max_concurrent) or changed
        if changed:
            self._note_endpoint(name, old, now)
            self._change_mode(now)
        self._settle(now)

    def set_endpoints(self, endpoints: Mapping[str, int], now: float, *, kept: Mapping[str, str], holds: bool) -> None:
        """Other servers, as when it was made; `kept` is the old name of each that was one before.

        Who runs at one that is gone runs on, and counts against max_concurrent; who waits keeps the place.
        """
        self._handle_due(now)
        renamed = {old: new for new, old in kept.items()}
        for ticket in self._in_flight:
            ticket.endpoint = renamed.get(ticket.endpoint, "")
        self._endpoints.replace(endpoints, kept, holds=holds)
        self._note(EndpointsReplaced(self._next(), now, self.upstream, dict(endpoints), dict(kept), holds))
        self._change_mode(now)
        self._settle(now)

    def raise_alarm(self, alarm: Alarm, text: str, now: float) -> None:
        """It lasts until `clear_alarm`. The same again is nothing new; another text is, and replaces the old one."""
        self._handle_due(now)
        if self._tally.alarms.get(alarm) != text:
            self._note(AlarmRaised(self._next(), now, self.upstream, alarm, text))
        self._settle(now)

    def clear_alarm(self, alarm: Alarm, now: float) -> None:
        """Nothing happens where it is not raised."""
        self._handle_due(now)
        self._clear_alarm(alarm, now)
        self._settle(now)

    def close(self, now: float, *, dismiss: bool, by: str = "") -> None:
        """Takes nobody new; who waits is dismissed (outcome refused), or served to the end."""
        self._handle_due(now)
        self._closed = True
        self._dismisses = self._dismisses or dismiss
        self._change_mode(now, by)
        while dismiss and self._line:
            self._leave_line(self._line.head(), now, "refused")
        self._settle(now)

    def reopen(self, now: float, *, by: str = "") -> None:
        """Takes requests again after `close`."""
        self._handle_due(now)
        self._closed = self._dismisses = False
        self._change_mode(now, by)
        self._settle(now)

    def handle_timer(self, now: float) -> None:
        """Ends what is due by now. Early or late calls do no harm."""
        self._handle_due(now)
        self._settle(now)

    def next_deadline(self) -> float | None:
        """When `handle_timer` must be called next; None = not until something else happens."""
        due, stall = self._timers.next(), self._stall_due
        if due is not None and due <= stall:
            return due
        return stall if stall < math.inf else None

    def take_events(self) -> list[Event]:
        """What happened since the last call, in order."""
        events, self._events = self._events, []
        return events

    # ---- looking

    @property
    def limits(self) -> Limits:
        return self._limits

    @property
    def mode(self) -> Mode:
        return self._mode

    @property
    def depth(self) -> int:
        """How many wait."""
        return len(self._line)

    @property
    def holds(self) -> bool:
        """Whether everybody waits while all servers are down."""
        return self._endpoints.holds

    def statistics(self) -> GateStatistics:
        """The gate at this moment."""
        return self._tally.statistics()

    def is_up(self, endpoint: str) -> bool:
        """Whether that server is there, as far as is known."""
        return self._endpoints.is_up(endpoint)

    def endpoints(self) -> dict[str, EndpointStatistics]:
        """Its servers at this moment, in the order of the settings."""
        return self._endpoints.statistics()

    def position(self, ticket: Ticket, now: float) -> Position | None:
        """Where a ticket stands; None when it does not wait. O(log n)."""
        if ticket.state is not State.WAITING:
            return None
        waited_ms = int((now - ticket.entered_at) * 1000)
        state = "upstream_down" if self._endpoints.held else ""
        return Position(self._line.position(ticket), len(self._line), waited_ms, state=state)

    def in_flight(self) -> frozenset[Ticket]:
        """Those who run or drain."""
        return frozenset(self._in_flight)

    def head(self) -> Ticket | None:
        """Who is next; None where nobody waits. O(1)."""
        return self._line.head() if self._line else None

    def waiting(self) -> Iterator[Ticket]:
        """Those who wait, in dispatch order. Nothing may be called on the gate meanwhile."""
        return iter(self._line)

    # ---- inside

    def _may_admit(self) -> bool:
        cap = self._limits.max_concurrent
        return not self._stands and (cap == 0 or len(self._in_flight) < cap)

    def _settle(self, now: float) -> None:
        while self._line:
            if not (self._may_admit() and self._admit_head(now)):
                if self._stuck_since is None:
                    self._watch_for_a_stall(now)
                return
        if self._stuck_since is not None:
            self._end_stall(now)

    def _admit_head(self, now: float) -> bool:
        """Whether an endpoint has room for it."""
        ticket = self._line.head()
        endpoint = self._endpoints.take(ticket.caller.session)
        if endpoint is None:
            return False
        self._line.remove(ticket)
        self._timers.drop(ticket)
        self._admit(ticket, endpoint, now, queued=True)
        return True

    def _admit(self, ticket: Ticket, endpoint: str, now: float, *, queued: bool) -> None:
        self._in_flight.add(ticket)
        ticket.endpoint = endpoint
        ticket.state, ticket.admitted_at = State.RUNNING, now
        waited = now - ticket.entered_at
        self._note(Admitted(*self._about(ticket, now), queued, waited, endpoint))

    def _queue(self, ticket: Ticket, now: float, max_wait: float | None) -> None:
        limit = self._limits.max_queued
        if (limit is not None and len(self._line) >= limit) or (max_wait is not None and max_wait <= 0):
            depth = len(self._line)
            self._refuse(now, ticket.caller, "queue_full", limit)
            message = f"llmgate: the queue of upstream {self.upstream} is full (QUEUE_FULL)"
            raise QueueFull(message, depth=depth, limit=limit)
        ticket.state = State.WAITING
        self._line.append(ticket)
        about = self._about(ticket, now)
        self._note(Queued(*about, len(self._line), ticket.order, ticket.deadline))
        self._timers.set(ticket, ticket.deadline)

    def _deadline(self, now: float, max_wait: float | None) -> float | None:
        waits = [wait for wait in (self._limits.queue_timeout, max_wait) if wait is not None]
        return now + min(waits) if waits else None

    def _refuse(self, now: float, caller: Caller, outcome: Outcome, limit: int | None) -> None:
        self._note(Refused(self._next(), now, self.upstream, caller, outcome, len(self._line), limit))

    def _leave_line(self, ticket: Ticket, now: float, outcome: Outcome, by: str = "") -> None:
        self._line.remove(ticket)
        self._timers.drop(ticket)
        ticket.state = State.GONE
        waited = now - ticket.entered_at
        about = self._about(ticket, now)
        if outcome == "abandoned":
            self._note(Abandoned(*about, waited))
        elif outcome == "queue_timeout":
            self._note(Expired(*about, waited))
        else:
            self._note(Dismissed(*about, outcome, waited, by))

    def _release(self, ticket: Ticket, now: float, outcome: Outcome | None, by: str = "") -> None:
        self._timers.drop(ticket)
        ticket.state = State.GONE
        self._give_back(ticket)
        if self._stuck_since is not None:
            self._end_stall(now)
        self._note(Released(*self._about(ticket, now), outcome, self._ran(ticket, now), by))

    def _give_back(self, ticket: Ticket) -> None:
        self._in_flight.discard(ticket)
        if ticket.endpoint:
            self._endpoints.give_back(ticket.endpoint)

    def _stand_by_order(self, ticket: Ticket) -> None:
        """Into the line by its order. Only those put in front since it was admitted stand before it: few, if any."""
        ahead: list[Ticket] = []
        while self._line and self._line.head().order < ticket.order:
            ahead.append(self._line.head())
            self._line.remove(ahead[-1])
        self._line.push_front(ticket)
        for earlier in reversed(ahead):
            self._line.push_front(earlier)

    def _change_mode(self, now: float, by: str = "") -> None:
        self._stands = self._paused or self._endpoints.held
        if self._stands:
            self._end_stall(now)
        if self._closed:
            mode = Mode.CLOSED
        elif self._paused:
            mode = Mode.PAUSED
        else:
            mode = Mode.HELD if self._endpoints.held else Mode.OPEN
        if mode is not self._mode:
            old, self._mode = self._mode, mode
            self._note(ModeChanged(self._next(), now, self.upstream, old, mode, by))

    def _note_endpoint(self, name: str, old: EndpointStatistics, now: float) -> None:
        new = self._endpoints.statistics()[name]
        changes = new.up, new.max_concurrent, old.up, old.max_concurrent
        self._note(EndpointChanged(self._next(), now, self.upstream, name, *changes, new.reason))

    @staticmethod
    def _ran(ticket: Ticket, now: float) -> float:
        return now - ticket.admitted_at if ticket.admitted_at is not None else 0.0

    def _about(self, ticket: Ticket, now: float) -> tuple[int, float, str, int, Caller]:
        return self._next(), now, self.upstream, ticket.number, ticket.caller

    def _next(self) -> int:
        self._event_count += 1
        return self._event_count

    def _note(self, event: Event) -> None:
        self._tally.apply(event)
        self._events.append(event)

    # ---- the alarm of a queue that does not move

    def _watch_for_a_stall(self, now: float) -> None:
        """Somebody waits, and nobody did. Arrivals do not begin it anew, only a slot that falls free does."""
        if not self._stands:
            self._stuck_since = now
            self._set_stall_due()

    def _set_stall_due(self) -> None:
        since, after = self._stuck_since, self._limits.stall_alarm
        if since is None or after is None or "stalled" in self._tally.alarms:
            self._stall_due = math.inf
        else:
            self._stall_due = since + after

    def _raise_stalled(self, now: float) -> None:
        text = "stalled: requests wait, and no slot fell free for as long as stall_alarm says"
        self._note(AlarmRaised(self._next(), now, self.upstream, "stalled", text))
        self._stall_due = math.inf

    def _end_stall(self, now: float) -> None:
        self._stuck_since, self._stall_due = None, math.inf
        if self._tally.alarms:
            self._clear_alarm("stalled", now)

    def _clear_alarm(self, alarm: Alarm, now: float) -> None:
        if alarm in self._tally.alarms:
            self._note(AlarmCleared(self._next(), now, self.upstream, alarm))

    # ---- what is due

    def _handle_due(self, now: float) -> None:
        if self._timers.soonest <= now:
            self._end_due(now)
        if self._stall_due <= now:
            self._raise_stalled(now)

    def _end_due(self, now: float) -> None:
        while (ticket := self._timers.take_due(now)) is not None:
            if ticket.state is State.WAITING:
                self._leave_line(ticket, now, "queue_timeout")
            else:
                self._release(ticket, now, None)
        if not self._line:
            self._end_stall(now)
