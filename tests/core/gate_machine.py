"""A state machine that drives a gate, its model and its audit through any schedule, and compares them after each step.

Time goes by in steps that often tie with deadlines, and `handle_timer` comes early, late or not at all.
"""

from types import ModuleType
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from llmgate.core import account as real_account
from llmgate.core import gate as real_gate
from llmgate.core import timers as real_timers
from llmgate.core.caller import Caller
from llmgate.core.events import Alarm, Event, Limits, Mode, Moved, Outcome, Requeued, Tally
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
    stall_alarm=st.sampled_from([None, 1.5, 4.0, 4.0, 12.0]),
)
ENDPOINTS = ("one", "two", "three")
SITES = ("A", "B", "C", "D")
"""Servers, which an endpoint of any name may lead to."""
CAPS = st.lists(st.sampled_from([0, 1, 1, 2, 2, 3]), max_size=3)
"""None at all: the one that a gate has by itself."""
SESSIONS = st.sampled_from(["", "", "s", "t", "u"])
ALARMS = st.sampled_from(["draining", "hidden_wait", "mismatch"])


class GateMachine(RuleBasedStateMachine):
    """Subclasses put another gate module, a faulty one, into `core`."""

    core: ClassVar[ModuleType] = real_gate
    account: ClassVar[ModuleType] = real_account
    smallest_line: ClassVar[int] = 64
    dead_timers_kept: ClassVar[int] = real_timers._DEAD_KEPT
    sessions_kept: ClassVar[int] = 4096
    reloads: ClassVar[bool] = True
    """Whether servers and upstreams come, go and change as well: what else happens is then seen less often."""

    @initialize(limits=LIMITS, caps=CAPS, holds=st.sampled_from([True, True, False]), crowd=st.integers(0, 9))
    def open(self, limits: Limits, caps: list[int], holds: bool, crowd: int) -> None:
        self.now = 0.0
        self.accounts = {site: self.account.Account() for site in SITES}
        endpoints = dict(zip(ENDPOINTS, caps, strict=False)) or {"reasoning": 0}
        sites = dict(zip(endpoints, SITES, strict=False))
        accounts = {name: self.accounts[site] for name, site in sites.items()}
        self.gate = self.core.Gate("reasoning", limits, endpoints if caps else None, holds=holds, accounts=accounts)
        self.model = Model(limits, endpoints, sites, holds=holds, sessions_kept=self.sessions_kept)
        self.audit, self.tally = Audit(limits, endpoints, holds=holds), Tally(limits)
        self.pairs: list[tuple[Any, Entry]] = []
        self.positions: dict[object, int] = {}
        self.steps = 0
        self.enter(crowd)

    # ---- rules: one request

    @rule(max_wait=st.sampled_from([4.0, 1.0, 0.5, 0]), session=SESSIONS)
    def enter_with_max_wait(self, max_wait: float, session: str) -> None:
        self._enter(max_wait, session)

    @rule(count=st.integers(1, 4))
    def enter(self, count: int) -> None:
        for _ in range(count):
            self._enter(None)

    @precondition(lambda self: len(self.model.caps) > 1)
    @rule(sessions=st.lists(SESSIONS, min_size=1, max_size=3))
    def enter_with_sessions(self, sessions: list[str]) -> None:
        for session in sessions:
            self._enter(None, session)

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
    @rule(which=WHICH, down=st.booleans())
    def requeue(self, which: int, down: bool) -> None:
        """Mostly because its endpoint is found to be down."""
        ticket, entry = self._pick(self.model.those("running"), which)
        if down and entry.endpoint:
            self._set_endpoint(entry.endpoint, up=False, reason="it takes no connection")
        self._requeue(ticket, entry)

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

    @rule(again=st.sampled_from([False, False, False, True]))
    def pause_or_end_it(self, again: bool) -> None:
        paused = self.model.paused is again
        self.model.change(self.now, paused=paused)
        self.gate.set_paused(paused, self.now)

    @rule(up=st.booleans())
    def all_endpoints_go_down_or_come_back(self, up: bool) -> None:
        for name in self.model.caps:
            self._set_endpoint(name, up=up, reason="all are")

    @rule(which=WHICH, up=st.sampled_from([None, True, False]), cap=st.sampled_from([None, None, 0, 1, 2, 3]))
    def set_endpoint(self, which: int, up: bool | None, cap: int | None) -> None:
        names = list(self.model.caps)
        self._set_endpoint(names[which % len(names)], up=up, cap=cap, reason=f"{which}")

    @precondition(lambda self: self.reloads and self.steps > 20)
    @rule(caps=CAPS.filter(bool), order=st.permutations(SITES), holds=st.booleans())
    def replace_endpoints(self, caps: list[int], order: list[str], holds: bool) -> None:
        """Some stay, mostly under another name, some come back."""
        new, old = dict(zip(ENDPOINTS, caps, strict=False)), self.model.sites
        sites = dict(zip(new, order, strict=False))
        kept = {name: next(it for it in old if old[it] == site) for name, site in sites.items() if site in old.values()}
        self.model.replace_endpoints(self.now, new, sites, kept, holds=holds)
        accounts = {name: self.accounts[site] for name, site in sites.items()}
        self.gate.set_endpoints(new, self.now, kept=kept, holds=holds, accounts=accounts)

    @precondition(lambda self: self.reloads and self.steps > 10)
    @rule(site=st.sampled_from(SITES), count=st.integers(0, 2))
    def another_upstream_has_some_at_a_server(self, site: str, count: int) -> None:
        """From before a reload, so that they are in this one's way."""
        self.accounts[site].in_flight += count - self.model.strangers[site]
        self.model.strangers[site] = count
        self.model.change(self.now)
        self.gate.handle_timer(self.now)

    @precondition(lambda self: self.reloads and self.steps > 10)
    @rule(site=st.sampled_from(SITES), part=st.sampled_from([0, 1, 4]), leaving=st.booleans(), count=st.integers(0, 1))
    def another_upstream_has_a_server_too(self, site: str, part: int, leaving: bool, count: int) -> None:
        """On purpose, or since it is leaving and some wait there."""
        self.accounts[site].share(self, part, leaving=leaving)
        self.accounts[site].claim(self, count if leaving else 0)
        self.model.others[site] = part, leaving, count if leaving else 0
        self.model.change(self.now)
        self.gate.handle_timer(self.now)

    @precondition(lambda self: self.reloads and self.steps > 20)
    @rule(name=st.sampled_from(["reasoning", "thinking"]))
    def rename(self, name: str) -> None:
        self.gate.rename(name, self.now)
        assert self.gate.upstream == name

    @precondition(lambda self: self.reloads)
    @rule(limits=LIMITS)
    def change_it_among_others(self, limits: Limits) -> None:
        """Nobody is let in by it alone."""
        self.gate.begin_change()
        admitted = self.gate.statistics().admitted
        self.gate.set_limits(limits, self.now)
        assert self.gate.statistics().admitted == admitted
        self.model.change(self.now, limits=limits)
        self.model.change(self.now)
        self.gate.end_change(self.now)

    @rule(alarm=ALARMS, text=st.sampled_from(["one", "another", None]))
    def raise_or_clear_an_alarm(self, alarm: Alarm, text: str | None) -> None:
        self.model.change_alarm(self.now, alarm, text)
        if text is None:
            self.gate.clear_alarm(alarm, self.now)
        else:
            self.gate.raise_alarm(alarm, text, self.now)

    @precondition(lambda self: self.steps > 30)
    @rule(dismiss=st.booleans(), leaving=st.booleans())
    def close(self, dismiss: bool, leaving: bool) -> None:
        self.model.close(self.now, dismiss=dismiss, leaving=leaving)
        self.gate.close(self.now, dismiss=dismiss, leaving=leaving)

    @precondition(lambda self: self.model.closed)
    @rule(named_again=st.booleans())
    def reopen(self, named_again: bool) -> None:
        """By an operator, which ends no leaving, or by a reload."""
        self.model.reopen(self.now, named_again=named_again)
        if named_again:
            self.gate.come_back(self.now)
        else:
            self.gate.reopen(self.now)

    @precondition(lambda self: self.model.leaving)
    @rule(call=st.sampled_from(["pause", "resume", "drain"]))
    def an_operator_acts_on_one_that_is_leaving(self, call: str) -> None:
        """As llmgate.admission.local does it."""
        if call == "drain":
            self.model.close(self.now, dismiss=False, leaving=False)
            self.gate.close(self.now, dismiss=False)
        self.model.change(self.now, paused=call == "pause")
        self.gate.set_paused(call == "pause", self.now)
        if call != "drain":
            self.model.reopen(self.now, named_again=False)
            self.gate.reopen(self.now)
        assert self.gate.mode is Mode.CLOSED, "I1: it takes nobody new, as others have its servers now"

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
                state = "upstream_down" if self.model.held else ""
                expected = Position(line.index(entry) + 1, len(line), waited_ms, state=state)
                assert self.gate.position(ticket, self.now) == expected
                assert ticket.deadline == entry.deadline
            else:
                assert self.gate.position(ticket, self.now) is None
                assert ticket.endpoint == entry.endpoint
        assert (self.gate.depth, self.gate.head()) == (len(line), next(self.gate.waiting(), None))
        assert self.gate.endpoints() == self.model.endpoints()
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
        endpoints = self.gate.endpoints()
        in_flight = statistics.running + statistics.draining
        gone = sum(entry.endpoint == "" for entry in self.model.those("running", "draining"))
        at_sites = {site: account.in_flight for site, account in self.accounts.items()}
        assert sum(at_sites.values()) == in_flight + self.model.strangers.total(), "each is at one server"
        assert sum(endpoint.in_flight for endpoint in endpoints.values()) + gone == in_flight, "each is at one endpoint"
        usable = [name for name, it in endpoints.items() if it.up] or ([] if self.gate.holds else [*endpoints])
        free = [name for name in usable if self.model.has_room(name)]
        busy = cap != 0 and in_flight >= cap
        assert not statistics.waiting or busy or not free or self.model.paused, "I3"
        leaves = {site for site, account in self.accounts.items() if self.gate._endpoints in account._leaving}
        assert leaves == ({*self.model.sites.values()} if self.model.leaving else set())
        own = {site: account._claims.get(self.gate._endpoints, 0) for site, account in self.accounts.items()}
        assert own == {site: self.model.claims().get(site, 0) for site in SITES}

    def _positions_grow_only_for_a_reason(self, happened: list[Event]) -> None:
        before = self.positions
        self.positions = {ticket: place for place, ticket in enumerate(self.gate.waiting(), 1)}
        if not any(isinstance(event, Moved | Requeued) for event in happened):
            for ticket, place in self.positions.items():
                assert place <= before.get(ticket, place), "I7"

    def _memory_is_bounded(self) -> None:
        waiting = len(self.model.line)
        live = waiting + len(self.model.those("draining"))
        assert len(self.gate._timers) <= 2 * live + self.dead_timers_kept
        assert len(self.gate._line._members) <= max(self.smallest_line, 16 * waiting)
        assert len(self.gate._endpoints._sessions) <= self.sessions_kept

    # ---- the same call to both

    def _enter(self, max_wait: float | None, session: str = "") -> None:
        expected = self.model.enter(self.now, session, max_wait)
        try:
            caller = Caller(id=f"r{len(self.pairs)}", session=session)
            ticket = self.gate.enter(self.now, caller, max_wait=max_wait)
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

    def _set_endpoint(self, name: str, up: bool | None = None, cap: int | None = None, reason: str = "") -> None:
        self.model.change_endpoint(self.now, name, up, cap, reason)
        self.gate.set_endpoint(name, self.now, up=up, max_concurrent=cap, reason=reason)

    def _pick(self, entries: list[Entry], which: int) -> tuple[Any, Entry]:
        chosen = entries[which % len(entries)]
        return next(pair for pair in self.pairs if pair[1] is chosen)
