"""The gate under any schedule: see gate_machine.py for the rules and for what holds after each of them."""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from llmgate.core import endpoints as endpoints_module
from llmgate.core import line as line_module
from llmgate.core import timers as timers_module
from tests.core.gate_machine import GateMachine

pytestmark = pytest.mark.timeout(600)  # the deep profile takes minutes on a busy machine


class SmallGateMachine(GateMachine):
    smallest_line, dead_timers_kept, sessions_kept = 4, 1, 2


def test_any_schedule():
    run(GateMachine)


def test_any_schedule_with_small_arrays(monkeypatch: pytest.MonkeyPatch):
    """Small arrays are laid out anew, dead timers struck out and sessions forgotten every few steps."""
    monkeypatch.setattr(line_module, "_SMALLEST", SmallGateMachine.smallest_line)
    monkeypatch.setattr(timers_module, "_DEAD_KEPT", SmallGateMachine.dead_timers_kept)
    monkeypatch.setattr(endpoints_module, "_SESSIONS_KEPT", SmallGateMachine.sessions_kept)
    run(SmallGateMachine)


def run(machine: type[GateMachine]) -> None:
    """Of several bugs the first is enough: a run that fails ends soon."""
    run_state_machine_as_test(machine, settings=settings(report_multiple_bugs=False))
