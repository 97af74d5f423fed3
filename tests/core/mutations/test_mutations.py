"""Seeded faults: the state machine must find each of them, so that it is known to watch what it claims to watch.

A fault replaces one piece of a module's text, which is then compiled into a module of its own. A piece that is not
there exactly once fails its test: whoever rewrites the gate rewrites the fault.
"""

import inspect
from types import ModuleType
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from llmgate.core import events, gate, line
from tests.core.gate_machine import GateMachine

pytestmark = pytest.mark.timeout(600)

SMALLEST_LINE = 4


class Fault(NamedTuple):
    """What is broken, in which module, and how."""

    name: str
    module: ModuleType
    old: str
    new: str


FAULTS = [
    # ---- I1 cap, I4 return
    Fault(
        "a draining slot is not counted",
        gate,
        "return cap == 0 or self._in_flight < cap",
        "return cap == 0 or self.statistics().running < cap",
    ),
    Fault(
        "leaving twice frees two slots",
        gate,
        "                self._release(ticket, now, None)\n        self._settle(now)",
        "                self._release(ticket, now, None)\n"
        "            case State.GONE:\n"
        "                self._in_flight -= 1\n"
        "        self._settle(now)",
    ),
    Fault(
        "a lowered cap is ignored",
        gate,
        "cap = self._limits.max_concurrent",
        "cap = self._highest = max(self._limits.max_concurrent, getattr(self, '_highest', 0))",
    ),
    Fault(
        "one more than the cap runs",
        gate,
        "self._in_flight < cap",
        "self._in_flight <= cap",
    ),
    Fault(
        "a slot is not given back",
        gate,
        "        self._in_flight -= 1\n        self._note(Released(",
        "        self._in_flight -= outcome is not None\n        self._note(Released(",
    ),
    Fault(
        "a requeued one keeps its slot",
        gate,
        "            self._in_flight -= 1\n            ticket.state, ticket.admitted_at = State.WAITING, None",
        "            ticket.state, ticket.admitted_at = State.WAITING, None",
    ),
    # ---- I2 order
    Fault(
        "a newcomer stands in front",
        gate,
        "        self._line.append(ticket)\n",
        "        self._line.push_front(ticket)\n",
    ),
    Fault(
        "a newcomer overtakes whom a late timer made room for",
        gate,
        "        self._settle(now)\n        if self._closed:",
        "        if self._closed:",
    ),
    Fault(
        "a requeued one goes to the end",
        gate,
        "            self._stand_by_order(ticket)\n",
        "            self._line.append(ticket)\n",
    ),
    Fault(
        "a requeued one goes to the very front",
        gate,
        "            self._stand_by_order(ticket)\n",
        "            self._line.push_front(ticket)\n",
    ),
    Fault(
        "those before a requeued one are turned round",
        gate,
        "for earlier in reversed(ahead):",
        "for earlier in ahead:",
    ),
    Fault(
        "a moved one keeps its order",
        gate,
        "            ticket.order = self._first_order\n",
        "",
    ),
    # ---- I3 work conserving
    Fault(
        "leave admits nobody",
        gate,
        "                self._release(ticket, now, None)\n        self._settle(now)",
        "                self._release(ticket, now, None)",
    ),
    Fault(
        "only one is admitted at a time",
        gate,
        "        while self._line and self._may_admit():",
        "        if self._line and self._may_admit():",
    ),
    Fault(
        "a raised cap wakes nobody",
        gate,
        "self._next(), now, self.upstream, old, limits))\n        self._settle(now)",
        "self._next(), now, self.upstream, old, limits))",
    ),
    Fault(
        "the end of a pause wakes nobody",
        gate,
        "        self._paused = paused\n        self._change_mode(now)\n        self._settle(now)",
        "        self._paused = paused\n        self._change_mode(now)",
    ),
    Fault(
        "the end of a hold ends a pause",
        gate,
        "        self._held = held\n",
        "        self._held = held\n        self._paused = self._paused and held\n",
    ),
    # ---- I6 one outcome, numbered events that fold to the statistics
    Fault(
        "a draining one drains again",
        gate,
        "        elif ticket.state is State.RUNNING:\n            ticket.state = State.DRAINING",
        "        elif ticket.state is not State.GONE:\n            ticket.state = State.DRAINING",
    ),
    Fault(
        "a released one is told again when it has drained",
        gate,
        "            case State.DRAINING:\n                self._release(ticket, now, None)",
        "            case State.DRAINING:\n                self._release(ticket, now, outcome)",
    ),
    Fault(
        "a number is left out",
        gate,
        "        self._note(Refused(self._next(),",
        "        self._next()\n        self._note(Refused(self._next(),",
    ),
    Fault(
        "a requeued one counts as admitted twice",
        events,
        "                self._waiting += 1\n                self._admitted -= 1",
        "                self._waiting += 1",
    ),
    # ---- limits and deadlines
    Fault(
        "max_queued is off by one",
        gate,
        "len(self._line) >= limit)",
        "len(self._line) > limit)",
    ),
    Fault(
        "max_wait 0 waits",
        gate,
        "(max_wait is not None and max_wait <= 0)",
        "(max_wait is not None and max_wait < 0)",
    ),
    Fault(
        "max_wait lengthens the wait",
        gate,
        "return now + min(waits) if waits",
        "return now + max(waits) if waits",
    ),
    Fault(
        "one out of time is admitted",
        gate,
        "        self._handle_due(now)\n        match ticket.state:",
        "        match ticket.state:",
    ),
    Fault(
        "one requeued out of time is admitted",
        gate,
        "            self._set_timer(ticket, ticket.deadline)\n            self._handle_due(now)\n",
        "            self._set_timer(ticket, ticket.deadline)\n",
    ),
    Fault(
        "one requeued waits for ever",
        gate,
        "            self._set_timer(ticket, ticket.deadline)\n            self._handle_due(now)\n",
        "",
    ),
    Fault(
        "release_at is forgotten",
        gate,
        "            self._set_timer(ticket, release_at)\n",
        "",
    ),
    Fault(
        "a deadline is handled a moment late",
        gate,
        "while self._timers and self._timers[0][0] <= now:",
        "while self._timers and self._timers[0][0] < now:",
    ),
    # ---- timers
    Fault(
        "a dead timer is resurrected",
        gate,
        "return entry[2].timer is not entry",
        "return entry[2].timer is None",
    ),
    Fault(
        "the timer of an admitted one lives on",
        gate,
        "            self._line.remove(ticket)\n            self._drop_timer(ticket)\n            self._admit(",
        "            self._line.remove(ticket)\n            self._admit(",
    ),
    Fault(
        "the live are struck out with the dead",
        gate,
        "[entry for entry in self._timers if not self._is_dead(entry)]",
        "[entry for entry in self._timers if self._is_dead(entry)]",
    ),
    Fault(
        "struck out, the timers are no heap any more",
        gate,
        "            heapq.heapify(self._timers)\n",
        "            self._timers.reverse()\n",
    ),
    Fault(
        "dead timers are kept",
        gate,
        "        self._dead_timers += 1\n        self._strike_out_dead_timers()\n",
        "        self._dead_timers += 1\n",
    ),
    Fault(
        "a dead timer is the next deadline",
        gate,
        "while self._timers and self._is_dead(self._timers[0]):",
        "while False:",
    ),
    # ---- I7 positions, and the line under them
    Fault(
        "a position counts one who left",
        line,
        "        self._add(index, -1)\n",
        "",
    ),
    Fault(
        "a position is counted from 0",
        line,
        "index = self._index[member] + 1",
        "index = self._index[member]",
    ),
    Fault(
        "the tree is not carried on to its end",
        line,
        "        while index < size:",
        "        while index < size - 1:",
    ),
    Fault(
        "a line laid out anew counts nobody",
        line,
        "        for index in self._index.values():\n            self._add(index, 1)\n",
        "",
    ),
    Fault(
        "the head stays on a hole",
        line,
        "        elif index == self._head:\n            self._skip_holes()\n",
        "        elif not self._index:\n            self._skip_holes()\n",
    ),
    Fault(
        "an empty line does not start over",
        line,
        "            self._head = self._tail = _SMALLEST // 4\n",
        "",
    ),
    Fault(
        "a long line's array is kept",
        line,
        "if len(self._members) > max(_SMALLEST, _SPARSE * len(self._index)):",
        "if False:",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_the_fault_is_found(fault: Fault):
    faulty = machine_on(fault)
    with pytest.raises((AssertionError, LookupError)):
        run(faulty)


@pytest.mark.slow
def test_without_a_fault_nothing_is_found():
    run(machine_on(None), examples=500)


def test_a_fault_whose_text_is_gone_fails_loudly():
    with pytest.raises(AssertionError, match="not there exactly once"):
        machine_on(Fault("outdated", gate, "no such text", ""))


def run(machine: type[GateMachine], *, examples: int = 3000) -> None:
    """The same schedules each time; most faults are found within the first fifty."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=50,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


def machine_on(fault: Fault | None) -> type[GateMachine]:
    """The state machine on a copy of the gate with that fault, its arrays so small that all its parts are at work."""
    changed_events, changed_line, changed_gate = (copy_of(module, fault) for module in (events, line, gate))
    changed_line._SMALLEST = SMALLEST_LINE
    changed_gate._DEAD_TIMERS_KEPT = 1
    vars(changed_events).update({name: value for name, value in vars(events).items() if name != "Tally"})
    changed_gate.Line, changed_gate.Tally = changed_line.Line, changed_events.Tally
    return type("FaultyGateMachine", (GateMachine,), {"core": changed_gate, "smallest_line": SMALLEST_LINE})


def copy_of(module: ModuleType, fault: Fault | None) -> ModuleType:
    text = inspect.getsource(module)
    if fault is not None and fault.module is module:
        assert text.count(fault.old) == 1, f"the text that {fault.name!r} replaces is not there exactly once"
        text = text.replace(fault.old, fault.new)
    copy = ModuleType(module.__name__)
    exec(compile(text, f"<{module.__name__}: {fault and fault.name}>", "exec"), vars(copy))  # noqa: S102
    return copy
