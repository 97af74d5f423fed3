"""Two judges of a gate that share nothing with it: a model of plain lists, and an audit that reads only its events."""

from bisect import bisect_left
from collections import Counter

from llmgate.core.events import (
    Abandoned,
    Admitted,
    Dismissed,
    Drained,
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
)


class Entry:
    """One request in the model."""

    def __init__(self, entered_at: float, deadline: float | None) -> None:
        self.entered_at, self.deadline = entered_at, deadline
        self.release_at: float | None = None
        self.state = "waiting"


class Model:
    """What a gate should do, in lists: `ranking` holds all that live, in dispatch order, those who run included.

    So nothing is needed for a requeued one to find its place: it never lost it.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.paused = self.held = self.closed = False
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
    def mode(self) -> Mode:
        if self.closed:
            return Mode.CLOSED
        if self.paused:
            return Mode.PAUSED
        return Mode.HELD if self.held else Mode.OPEN

    def has_room(self) -> bool:
        cap = self.limits.max_concurrent
        return not self.paused and not self.held and (cap == 0 or len(self.those("running", "draining")) < cap)

    def next_deadline(self) -> float | None:
        ends = [entry.deadline for entry in self.line] + [entry.release_at for entry in self.those("draining")]
        return min((end for end in ends if end is not None), default=None)

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
        )

    # ---- what every call begins and ends with

    def end_what_is_due(self, now: float) -> None:
        for entry in self.line:
            if entry.deadline is not None and entry.deadline <= now:
                self._end(entry, "queue_timeout")
        for entry in self.those("draining"):
            if entry.release_at is not None and entry.release_at <= now:
                self._end(entry, None)

    def admit(self) -> None:
        while self.line and self.has_room():
            self.line[0].state = "running"
            self.admitted += 1

    # ---- the calls

    def enter(self, now: float, max_wait: float | None) -> Entry | Outcome:
        self.end_what_is_due(now)
        self.admit()
        waits = [wait for wait in (self.limits.queue_timeout, max_wait) if wait is not None]
        entry = Entry(now, now + min(waits) if waits else None)
        if self.closed:
            return self._refuse("refused")
        if not self.has_room():
            full = self.limits.max_queued is not None and len(self.line) >= self.limits.max_queued
            if full or max_wait == 0:
                return self._refuse("queue_full")
            self.queued += 1
        self.ranking.append(entry)
        if self.has_room():
            self.admit()
        return entry

    def leave(self, entry: Entry, now: float, outcome: Outcome) -> None:
        self.end_what_is_due(now)
        if entry in self.ranking:
            self._end(entry, None if entry.state == "draining" else outcome)
        self.admit()

    def drain(self, entry: Entry, now: float, outcome: Outcome, release_at: float | None) -> None:
        self.end_what_is_due(now)
        if entry.state == "waiting":
            self._end(entry, outcome)
        elif entry.state == "running":
            entry.state, entry.release_at = "draining", release_at
            self.outcomes[outcome] += 1
        self.end_what_is_due(now)
        self.admit()

    def requeue(self, entry: Entry, now: float) -> None:
        self.end_what_is_due(now)
        if entry.state == "running":
            entry.state = "waiting"
            self.admitted -= 1
        self.end_what_is_due(now)
        self.admit()

    def move_to_front(self, entry: Entry, now: float) -> None:
        self.end_what_is_due(now)
        if entry.state == "waiting" and entry is not self.line[0]:
            self.ranking.remove(entry)
            self.ranking.insert(0, entry)
        self.admit()

    def close(self, now: float, *, dismiss: bool) -> None:
        self.end_what_is_due(now)
        self.closed = True
        if dismiss:
            for entry in self.line:
                self._end(entry, "refused")
        self.admit()

    def change(self, now: float, **what: object) -> None:
        """`limits`, `paused` or `held`."""
        self.end_what_is_due(now)
        vars(self).update(what)
        self.admit()

    def _end(self, entry: Entry, outcome: Outcome | None) -> None:
        self.ranking.remove(entry)
        entry.state = "gone"
        if outcome is not None:
            self.outcomes[outcome] += 1

    def _refuse(self, outcome: Outcome) -> Outcome:
        self.outcomes[outcome] += 1
        return outcome


class Audit:
    """Follows a gate by its events alone and asserts, at each of them, what spec I1, I2, I4 and I6 ask."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.mode = limits, Mode.OPEN
        self.number, self.at = 0, 0.0
        self.states: dict[int, str] = {}
        self.line: list[tuple[int, int]] = []
        """(order, ticket) of those who wait."""
        self.deadlines: dict[int, float | None] = {}
        self.ended: Counter[int] = Counter()

    def apply(self, event: Event) -> None:
        assert event.number == self.number + 1, "events are numbered without gaps"
        assert event.at >= self.at
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
                self._line_up(event.ticket, event.order, bisect_left(self.line, (event.order, 0)))
            case LimitsChanged():
                assert event.old == self.limits
                self.limits = event.new
            case ModeChanged():
                assert event.old is self.mode
                self.mode = event.new

    def _admitted(self, event: Admitted) -> None:
        cap = self.limits.max_concurrent
        in_flight = sum(state in ("running", "draining") for state in self.states.values())
        assert cap == 0 or in_flight < cap, "I1: nobody is admitted above the cap, draining ones counted"
        assert self.mode not in (Mode.PAUSED, Mode.HELD)
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
