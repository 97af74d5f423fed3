"""A state machine that drives a gate, its model and its audit through any schedule, and compares them after each step.

Time goes by in steps that often tie with deadlines, and `handle_timer` comes early, late or not at all.
"""

from types import ModuleType
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from llmgate.core import gate as real_gate
from llmgate.core.caller import Caller
from llmgate.core.events import Event, Limits, Moved, Outcome, Requeued, Tally
from llmgate.core.line import Position
from llmgate.errors import QueueFull, Refused
from tests.core.gate_model import Audit, Entry, Model

OUTCOMES = st.sampled_from(["completed", "abandoned", "client_gone", "cancelled", "upstream_error"])
CALLS = st.sampled_from(["drain", "leave", "requeue", "move_to_front"])
WHICH = st.integers(0, 15)
AFTER = st.sampled_from([None, 1.0, 2.5, 8.0, 8.0, 0.0, -1.0])
LIMITS = st.builds(
    Limits,
    max_concurrent=st.sampled_from([1, 1, 1, 2, 2, 3, 3, 0]),
    max_queued=st.sampled_from([None, None, None, None, 4, 2, 0]),
    queue_timeout=st.sampled_from([None, None, 2.5, 6.0, 6.0, 20.0, 1.0, 0.0]),
)


class GateMachine(RuleBasedStateMachine):
    """Subclasses put another gate module, a faulty one, into `core`."""

    core: ClassVar[ModuleType] = real_gate
    smallest_line: ClassVar[int] = 64

    @initialize(limits=LIMITS, crowd=st.integers(0, 9))
    def open(self, limits: Limits, crowd: int) -> None:
        self.now = 0.0
        self.gate = self.core.Gate("reasoning", limits)
        self.model, self.audit, self.tally = Model(limits), Audit(limits), Tally(limits)
        self.pairs: list[tuple[Any, Entry]] = []
        self.positions: dict[object, int] = {}
        self.steps = 0
        self.enter(crowd)

    # ---- rules: one request

    @rule(max_wait=st.sampled_from([4.0, 1.0, 0.5, 0]))
    def enter_with_max_wait(self, max_wait: float) -> None:
        self._enter(max_wait)

    @rule(count=st.integers(1, 4))
    def enter(self, count: int) -> None:
        for _ in range(count):
            self._enter(None)

    @precondition(lambda self: self.model.ranking)
    @rule(which=WHICH, outcome=OUTCOMES)
    def leave(self, which: int, outcome: Outcome) -> None:
        self._leave(*self._pick(self.model.ranking, which), outcome)

    @precondition(lambda self: self.model.those("running"))
    @rule(which=WHICH)
    def complete(self, which: int) -> None:
        self._leave(*self._pick(self.model.those("running"), which), "completed")

    @precondition(lambda self: self.model.those("running"))
    @rule(which=WHICH, outcome=OUTCOMES, after=AFTER)
    def drain(self, which: int, outcome: Outcome, after: float | None) -> None:
        self._drain(*self._pick(self.model.those("running"), which), outcome, after)

    @precondition(lambda self: self.model.those("running"))
    @rule(which=WHICH)
    def requeue(self, which: int) -> None:
        self._requeue(*self._pick(self.model.those("running"), which))

    @precondition(lambda self: len(self.model.line) > 1)
    @rule(several=st.lists(WHICH, min_size=1, max_size=3))
    def move_to_front(self, several: list[int]) -> None:
        for which in several:
            if self.model.line:  # a late timer may have emptied it
                self._move_to_front(*self._pick(self.model.line, which))

    @precondition(lambda self: self.model.those("draining"))
    @rule(which=WHICH, call=CALLS, outcome=OUTCOMES)
    def call_for_one_who_drains(self, which: int, call: str, outcome: Outcome) -> None:
        self._call(call, *self._pick(self.model.those("draining"), which), outcome)

    @precondition(lambda self: self.pairs)
    @rule(which=WHICH, call=CALLS, outcome=OUTCOMES)
    def call_for_one_in_any_state(self, which: int, call: str, outcome: Outcome) -> None:
        """Mostly for one who is gone: nothing may happen any more."""
        self._call(call, *self.pairs[-1 - which % len(self.pairs)], outcome)

    # ---- rules: the whole gate

    @rule(limits=LIMITS)
    def set_limits(self, limits: Limits) -> None:
        self.model.change(self.now, limits=limits)
        self.gate.set_limits(limits, self.now)

    @rule(what=st.sampled_from(["paused", "held"]), again=st.sampled_from([False, False, False, True]))
    def pause_or_hold_or_end_it(self, what: str, again: bool) -> None:
        value = getattr(self.model, what) is again
        self.model.change(self.now, **{what: value})
        if what == "paused":
            self.gate.set_paused(value, self.now)
        else:
            self.gate.set_held(value, self.now)

    @precondition(lambda self: self.steps > 30)
    @rule(dismiss=st.booleans())
    def close(self, dismiss: bool) -> None:
        self.model.close(self.now, dismiss=dismiss)
        self.gate.close(self.now, dismiss=dismiss)

    @precondition(lambda self: self.steps > 10 and len(self.model.ranking) > 6)
    @rule(outcome=OUTCOMES)
    def everybody_leaves(self, outcome: Outcome) -> None:
        for pair in self.pairs:
            self._leave(*pair, outcome)
        statistics = self.gate.statistics()
        assert (statistics.waiting, statistics.running, statistics.draining) == (0, 0, 0), "I4: every slot is back"

    # ---- rules: time

    @rule(step=st.sampled_from([0.5, 1.0, 0.1, 1.5, 3.7, 10.0]))
    def time_passes(self, step: float) -> None:
        self.now += step

    @precondition(lambda self: self.gate.next_deadline() is not None)
    @rule()
    def handle_timer(self) -> None:
        self.model.change(self.now)
        self.gate.handle_timer(self.now)
        due = self.gate.next_deadline()
        assert due is None or due > self.now, "nobody is kept past its deadline"

    @precondition(lambda self: self.gate.next_deadline() is not None)
    @rule()
    def sleep_until_the_timer(self) -> None:
        self.now = max(self.now, self.gate.next_deadline())
        self.handle_timer()

    # ---- what holds after every step

    @invariant()
    def the_gate_holds_its_promises(self) -> None:
        self.steps += 1
        happened = self.gate.take_events()
        for event in happened:
            self.audit.apply(event)
            self.tally.apply(event)
        self._it_is_as_the_model_says()
        self._statistics_are_the_folded_events()
        self._no_slot_is_free_while_somebody_waits()
        self._positions_grow_only_for_a_reason(happened)
        self._memory_is_bounded()

    def _it_is_as_the_model_says(self) -> None:
        line = self.model.line
        assert [ticket for entry in line for ticket, its in self.pairs if its is entry] == list(self.gate.waiting())
        for ticket, entry in self.pairs:
            assert ticket.state.value == entry.state
            if entry.state == "waiting":
                waited_ms = int((self.now - entry.entered_at) * 1000)
                expected = Position(line.index(entry) + 1, len(line), waited_ms)
                assert self.gate.position(ticket, self.now) == expected
                assert ticket.deadline == entry.deadline
            else:
                assert self.gate.position(ticket, self.now) is None
        assert self.gate.depth == len(line)
        assert self.gate.next_deadline() == self.model.next_deadline()

    def _statistics_are_the_folded_events(self) -> None:
        assert self.gate.statistics() == self.tally.statistics() == self.model.statistics()
        assert (self.gate.limits, self.gate.mode) == (self.model.limits, self.model.mode)
        ended = sum(self.model.outcomes.values())
        entered = self.audit.ended.total() + self.model.outcomes["queue_full"] + self.model.outcomes["refused"]
        assert ended <= entered, "I6: one outcome a request"

    def _no_slot_is_free_while_somebody_waits(self) -> None:
        statistics = self.gate.statistics()
        cap = statistics.limits.max_concurrent
        busy = cap != 0 and statistics.running + statistics.draining >= cap
        assert not statistics.waiting or busy or self.model.paused or self.model.held, "I3"

    def _positions_grow_only_for_a_reason(self, happened: list[Event]) -> None:
        before = self.positions
        self.positions = {ticket: place for place, ticket in enumerate(self.gate.waiting(), 1)}
        if not any(isinstance(event, Moved | Requeued) for event in happened):
            for ticket, place in self.positions.items():
                assert place <= before.get(ticket, place), "I7"

    def _memory_is_bounded(self) -> None:
        waiting = len(self.model.line)
        live = waiting + len(self.model.those("draining"))
        assert len(self.gate._timers) <= 2 * live + self.core._DEAD_TIMERS_KEPT
        assert len(self.gate._line._members) <= max(self.smallest_line, 16 * waiting)

    # ---- the same call to both

    def _enter(self, max_wait: float | None) -> None:
        expected = self.model.enter(self.now, max_wait)
        try:
            ticket = self.gate.enter(self.now, Caller(id=f"r{len(self.pairs)}"), max_wait=max_wait)
        except QueueFull as error:
            told = (expected, error.depth, error.limit)
            assert told == ("queue_full", len(self.model.line), self.model.limits.max_queued)
        except Refused:
            assert expected == "refused"
        else:
            assert isinstance(expected, Entry), f"let in, though {expected}"
            self.pairs.append((ticket, expected))

    def _call(self, call: str, ticket: Any, entry: Entry, outcome: Outcome) -> None:
        if call == "leave":
            self._leave(ticket, entry, outcome)
        elif call == "drain":
            self._drain(ticket, entry, outcome, 1.0)
        elif call == "requeue":
            self._requeue(ticket, entry)
        else:
            self._move_to_front(ticket, entry)

    def _leave(self, ticket: Any, entry: Entry, outcome: Outcome) -> None:
        self.model.leave(entry, self.now, outcome)
        self.gate.leave(ticket, self.now, outcome)

    def _drain(self, ticket: Any, entry: Entry, outcome: Outcome, after: float | None) -> None:
        release_at = None if after is None else self.now + after
        self.model.drain(entry, self.now, outcome, release_at)
        self.gate.drain(ticket, self.now, outcome, release_at=release_at)

    def _requeue(self, ticket: Any, entry: Entry) -> None:
        self.model.requeue(entry, self.now)
        self.gate.requeue(ticket, self.now)

    def _move_to_front(self, ticket: Any, entry: Entry) -> None:
        self.model.move_to_front(entry, self.now)
        self.gate.move_to_front(ticket, self.now)

    def _pick(self, entries: list[Entry], which: int) -> tuple[Any, Entry]:
        chosen = entries[which % len(entries)]
        return next(pair for pair in self.pairs if pair[1] is chosen)
