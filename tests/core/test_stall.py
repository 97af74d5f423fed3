"""When a queue that stands still is alarming. Under any schedule: test_gate_machine.py."""

import math

from llmgate.core.stall import Stall


def test_it_is_due_so_long_after_it_began():
    stall = Stall(5.0)
    assert (stall.since, stall.due) == (None, math.inf)
    stall.begin(10.0)
    assert (stall.since, stall.due) == (10.0, 15.0)
    stall.end()
    assert (stall.since, stall.due) == (None, math.inf)


def test_it_is_told_once():
    stall = Stall(5.0)
    stall.begin(10.0)
    stall.note_told()
    stall.set_after(2.0, told=True)
    assert (stall.since, stall.due) == (10.0, math.inf)


def test_another_bound_counts_for_what_has_begun():
    stall = Stall(None)
    stall.begin(10.0)
    assert stall.due == math.inf
    stall.set_after(5.0, told=False)
    assert stall.due == 15.0
    stall.end()
    stall.set_after(1.0, told=False)
    assert stall.due == math.inf
    stall.begin(20.0)
    assert stall.due == 21.0
