"""The alarms of a gate: those that others raise, and its own of a queue that does not move."""

import pytest

from llmgate.core.events import AlarmCleared, AlarmRaised, Limits

STALLED = "stalled: requests wait, and no slot fell free for as long as stall_alarm says"


def test_an_alarm_lasts_until_it_is_cleared(bench):
    b = bench()
    b.gate.raise_alarm("mismatch", "mismatch: the server has 1 slot", 1.0)
    b.gate.raise_alarm("mismatch", "mismatch: the server has 1 slot", 2.0)
    assert b.gate.statistics().alarms == {"mismatch": "mismatch: the server has 1 slot"}
    b.gate.clear_alarm("mismatch", 3.0)
    b.gate.clear_alarm("mismatch", 4.0)
    assert b.gate.statistics().alarms == {}
    assert b.events() == [
        AlarmRaised(1, 1.0, "reasoning", "mismatch", "mismatch: the server has 1 slot"),
        AlarmCleared(2, 3.0, "reasoning", "mismatch"),
    ]


def test_another_text_of_an_alarm_replaces_the_old_one(bench):
    b = bench()
    b.gate.raise_alarm("draining", "one", 1.0)
    b.gate.raise_alarm("draining", "another", 2.0)
    assert b.gate.statistics().alarms == {"draining": "another"}
    assert b.story() == ["AlarmRaised", "AlarmRaised"]


def test_a_queue_that_does_not_move_is_stalled(bench):
    b = bench(stall_alarm=10.0)
    b.enter("a")
    assert b.gate.next_deadline() is None
    b.now = 5.0
    b.enter("b")
    assert b.gate.next_deadline() == 15.0
    b.gate.handle_timer(14.9)
    assert b.gate.statistics().alarms == {}
    b.gate.handle_timer(15.0)
    assert b.gate.statistics().alarms == {"stalled": STALLED}
    assert b.gate.next_deadline() is None
    b.gate.handle_timer(30.0)
    assert b.story() == ["Admitted a", "Queued b", "AlarmRaised"]


def test_arrivals_and_those_who_give_up_do_not_put_it_off(bench):
    b = bench(stall_alarm=10.0)
    _, left, _ = b.enter("a", "b", "c")
    b.now = 9.0
    b.enter("d")
    b.leave(left, "abandoned")
    assert b.gate.next_deadline() == 10.0


def test_a_release_ends_it_and_begins_it_anew(bench):
    b = bench(stall_alarm=10.0)
    a, *_ = b.enter("a", "b", "c")
    b.gate.handle_timer(10.0)
    b.events()
    b.now = 12.0
    b.leave(a)
    assert b.story() == ["AlarmCleared", "Released a", "Admitted b"]
    assert (b.gate.statistics().alarms, b.gate.next_deadline()) == ({}, 22.0)


def test_it_ends_when_nobody_waits_any_more(bench):
    b = bench(stall_alarm=10.0)
    _, waits = b.enter("a", "b")
    b.gate.handle_timer(10.0)
    b.events()
    b.now = 11.0
    b.leave(waits, "abandoned")
    assert (b.story(), b.gate.next_deadline()) == (["Abandoned b", "AlarmCleared"], None)
    b.enter("c")
    assert b.gate.next_deadline() == 21.0


@pytest.mark.parametrize("keep", ["paused", "held"])
def test_a_gate_that_keeps_everybody_waiting_is_not_stalled(bench, keep):
    b = bench(stall_alarm=10.0)
    b.enter("a", "b")
    b.gate.handle_timer(10.0)
    b.events()
    b.now = 11.0
    b.gate.set_paused(True, b.now) if keep == "paused" else b.set_down()
    assert "AlarmCleared" in b.story()
    assert b.gate.next_deadline() is None
    b.enter("c")
    assert b.gate.next_deadline() is None
    b.now = 30.0
    b.gate.set_paused(False, b.now) if keep == "paused" else b.set_down(up=True)
    assert b.gate.next_deadline() == 40.0


def test_a_timer_that_is_late_tells_no_stall_of_those_who_gave_up_meanwhile(bench):
    b = bench(queue_timeout=12.0, stall_alarm=10.0)
    b.enter("a", "b")
    b.gate.handle_timer(13.0)
    assert b.story() == ["Admitted a", "Queued b", "Expired b"]


def test_stall_alarm_changes_live(bench):
    b = bench(stall_alarm=10.0)
    b.enter("a", "b")
    b.gate.set_limits(Limits(stall_alarm=4.0), 1.0)
    assert b.gate.next_deadline() == 4.0
    b.gate.set_limits(Limits(), 2.0)
    assert b.gate.next_deadline() is None


def test_the_nearer_of_two_deadlines_is_the_next(bench):
    b = bench(queue_timeout=8.0, stall_alarm=10.0)
    b.enter("a", "b")
    assert b.gate.next_deadline() == 8.0
    b.gate.set_limits(Limits(queue_timeout=8.0, stall_alarm=3.0), 1.0)
    assert b.gate.next_deadline() == 3.0
