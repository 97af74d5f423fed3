"""Two judges of a gate that share nothing with it: a model of plain lists, and an audit that reads only its events."""

from bisect import bisect_left
from collections import Counter

from llmgate.core.endpoints import EndpointStatistics
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
    Outcome,
    Queued,
    Refused,
    Released,
    Requeued,
    UpstreamRenamed,
)

STALLED = "stalled: requests wait, and no slot fell free for as long as stall_alarm says"


class Entry:
    """One request in the model."""

    def __init__(self, session: str, entered_at: float, deadline: float | None) -> None:
        self.session, self.entered_at, self.deadline = session, entered_at, deadline
        self.release_at: float | None = None
        self.endpoint = ""
        self.site = ""
        """The server behind the endpoint that it was sent to, which outlives that."""
        self.state = "waiting"


class Model:
    """What a gate should do, in lists: `ranking` holds all that live, in dispatch order, those who run included.

    So nothing is needed for a requeued one to find its place: it never lost it.
    """

    def __init__(
        self, limits: Limits, caps: dict[str, int], sites: dict[str, str], *, holds: bool, sessions_kept: int
    ) -> None:
        self.sites = sites
        """The server behind each endpoint."""
        self.strangers: Counter[str] = Counter()
        """What another upstream has at each server, and no part in it any more."""
        self.others: dict[str, tuple[int, bool, int]] = {}
        """Another upstream that has a server too: what it may send there, whether it is leaving, and what is kept free
        then for those who wait at it."""
        self.leaving = False
        self.limits, self.caps, self.holds, self.sessions_kept = limits, dict(caps), holds, sessions_kept
        self.down: dict[str, str] = {}
        """Why, by the names of those that are down."""
        self.went: list[tuple[str, str]] = []
        """(session, endpoint), each session once, the one that came last at the end."""
        self.paused = self.closed = self.dismisses = False
        self.alarms: dict[Alarm, str] = {}
        self.blocked_since: float | None = None
        """Since when, without a break, somebody waits whom neither a pause nor a hold keeps waiting."""
        self.last_release = -1.0
        self.ranking: list[Entry] = []
        self.queued = self.admitted = 0
        self.outcomes: Counter[Outcome] = Counter()

    # ---- what is true now

    def those(self, *states: str) -> list[Entry]:
        return [entry for entry in self.ranking if entry.state in states]

    @property
    def line(self) -> list[Entry]:
        return self.those("waiting")

    @property
    def held(self) -> bool:
        return self.holds and len(self.down) == len(self.caps)

    @property
    def mode(self) -> Mode:
        if self.closed:
            return Mode.CLOSED
        if self.paused:
            return Mode.PAUSED
        return Mode.HELD if self.held else Mode.OPEN

    def in_flight(self, endpoint: str) -> int:
        return sum(entry.endpoint == endpoint for entry in self.those("running", "draining"))

    def free_endpoints(self) -> list[str]:
        """Who may take one now, the best first, sessions left out."""
        cap = self.limits.max_concurrent
        if self.paused or (cap and len(self.those("running", "draining")) >= cap):
            return []
        tried = [name for name in self.caps if name not in self.down]
        if not tried and not self.holds:
            tried = list(self.caps)
        free = [name for name in tried if self.has_room(name)]
        return sorted(free, key=lambda name: self.in_flight(name) / max(self.caps[name], 1))

    def has_room(self, name: str) -> bool:
        """At its endpoint, and at the server."""
        site = self.sites[name]
        there = sum(entry.site == site for entry in self.those("running", "draining")) + self.strangers[site]
        parts = [(self.caps[name] or self.limits.max_concurrent, self.leaving)]
        if site in self.others:
            part, leaving, claimed = self.others[site]
            parts.append((part, leaving))
            there += 0 if self.leaving else claimed
        counted = [part for part, leaving in parts if not leaving] or [part for part, _ in parts]
        at_server = not all(counted) or there < sum(counted)
        return at_server and (not self.caps[name] or self.in_flight(name) < self.caps[name])

    def claims(self) -> dict[str, int]:
        """By server: how many of those who wait could go there at once. Told only by one that is leaving."""
        if not self.leaving or self.paused or self.held:
            return {}
        cap, those = self.limits.max_concurrent, len(self.those("running", "draining"))
        most = min(len(self.line), max(cap - those, 0)) if cap else len(self.line)
        tried = [name for name in self.caps if name not in self.down] or list(self.caps)
        bounds = {name: max(self.caps[name] - self.in_flight(name), 0) if self.caps[name] else most for name in tried}
        return {self.sites[name]: min(most, bound) for name, bound in bounds.items()}

    def endpoint_for(self, session: str) -> str | None:
        free = self.free_endpoints()
        last = dict(self.went).get(session)
        return last if last in free else free[0] if free else None

    def endpoints(self) -> dict[str, EndpointStatistics]:
        return {
            name: EndpointStatistics(cap, name not in self.down, self.in_flight(name), self.down.get(name, ""))
            for name, cap in self.caps.items()
        }

    def stall_due(self) -> float | None:
        after = self.limits.stall_alarm
        if self.blocked_since is None or after is None or "stalled" in self.alarms:
            return None
        return max(self.blocked_since, self.last_release) + after

    def next_deadline(self) -> float | None:
        ends = [entry.deadline for entry in self.line] + [entry.release_at for entry in self.those("draining")]
        return min((end for end in [*ends, self.stall_due()] if end is not None), default=None)

    def statistics(self) -> GateStatistics:
        return GateStatistics(
            limits=self.limits,
            mode=self.mode,
            waiting=len(self.line),
            running=len(self.those("running")),
            draining=len(self.those("draining")),
            queued=self.queued,
            admitted=self.admitted,
            outcomes=dict(self.outcomes),
            alarms=dict(self.alarms),
        )

    # ---- what every call begins and ends with

    def end_what_is_due(self, now: float) -> None:
        for entry in self.line:
            if entry.deadline is not None and entry.deadline <= now:
                self._end(entry, now, "queue_timeout")
        for entry in self.those("draining"):
            if entry.release_at is not None and entry.release_at <= now:
                self._end(entry, now, None)
        self._look_who_is_blocked(now)
        due = self.stall_due()
        if due is not None and due <= now:
            self.alarms["stalled"] = STALLED

    def admit(self, now: float) -> None:
        while self.line and (endpoint := self.endpoint_for(self.line[0].session)) is not None:
            head = self.line[0]
            head.state, head.endpoint, head.site = "running", endpoint, self.sites[endpoint]
            self.admitted += 1
            if head.session and len(self.caps) > 1:
                others = [went for went in self.went if went[0] != head.session]
                self.went = [*others, (head.session, endpoint)][-self.sessions_kept :]
        self._look_who_is_blocked(now)

    def _look_who_is_blocked(self, now: float) -> None:
        if not self.line or self.paused or self.held:
            self.blocked_since = None
            self.alarms.pop("stalled", None)
        elif self.blocked_since is None:
            self.blocked_since = now

    # ---- the calls

    def enter(self, now: float, session: str, max_wait: float | None) -> Entry | Outcome:
        self.end_what_is_due(now)
        self.admit(now)
        waits = [wait for wait in (self.limits.queue_timeout, max_wait) if wait is not None]
        entry = Entry(session, now, now + min(waits) if waits else None)
        if self.closed:
            return self._refuse("refused")
        if self.endpoint_for(session) is None:
            full = self.limits.max_queued is not None and len(self.line) >= self.limits.max_queued
            if full or max_wait == 0:
                return self._refuse("queue_full")
            self.queued += 1
        self.ranking.append(entry)
        self.admit(now)
        return entry

    def leave(self, entry: Entry, now: float, outcome: Outcome) -> None:
        self.end_what_is_due(now)
        if entry in self.ranking:
            self._end(entry, now, None if entry.state == "draining" else outcome)
        self.admit(now)

    def drain(self, entry: Entry, now: float, outcome: Outcome, release_at: float | None) -> None:
        self.end_what_is_due(now)
        if entry.state == "waiting":
            self._end(entry, now, outcome)
        elif entry.state == "running":
            entry.state, entry.release_at = "draining", release_at
            self.outcomes[outcome] += 1
        self.end_what_is_due(now)
        self.admit(now)

    def requeue(self, entry: Entry, now: float) -> None:
        self.end_what_is_due(now)
        if entry.state == "running":
            entry.state = "waiting"
            self.admitted -= 1
            self.end_what_is_due(now)
            if self.dismisses and entry.state == "waiting":
                self._end(entry, now, "refused")
        self.admit(now)

    def move_to_front(self, entry: Entry, now: float) -> None:
        self.end_what_is_due(now)
        if entry.state == "waiting" and entry is not self.line[0]:
            self.ranking.remove(entry)
            self.ranking.insert(0, entry)
        self.admit(now)

    def close(self, now: float, *, dismiss: bool, leaving: bool) -> None:
        self.end_what_is_due(now)
        self.closed = True
        self.leaving = self.leaving or leaving
        self.dismisses = self.dismisses or dismiss
        if dismiss:
            for entry in self.line:
                self._end(entry, now, "refused")
        self.admit(now)

    def change(self, now: float, **what: object) -> None:
        """`limits` or `paused`."""
        self.end_what_is_due(now)
        if self.leaving and what.get("paused"):
            what["paused"] = self.paused
        vars(self).update(what)
        self.admit(now)

    def change_endpoint(self, now: float, name: str, up: bool | None, cap: int | None, reason: str) -> None:
        self.end_what_is_due(now)
        if up is False:
            self.down.setdefault(name, reason)
        elif up:
            self.down.pop(name, None)
        if cap is not None:
            self.caps[name] = cap
        self.admit(now)

    def replace_endpoints(
        self, now: float, caps: dict[str, int], sites: dict[str, str], kept: dict[str, str], *, holds: bool
    ) -> None:
        self.end_what_is_due(now)
        renamed = {old: new for new, old in kept.items()}
        self.sites = sites
        for entry in self.those("running", "draining"):
            entry.endpoint = next((name for name, site in sites.items() if site == entry.site), "")
        self.down = {new: self.down[old] for new, old in kept.items() if old in self.down}
        self.went = [(session, renamed[name]) for session, name in self.went if name in renamed]
        self.caps, self.holds = dict(caps), holds
        self.admit(now)

    def reopen(self, now: float, *, named_again: bool) -> None:
        self.end_what_is_due(now)
        if named_again or not self.leaving:
            self.closed = self.dismisses = self.leaving = False
        self.admit(now)

    def change_alarm(self, now: float, alarm: Alarm, text: str | None) -> None:
        self.end_what_is_due(now)
        if text is None:
            self.alarms.pop(alarm, None)
        else:
            self.alarms[alarm] = text
        self.admit(now)

    def _end(self, entry: Entry, now: float, outcome: Outcome | None) -> None:
        if entry.state != "waiting":
            self.last_release = now
            self.alarms.pop("stalled", None)
        self.ranking.remove(entry)
        entry.state = "gone"
        if outcome is not None:
            self.outcomes[outcome] += 1

    def _refuse(self, outcome: Outcome) -> Outcome:
        self.outcomes[outcome] += 1
        return outcome


class Audit:
    """Follows a gate by its events alone and asserts, at each of them, what spec I1, I2, I4 and I6 ask."""

    def __init__(self, limits: Limits, caps: dict[str, int], *, holds: bool) -> None:
        self.limits, self.mode, self.caps, self.holds = limits, Mode.OPEN, dict(caps), holds
        self.upstream = "reasoning"
        self.down: set[str] = set()
        self.at_endpoint: dict[int, str] = {}
        """Where each ticket runs or drains."""
        self.alarms: dict[Alarm, str] = {}
        self.released_at = -1.0
        self.number, self.at = 0, 0.0
        self.states: dict[int, str] = {}
        self.line: list[tuple[int, int]] = []
        """(order, ticket) of those who wait."""
        self.deadlines: dict[int, float | None] = {}
        self.ended: Counter[int] = Counter()

    def apply(self, event: Event) -> None:
        assert event.number == self.number + 1, "events are numbered without gaps"
        assert event.at >= self.at
        assert event.upstream == self.upstream or isinstance(event, UpstreamRenamed)
        self.number, self.at = event.number, event.at
        match event:
            case Queued():
                assert event.ticket not in self.states
                assert event.depth == len(self.line) + 1, "depth counts the new one"
                self._line_up(event.ticket, event.order, len(self.line))
                self.deadlines[event.ticket] = event.deadline
            case Admitted():
                self._admitted(event)
            case Drained():
                self._step(event.ticket, "running", "draining", event.outcome)
            case Released():
                self._step(event.ticket, "running" if event.outcome else "draining", "gone", event.outcome)
                del self.at_endpoint[event.ticket]
                self.released_at = event.at
            case Abandoned() | Expired() | Dismissed():
                self._step(event.ticket, "waiting", "gone", event.outcome)
                self._line_out(event.ticket)
            case Refused():
                assert event.depth == len(self.line)
            case Moved():
                self._line_out(event.ticket)
                self._line_up(event.ticket, event.order, 0)
            case Requeued():
                self._step(event.ticket, "running", "waiting", None)
                del self.at_endpoint[event.ticket]
                self._line_up(event.ticket, event.order, bisect_left(self.line, (event.order, 0)))
            case _:
                self._changed(event)

    def _changed(self, event: Event) -> None:
        match event:
            case LimitsChanged():
                assert event.old == self.limits
                self.limits = event.new
            case ModeChanged():
                assert event.old is self.mode
                self.mode = event.new
            case EndpointChanged(endpoint=name):
                assert (event.old_up, event.old_max_concurrent) == (name not in self.down, self.caps[name])
                assert (event.up, event.max_concurrent) != (event.old_up, event.old_max_concurrent)
                self.caps[name] = event.max_concurrent
                self.down = self.down - {name} if event.up else self.down | {name}
                assert not (event.up and event.reason)
            case EndpointsReplaced(caps=caps, kept=kept, holds=holds, where=where):
                assert where.keys() == self.at_endpoint.keys(), "each in flight is somewhere"
                renamed = {old: new for new, old in kept.items()}
                stayed = {ticket: renamed[name] for ticket, name in self.at_endpoint.items() if name in renamed}
                assert where.items() >= stayed.items(), "whoever runs at one that stays is counted there"
                self.down = {new for new, old in kept.items() if old in self.down}
                self.at_endpoint, self.caps, self.holds = dict(where), caps, holds
            case UpstreamRenamed(old=old):
                assert old == self.upstream
                self.upstream = event.upstream
            case AlarmRaised():
                assert self.alarms.get(event.alarm) != event.text, "it is told once"
                self.alarms[event.alarm] = event.text
                if event.alarm == "stalled":
                    self._stalled(event)
            case AlarmCleared():
                del self.alarms[event.alarm]

    def _stalled(self, event: AlarmRaised) -> None:
        assert self.line, "somebody waits"
        assert self.mode not in (Mode.PAUSED, Mode.HELD)
        assert self.limits.stall_alarm is not None
        assert event.at >= self.released_at + self.limits.stall_alarm

    def _admitted(self, event: Admitted) -> None:
        cap = self.limits.max_concurrent
        in_flight = sum(state in ("running", "draining") for state in self.states.values())
        assert cap == 0 or in_flight < cap, "I1: nobody is admitted above the cap, draining ones counted"
        assert self.mode not in (Mode.PAUSED, Mode.HELD)
        self._goes_to(event.ticket, event.endpoint)
        if event.queued:
            self._step(event.ticket, "waiting", "running", None)
            assert self.line[0][1] == event.ticket, "I2: the head is next"
            self._line_out(event.ticket)
        else:
            assert event.ticket not in self.states
            assert not self.line, "I2: a newcomer takes no slot that a waiter could have"
            self.states[event.ticket] = "running"
        deadline = self.deadlines.get(event.ticket)
        assert deadline is None or event.at < deadline, "nobody is admitted after its deadline"

    def _goes_to(self, ticket: int, endpoint: str) -> None:
        cap = self.caps[endpoint]
        assert cap == 0 or list(self.at_endpoint.values()).count(endpoint) < cap, "I1: nor above the endpoint's own"
        all_are_down = len(self.down) == len(self.caps)
        assert endpoint not in self.down or (all_are_down and not self.holds), "one that is down takes nothing"
        assert ticket not in self.at_endpoint
        self.at_endpoint[ticket] = endpoint

    def _step(self, ticket: int, old: str, new: str, outcome: Outcome | None) -> None:
        assert self.states[ticket] == old, "I4: each state is left once"
        self.states[ticket] = new
        self.ended[ticket] += outcome is not None
        assert self.ended[ticket] == (new in ("draining", "gone")), "I6: one outcome, told when its part is over"

    def _line_up(self, ticket: int, order: int, place: int) -> None:
        self.states[ticket] = "waiting"
        self.line.insert(place, (order, ticket))
        assert self.line == sorted(self.line), "the orders told are the dispatch order"

    def _line_out(self, ticket: int) -> None:
        self.line = [entry for entry in self.line if entry[1] != ticket]
