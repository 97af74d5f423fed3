"""One upstream's queue and slots: who runs, who waits, in which order, and when each of them stops waiting.

What holds after every public call, whatever was called before:
- running + draining never exceeds max_concurrent, unless max_concurrent was lowered under running work;
- nobody waits while a slot is free, unless the gate is paused or held: `_settle`, the one place that admits, ends every
  call, and gives a freed slot to the head of the line, so a newcomer never overtakes;
- a ticket leaves each state once: `leave` is the one way out, idempotent, and whoever comes second changes nothing;
- nobody is admitted whose deadline has passed: what is due is handled before anything else in every call;
- each change is one numbered event, and the events fold to the statistics;
- whoever runs or drains is counted at one endpoint, which had room and was up when it was admitted, and in the account
  of its server until it is given back, whatever a reload does with the endpoint.

Pure: it takes `now` (seconds, monotonic), it calls nobody, it keeps facts until `take_events()` fetches them.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping

from llmgate.core.account import Account
from llmgate.core.caller import Caller
from llmgate.core.chronicle import Chronicle
from llmgate.core.closing import Closing, closing_of, refusal
from llmgate.core.endpoints import Endpoints, EndpointStatistics
from llmgate.core.events import Alarm, Event, GateStatistics, Limits, Mode
from llmgate.core.line import Line, Position
from llmgate.core.stall import Stall
from llmgate.core.ticket import State, Ticket
from llmgate.core.timers import Timers
from llmgate.errors import Outcome, QueueFull

__all__ = ["Gate", "State", "Ticket"]


class Gate:
    """The queue of one upstream."""

    def __init__(
        self,
        upstream: str,
        limits: Limits,
        endpoints: Mapping[str, int] | None = None,
        *,
        holds: bool = True,
        accounts: Mapping[str, Account] | None = None,
    ) -> None:
        """`endpoints`: how many requests each server takes at once, by its name (0: as many as max_concurrent says);
        None: there is one, called as the upstream. `holds`: while all are down everybody waits, else all are tried.
        `accounts` of the servers, by the same names, where others may send there too."""
        self._story = Chronicle(upstream, limits)
        self._endpoints = Endpoints({upstream: 0} if endpoints is None else endpoints, holds=holds, accounts=accounts)
        self._limits = limits
        self._line: Line[Ticket] = Line()
        self._in_flight: set[Ticket] = set()
        self._paused = self._dismisses = self._leaving = False
        self.closing: Closing | None = None
        """Why it takes nobody new; None: it does."""
        self._stands = False
        """Admits nobody, whatever is free: it is paused, or no server is there."""
        self._changing = False
        """Other gates are changed with it: nobody is admitted before all of them are."""
        self._stall = Stall(limits.stall_alarm)
        self._mode = Mode.OPEN
        self._tickets = 0
        self._first_order = 0
        self._timers: Timers[Ticket] = Timers()
        self._share_out()

    # ---- one request

    def enter(self, now: float, caller: Caller, *, max_wait: float | None = None) -> Ticket:
        """A ticket, running or waiting; QueueFull or Refused when there is no room.

        `max_wait` (seconds) shortens this one's queue_timeout; 0 means a slot now or QueueFull.
        """
        self._handle_due(now)
        self._settle(now)
        if self.closing is not None:
            self._story.refused(caller, now, "refused", len(self._line), None, self.closing.reason)
            raise refusal(self.closing, self.upstream)
        self._tickets += 1
        ticket = Ticket(self._tickets, caller, now)
        ticket.deadline = self._deadline(now, max_wait)
        endpoint = self._endpoints.take(caller.session) if not self._line and self._may_admit() else None
        if endpoint is None:
            self._queue(ticket, now, max_wait)
            if self._stall.since is None:
                self._watch_for_a_stall(now)
        else:
            self._admit(ticket, endpoint, now, queued=False)
        return ticket

    def leave(self, ticket: Ticket, now: float, outcome: Outcome, *, by: str = "", reason: str = "") -> None:
        """The way out of every state. Who calls first (or a timer) decides the outcome; later calls do nothing.

        `by`, here and below: who had it done, and `reason`: why it ended so, for the event.
        """
        self._handle_due(now)
        match ticket.state:
            case State.WAITING:
                self._leave_line(ticket, now, outcome, by, reason)
            case State.RUNNING:
                self._release(ticket, now, outcome, by, reason)
            case State.DRAINING:
                self._release(ticket, now, None)
        self._settle(now)

    def drain(
        self,
        ticket: Ticket,
        now: float,
        outcome: Outcome,
        *,
        release_at: float | None,
        by: str = "",
        reason: str = "",
    ) -> None:
        """Its request is over, its slot is not: until `leave`, or until `release_at` at the latest (None = no latest).

        One that still waits never reached the server: it just leaves. One that drains or is gone stays as it is.
        """
        self._handle_due(now)
        if ticket.state is State.WAITING:
            self._leave_line(ticket, now, outcome, by, reason)
        elif ticket.state is State.RUNNING:
            ticket.state = State.DRAINING
            self._story.drained(ticket, now, outcome, by, reason)
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
            self._story.requeued(ticket, now)
            self._timers.set(ticket, ticket.deadline)
            self._handle_due(now)
            if self._dismisses and ticket.state is State.WAITING:
                self._dismiss(ticket, now)
        self._settle(now)

    def move_to_front(self, ticket: Ticket, now: float, *, by: str = "") -> None:
        """Makes a waiting ticket the next to run."""
        self._handle_due(now)
        if ticket.state is State.WAITING and self._line.head() is not ticket:
            self._first_order = min(self._first_order, self._line.head().order) - 1
            ticket.order = self._first_order
            self._line.remove(ticket)
            self._line.push_front(ticket)
            self._story.moved(ticket, now, by)
        self._settle(now)

    # ---- the whole gate

    def set_limits(self, limits: Limits, now: float, *, by: str = "") -> None:
        """New limits at once: a higher cap admits, a lower one kills nothing; who waits keeps place and deadline."""
        self._handle_due(now)
        if limits != self._limits:
            old, self._limits = self._limits, limits
            self._story.limits_changed(now, old, limits, by)
            self._stall.set_after(limits.stall_alarm, told="stalled" in self._story.tally.alarms)
            self._share_out()
        self._settle(now)

    def set_paused(self, paused: bool, now: float, *, by: str = "") -> None:
        """An operator's pause, or its end. One that is leaving is paused no more: who waits would do so for ever."""
        self._handle_due(now)
        self._paused = paused and (self._paused or not self._leaving)
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
            self._share_out()
        if changed:
            holding = len(self._line) if self._endpoints.held else 0
            self._story.endpoint_changed(now, name, old, self._endpoints.statistics()[name], holding)
            self._change_mode(now)
        self._settle(now)

    def set_endpoints(
        self,
        endpoints: Mapping[str, int],
        now: float,
        *,
        kept: Mapping[str, str],
        holds: bool,
        accounts: Mapping[str, Account] | None = None,
    ) -> None:
        """Other servers, as when it was made; `kept` is the old name of each that was one before.

        Who runs at one that is gone runs on, and counts against max_concurrent, and at that server once it is back; who
        waits keeps the place.
        """
        self._handle_due(now)
        in_flight = Counter(ticket.account for ticket in self._in_flight)
        names = self._endpoints.replace(endpoints, kept, in_flight, holds=holds, accounts=accounts)
        for ticket in self._in_flight:
            ticket.endpoint = names.get(ticket.account, "")
        where = {ticket.number: ticket.endpoint for ticket in self._in_flight}
        self._story.endpoints_replaced(now, endpoints, kept, where, holds=holds)
        self._share_out()
        self._change_mode(now)
        self._settle(now)

    def rename(self, upstream: str, now: float) -> None:
        """A reload calls its upstream otherwise: nothing else changes, so nobody is admitted by that."""
        self._story.renamed(now, upstream)

    def begin_change(self) -> None:
        """Until `end_change` nobody is admitted: servers may go from one gate to another meanwhile, in any order."""
        self._changing = True

    def end_change(self, now: float) -> None:
        """All gates are as they should be: who can be admitted is."""
        self._changing = False
        self.handle_timer(now)

    def dissolve(self) -> None:
        """Its upstream is gone, with the last who was there: it has no part of its servers any more."""
        self._endpoints.withdraw()

    def raise_alarm(self, alarm: Alarm, text: str, now: float) -> None:
        """It lasts until `clear_alarm`. The same again is nothing new; another text is, and replaces the old one."""
        self._handle_due(now)
        if self._story.tally.alarms.get(alarm) != text:
            self._story.alarm_raised(now, alarm, text)
        self._settle(now)

    def clear_alarm(self, alarm: Alarm, now: float) -> None:
        """Nothing happens where it is not raised."""
        self._handle_due(now)
        self._clear_alarm(alarm, now)
        self._settle(now)

    def close(self, now: float, *, dismiss: bool, leaving: bool = False, by: str = "") -> None:
        """Takes nobody new; who waits is dismissed (outcome refused), or served to the end. `leaving`: until
        `come_back`, so that its servers are for whoever else names them, once its line is served."""
        self._handle_due(now)
        self.closing = max(self.closing or Closing.DRAIN, closing_of(dismiss=dismiss, leaving=leaving))
        self._dismisses = self._dismisses or dismiss
        self._leaving = self._leaving or leaving
        self._share_out()
        self._change_mode(now, by)
        while dismiss and self._line:
            self._dismiss(self._line.head(), now)
        self._settle(now)

    def reopen(self, now: float, *, by: str = "") -> None:
        """Takes requests again after `close`, but where it is leaving: its servers are for others then."""
        self._handle_due(now)
        if not self._leaving:
            self.closing = None
            self._dismisses = False
            self._share_out()
            self._change_mode(now, by)
        self._settle(now)

    def come_back(self, now: float) -> None:
        """Takes requests again though it was leaving, or closed otherwise: the settings name its upstream again."""
        self._leaving = False
        self.reopen(now)

    def handle_timer(self, now: float) -> None:
        """Ends what is due by now, and admits where others gave room at a server. Early or late calls do no harm."""
        self._handle_due(now)
        self._settle(now)

    def next_deadline(self) -> float | None:
        """When `handle_timer` must be called next; None = not until something else happens."""
        due, stall = self._timers.next(), self._stall.due
        if due is not None and due <= stall:
            return due
        return stall if stall < math.inf else None

    def take_events(self) -> list[Event]:
        """What happened since the last call, in order."""
        return self._story.take()

    # ---- looking

    @property
    def upstream(self) -> str:
        return self._story.upstream

    @property
    def limits(self) -> Limits:
        return self._limits

    @property
    def mode(self) -> Mode:
        return self._mode

    @property
    def stands(self) -> bool:
        """Whether nobody is admitted, whatever is free: an operator has paused it, or no server is there. It may be
        closed as well."""
        return self._stands

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
        return self._story.tally.statistics()

    def is_up(self, endpoint: str) -> bool:
        """Whether that server is there, as far as is known."""
        return self._endpoints.is_up(endpoint)

    def endpoints(self) -> dict[str, EndpointStatistics]:
        """Its servers at this moment, in the order of the settings."""
        return self._endpoints.statistics()

    def accounts(self) -> Mapping[str, Account]:
        """Those of its servers, by the names of the endpoints."""
        return self._endpoints.accounts

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
        return not self._stands and (cap == 0 or len(self._in_flight) < cap) and not self._changing

    def _settle(self, now: float) -> None:
        while self._line and self._may_admit() and self._admit_head(now):
            pass
        if self._leaving:
            self._claim()
        if self._line:
            if self._stall.since is None:
                self._watch_for_a_stall(now)
        elif self._stall.since is not None:
            self._end_stall(now)

    def _claim(self) -> None:
        """Tells its servers' accounts how many of those who wait it could send at once."""
        cap = self._limits.max_concurrent
        most = len(self._line) if cap == 0 else min(len(self._line), max(0, cap - len(self._in_flight)))
        self._endpoints.claim(0 if self._stands else most)

    def _share_out(self) -> None:
        self._endpoints.share_out(self._limits.max_concurrent, leaving=self._leaving)

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
        ticket.endpoint, ticket.account = endpoint, self._endpoints.accounts[endpoint]
        ticket.state, ticket.admitted_at = State.RUNNING, now
        self._story.admitted(ticket, now, queued=queued)

    def _queue(self, ticket: Ticket, now: float, max_wait: float | None) -> None:
        limit = self._limits.max_queued
        if (limit is not None and len(self._line) >= limit) or (max_wait is not None and max_wait <= 0):
            depth = len(self._line)
            self._story.refused(ticket.caller, now, "queue_full", depth, limit)
            message = f"llmgate: the queue of upstream {self.upstream} is full (QUEUE_FULL)"
            raise QueueFull(message, depth=depth, limit=limit)
        ticket.state = State.WAITING
        self._line.append(ticket)
        self._story.queued(ticket, now, len(self._line))
        self._timers.set(ticket, ticket.deadline)

    def _deadline(self, now: float, max_wait: float | None) -> float | None:
        waits = [wait for wait in (self._limits.queue_timeout, max_wait) if wait is not None]
        return now + min(waits) if waits else None

    def _dismiss(self, ticket: Ticket, now: float) -> None:
        self._leave_line(ticket, now, "refused", reason=self.closing.reason if self.closing is not None else "")

    def _leave_line(self, ticket: Ticket, now: float, outcome: Outcome, by: str = "", reason: str = "") -> None:
        self._line.remove(ticket)
        self._timers.drop(ticket)
        ticket.state = State.GONE
        self._story.left_line(ticket, now, outcome, by, reason)

    def _release(self, ticket: Ticket, now: float, outcome: Outcome | None, by: str = "", reason: str = "") -> None:
        self._timers.drop(ticket)
        ticket.state = State.GONE
        self._give_back(ticket)
        if self._stall.since is not None:
            self._end_stall(now)
        self._story.released(ticket, now, outcome, by, reason)

    def _give_back(self, ticket: Ticket) -> None:
        self._in_flight.discard(ticket)
        if ticket.endpoint:
            self._endpoints.give_back(ticket.endpoint)
        assert ticket.account is not None  # noqa: S101  it has been admitted
        ticket.account.in_flight -= 1

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
        if self.closing is not None:
            mode = Mode.CLOSED
        elif self._paused:
            mode = Mode.PAUSED
        else:
            mode = Mode.HELD if self._endpoints.held else Mode.OPEN
        if mode is not self._mode:
            old, self._mode = self._mode, mode
            self._story.mode_changed(now, old, mode, by)

    # ---- the alarm of a queue that does not move

    def _watch_for_a_stall(self, now: float) -> None:
        """Somebody waits, and nobody did. Arrivals do not begin it anew, only a slot that falls free does."""
        if not self._stands:
            self._stall.begin(now)

    def _raise_stalled(self, now: float) -> None:
        text = "stalled: requests wait, and no slot fell free for as long as stall_alarm says"
        self._story.alarm_raised(now, "stalled", text)
        self._stall.note_told()

    def _end_stall(self, now: float) -> None:
        self._stall.end()
        if self._story.tally.alarms:
            self._clear_alarm("stalled", now)

    def _clear_alarm(self, alarm: Alarm, now: float) -> None:
        if alarm in self._story.tally.alarms:
            self._story.alarm_cleared(now, alarm)

    # ---- what is due

    def _handle_due(self, now: float) -> None:
        if self._timers.soonest <= now:
            self._end_due(now)
        if self._stall.due <= now:
            self._raise_stalled(now)

    def _end_due(self, now: float) -> None:
        while (ticket := self._timers.take_due(now)) is not None:
            if ticket.state is State.WAITING:
                self._leave_line(ticket, now, "queue_timeout")
            else:
                self._release(ticket, now, None)
        if not self._line:
            self._end_stall(now)
