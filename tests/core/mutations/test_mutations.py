"""Seeded faults: the state machine must find each of them, so that it is known to watch what it claims to watch.

A fault replaces one piece of a module's text, which is then compiled into a module of its own. A piece that is not
there exactly once fails its test: whoever rewrites the gate rewrites the fault.
"""

import inspect
from types import ModuleType

import pytest

from llmgate.core import account, chronicle, endpoints, events, gate, line, timers
from tests.core.gate_machine import GateMachine
from tests.core.mutations.faults import FAULTS, Fault
from tests.core.mutations.walk import walk

MODULES = (account, chronicle, endpoints, events, gate, line, timers)
SMALLEST_LINE = 4
DEAD_TIMERS_KEPT = 1
SESSIONS_KEPT = 2
WALKS = 5000
"""Half of the faults are found by the first five; the one that hides best, by the 511th."""


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_the_fault_is_found(fault: Fault):
    machine = machine_on(fault)
    with pytest.raises((AssertionError, LookupError)):
        walk(machine, walks=WALKS)


@pytest.mark.slow
def test_without_a_fault_nothing_is_found():
    walk(machine_on(None), walks=1000)


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_the_text_of_the_fault_is_there(fault: Fault):
    copy_of(fault.module, fault)


def test_a_fault_whose_text_is_gone_fails_loudly():
    with pytest.raises(AssertionError, match="not there exactly once"):
        machine_on(Fault("outdated", gate, "no such text", ""))


def machine_on(fault: Fault | None) -> type[GateMachine]:
    """The state machine on a copy of the gate with that fault, its arrays so small that all its parts are at work."""
    parts = {module: copy_of(module, fault) for module in MODULES}
    parts[line]._SMALLEST = SMALLEST_LINE
    parts[timers]._DEAD_KEPT = DEAD_TIMERS_KEPT
    parts[endpoints]._SESSIONS_KEPT = SESSIONS_KEPT
    for module, own in ((events, "Tally"), (endpoints, "Endpoints"), (account, "Account")):
        told = {name: value for name, value in vars(module).items() if isinstance(value, type) and name != own}
        vars(parts[module]).update(told)  # what they tell must be of the types that everybody knows
    parts[chronicle].Tally, parts[gate].Chronicle = parts[events].Tally, parts[chronicle].Chronicle
    parts[gate].Line, parts[endpoints].Account = parts[line].Line, parts[account].Account
    parts[gate].Endpoints, parts[gate].Timers = parts[endpoints].Endpoints, parts[timers].Timers
    sizes = {"smallest_line": SMALLEST_LINE, "dead_timers_kept": DEAD_TIMERS_KEPT, "sessions_kept": SESSIONS_KEPT}
    return type("FaultyGateMachine", (GateMachine,), {"core": parts[gate], "account": parts[account], **sizes})


def copy_of(module: ModuleType, fault: Fault | None) -> ModuleType:
    text = inspect.getsource(module)
    if fault is not None and fault.module is module:
        assert text.count(fault.old) == 1, f"the text that {fault.name!r} replaces is not there exactly once"
        text = text.replace(fault.old, fault.new)
    copy = ModuleType(module.__name__)
    exec(compile(text, f"<{module.__name__}: {fault and fault.name}>", "exec"), vars(copy))  # noqa: S102
    return copy
