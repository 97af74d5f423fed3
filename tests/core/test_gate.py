"""The rules of the gate, one by one, in a few lines each; those of several endpoints and of alarms are in gate/.

Any mixture of them: test_gate_machine.py.
"""

import pytest

from llmgate.core.caller import Caller
from llmgate.core.events import (
    Abandoned,
    Admitted,
    Dismissed,
    Drained,
    Expired,
    Limits,
    LimitsChanged,
    Mode,
    ModeChanged,
    Queued,
    Released,
    Tally,
)
from llmgate.core.events import Refused as RefusedEvent
from llmgate.core.gate import State
from llmgate.core.line import Position
from llmgate.errors import QueueFull, Refused

# ---- coming and going


def test_whoever_finds_a_free_slot_runs_at_once(bench):
    b = bench(max_concurrent=2)
    first, second, third = b.enter("a", "b", "c")
    assert [first.state, second.state, third.state] == [State.RUNNING, State.RUNNING, State.WAITING]
    assert b.story() == ["Admitted a", "Admitted b", "Queued c"]


def test_first_come_first_served(bench):
    b = bench()
    a, first, second, _ = b.enter("a", "b", "c", "d")
    assert b.line == "bcd"
    b.leave(a)
    assert (first.state, b.line) == (State.RUNNING, "cd")
    b.leave(first)
    assert (second.state, b.line) == (State.RUNNING, "d")


def test_a_freed_slot_goes_to_the_head_in_the_call_that_frees_it(bench):
    b = bench()
    a, _ = b.enter("a", "b")
    b.events()
    b.now = 5.73
    b.leave(a)
    released, admitted = b.events()
    assert released == Released(3, 5.73, "reasoning", 1, Caller(id="a"), "completed", 5.73)
    assert admitted == Admitted(4, 5.73, "reasoning", 2, Caller(id="b"), queued=True, waited=5.73, endpoint="reasoning")


def test_max_concurrent_0_admits_everybody(bench):
    b = bench(max_concurrent=0, max_queued=0)
    assert all(ticket.state is State.RUNNING for ticket in b.enter(*"abcdefgh"))


def test_whoever_leaves_the_line_gives_up_its_place(bench):
    b = bench()
    a, left, stays = b.enter("a", "b", "c")
    b.now = 2.0
    b.leave(left, "abandoned")
    assert left.state is State.GONE
    assert b.line == "c"
    assert b.events()[-1] == Abandoned(4, 2.0, "reasoning", 2, Caller(id="b"), waited=2.0)
    b.leave(a)
    assert stays.state is State.RUNNING


def test_an_operator_sends_one_away(bench):
    b = bench()
    _, waits = b.enter("a", "b")
    b.leave(waits, "cancelled")
    assert b.events()[-1] == Dismissed(3, 0.0, "reasoning", 2, Caller(id="b"), "cancelled", waited=0.0)


def test_leaving_twice_changes_nothing(bench):
    b = bench()
    a, second, third = b.enter("a", "b", "c")
    b.leave(a)
    b.events()
    b.leave(a, "cancelled")
    b.gate.drain(a, b.now, "client_gone", release_at=None)
    b.gate.requeue(a, b.now)
    b.gate.move_to_front(a, b.now)
    assert b.events() == []
    assert (second.state, third.state) == (State.RUNNING, State.WAITING)


def test_a_ticket_shows_its_number_and_state(bench):
    (ticket,) = bench().enter("a")
    assert repr(ticket) == "<Ticket 1 running>"


# ---- how many may wait


def test_beyond_max_queued_it_is_refused(bench):
    b = bench(max_queued=2)
    b.enter("a", "b", "c")
    with pytest.raises(QueueFull, match="queue of upstream reasoning is full") as caught:
        b.enter("d")
    assert (caught.value.depth, caught.value.limit) == (2, 2)
    assert b.events()[-1] == RefusedEvent(4, 0.0, "reasoning", Caller(id="d"), "queue_full", depth=2, limit=2)
    assert b.line == "bc"


def test_max_queued_0_refuses_whenever_busy(bench):
    b = bench(max_queued=0)
    (a,) = b.enter("a")
    with pytest.raises(QueueFull):
        b.enter("b")
    b.leave(a)
    assert b.enter("c")[0].state is State.RUNNING


def test_max_wait_0_means_a_slot_now_or_queue_full(bench):
    b = bench()
    assert b.enter("a", max_wait=0)[0].state is State.RUNNING
    with pytest.raises(QueueFull) as caught:
        b.enter("b", max_wait=0)
    assert (caught.value.depth, caught.value.limit) == (0, None)


# ---- how long one may wait


def test_whoever_waited_as_long_as_it_may_expires(bench):
    b = bench(queue_timeout=10.0)
    _, waits = b.enter("a", "b")
    assert b.gate.next_deadline() == waits.deadline == 10.0
    b.gate.handle_timer(9.9)
    assert waits.state is State.WAITING
    b.gate.handle_timer(10.0)
    assert waits.state is State.GONE
    assert b.events()[-1] == Expired(3, 10.0, "reasoning", 2, Caller(id="b"), waited=10.0)
    assert b.gate.next_deadline() is None


@pytest.mark.parametrize(
    ("queue_timeout", "max_wait", "deadline"),
    [(10.0, 3.0, 3.0), (10.0, 30.0, 10.0), (None, 3.0, 3.0), (10.0, None, 10.0), (None, None, None)],
)
def test_a_request_may_shorten_its_wait_not_lengthen_it(bench, queue_timeout, max_wait, deadline):
    b = bench(queue_timeout=queue_timeout)
    _, waits = b.enter("a") + b.enter("b", max_wait=max_wait)
    assert waits.deadline == deadline
    assert b.gate.next_deadline() == deadline
    queued = b.events()[-1]
    assert queued == Queued(2, 0.0, "reasoning", 2, Caller(id="b"), depth=1, order=2, deadline=deadline)


def test_one_who_is_out_of_time_is_not_admitted_even_if_the_timer_is_late(bench):
    b = bench(queue_timeout=10.0)
    a, expired = b.enter("a", "b")
    b.now = 8.0
    (fresh,) = b.enter("c")
    b.now = 10.0
    b.leave(a)
    assert (expired.state, fresh.state) == (State.GONE, State.RUNNING)
    assert b.story()[-3:] == ["Expired b", "Released a", "Admitted c"]


def test_the_timer_of_one_who_was_admitted_is_dead(bench):
    b = bench(queue_timeout=10.0)
    a, admitted = b.enter("a", "b")
    b.leave(a)
    assert b.gate.next_deadline() is None
    b.gate.handle_timer(10.0)
    assert admitted.state is State.RUNNING


# ---- draining: over for the client, not yet for the server


def test_a_draining_ticket_keeps_its_slot_until_it_leaves(bench):
    b = bench()
    a, waits = b.enter("a", "b")
    b.now = 1.0
    b.gate.drain(a, b.now, "client_gone", release_at=None)
    assert (a.state, waits.state) == (State.DRAINING, State.WAITING)
    assert b.gate.next_deadline() is None
    b.now = 3.0
    b.leave(a, "completed")
    assert waits.state is State.RUNNING
    _, _, drained, released, _ = b.events()
    assert drained == Drained(3, 1.0, "reasoning", 1, Caller(id="a"), "client_gone", ran=1.0)
    assert released == Released(4, 3.0, "reasoning", 1, Caller(id="a"), None, ran=3.0), "its outcome is told already"


def test_release_at_bounds_draining(bench):
    b = bench()
    a, waits = b.enter("a", "b")
    b.gate.drain(a, 0.0, "client_gone", release_at=1.0)
    assert b.gate.next_deadline() == 1.0
    b.gate.handle_timer(1.0)
    assert (a.state, waits.state) == (State.GONE, State.RUNNING)


def test_one_who_waits_never_drains(bench):
    b = bench()
    _, waits = b.enter("a", "b")
    b.gate.drain(waits, 0.0, "abandoned", release_at=1.0)
    assert waits.state is State.GONE
    assert b.gate.next_deadline() is None


def test_draining_again_keeps_the_first_outcome_and_time(bench):
    b = bench()
    (a,) = b.enter("a")
    b.gate.drain(a, 0.0, "client_gone", release_at=1.0)
    b.gate.drain(a, 0.0, "cancelled", release_at=9.0)
    assert b.gate.next_deadline() == 1.0
    assert b.gate.statistics().outcomes == {"client_gone": 1}


def test_a_slot_that_is_due_goes_to_the_head_not_to_the_newcomer(bench):
    """Also when the timer is late, and the newcomer is the first to call."""
    b = bench(max_queued=1)
    a, waits = b.enter("a", "b")
    b.gate.drain(a, 0.0, "client_gone", release_at=1.0)
    b.now = 2.0
    (newcomer,) = b.enter("c")
    assert (waits.state, newcomer.state) == (State.RUNNING, State.WAITING)


# ---- back into the line


def test_requeued_it_stands_before_all_who_came_later(bench):
    b = bench(max_concurrent=2)
    a, second, *_ = b.enter("a", "b", "c", "d")
    b.set_down()
    b.gate.requeue(second, 0.0)
    assert b.line == "bcd"
    b.gate.requeue(a, 0.0)
    assert b.line == "abcd"
    assert b.story()[-2:] == ["Requeued b", "Requeued a"]


def test_two_requeued_ones_keep_their_order(bench):
    b = bench(max_concurrent=2)
    a, second, _ = b.enter("a", "b", "c")
    b.set_down()
    b.gate.requeue(a, 0.0)
    b.gate.requeue(second, 0.0)
    assert b.line == "abc"


def test_requeued_it_stands_behind_one_whom_an_operator_put_in_front(bench):
    b = bench()
    a, _, third = b.enter("a", "b", "c")
    b.gate.move_to_front(third, 0.0)
    b.set_down()
    b.gate.requeue(a, 0.0)
    assert b.line == "cab"


def test_requeued_with_a_slot_free_it_runs_again(bench):
    b = bench()
    a, _ = b.enter("a", "b")
    b.gate.requeue(a, 1.0)
    assert (a.state, b.line) == (State.RUNNING, "b")
    assert b.gate.statistics().admitted == 1, "it is counted once"


def test_requeued_it_keeps_its_deadline(bench):
    b = bench(queue_timeout=10.0)
    a, waited = b.enter("a", "b")
    b.leave(a)
    b.now = 4.0
    b.set_down()
    b.gate.requeue(waited, 4.0)
    assert b.gate.next_deadline() == 10.0


def test_requeued_one_that_never_waited_may_wait_no_longer_than_others(bench):
    b = bench(queue_timeout=10.0)
    (a,) = b.enter("a")
    assert b.gate.next_deadline() is None
    b.now = 4.0
    b.set_down()
    b.gate.requeue(a, 4.0)
    assert b.gate.next_deadline() == 10.0


def test_requeued_out_of_time_it_expires_and_is_not_admitted(bench):
    b = bench(queue_timeout=10.0)
    (a,) = b.enter("a")
    b.gate.requeue(a, 11.0)
    assert a.state is State.GONE
    assert b.story() == ["Admitted a", "Requeued a", "Expired a"]


# ---- put in front


def test_moved_to_the_front_it_is_next(bench):
    b = bench()
    *_, last = b.enter("a", "b", "c", "d")
    b.gate.move_to_front(last, 0.0)
    assert b.line == "dbc"
    assert b.story()[-1] == "Moved d"


def test_the_last_one_moved_is_first(bench):
    b = bench()
    _, _, third, fourth = b.enter("a", "b", "c", "d")
    b.gate.move_to_front(third, 0.0)
    b.gate.move_to_front(fourth, 0.0)
    assert b.line == "dcb"


def test_moving_the_head_or_one_who_runs_does_nothing(bench):
    b = bench()
    a, head, _ = b.enter("a", "b", "c")
    b.events()
    b.gate.move_to_front(head, 0.0)
    b.gate.move_to_front(a, 0.0)
    assert (b.line, b.events()) == ("bc", [])


# ---- limits that change


def test_a_higher_cap_admits_at_once(bench):
    b = bench()
    b.enter("a", "b", "c", "d")
    b.gate.set_limits(Limits(max_concurrent=3), 0.0)
    assert b.line == "d"


def test_a_lower_cap_kills_nothing_and_admits_nobody_above_it(bench):
    b = bench(max_concurrent=3)
    a, second, third, waits = b.enter("a", "b", "c", "d")
    b.gate.set_limits(Limits(max_concurrent=1), 0.0)
    assert b.gate.statistics().running == 3
    b.leave(a)
    b.leave(second)
    assert waits.state is State.WAITING
    b.leave(third)
    assert waits.state is State.RUNNING


def test_who_waits_keeps_place_and_deadline_through_new_limits(bench):
    b = bench(queue_timeout=10.0)
    _, waits, _ = b.enter("a", "b", "c")
    b.gate.set_limits(Limits(max_concurrent=1, max_queued=0, queue_timeout=1.0), 0.0)
    assert (b.line, waits.deadline) == ("bc", 10.0)
    assert isinstance(b.events()[-1], LimitsChanged)
    assert b.gate.limits == Limits(1, 0, 1.0)


def test_the_same_limits_are_no_event(bench):
    b = bench()
    b.gate.set_limits(Limits(max_concurrent=1), 0.0)
    assert b.events() == []


# ---- modes


def test_a_paused_gate_queues_and_admits_nobody(bench):
    b = bench()
    b.gate.set_paused(True, 0.0)
    (a,) = b.enter("a")
    assert (a.state, b.gate.mode) == (State.WAITING, Mode.PAUSED)
    b.gate.set_paused(False, 1.0)
    assert (a.state, b.gate.mode) == (State.RUNNING, Mode.OPEN)


def test_a_pause_outlives_a_hold_and_a_hold_a_pause(bench):
    b = bench()
    b.set_down()
    b.gate.set_paused(True, 0.0)
    (a,) = b.enter("a")
    b.set_down(up=True)
    assert (a.state, b.gate.mode) == (State.WAITING, Mode.PAUSED)
    b.set_down()
    b.gate.set_paused(False, 0.0)
    assert (a.state, b.gate.mode) == (State.WAITING, Mode.HELD)
    b.set_down(up=True)
    assert a.state is State.RUNNING


def test_a_wait_ends_while_the_gate_is_paused_too(bench):
    b = bench(queue_timeout=10.0)
    b.gate.set_paused(True, 0.0)
    (a,) = b.enter("a")
    b.gate.handle_timer(10.0)
    assert a.state is State.GONE


def test_closed_it_takes_nobody_new_and_serves_who_waits(bench):
    b = bench()
    a, waits = b.enter("a", "b")
    b.gate.close(0.0, dismiss=False)
    with pytest.raises(Refused, match="takes no new requests"):
        b.enter("c")
    b.leave(a)
    assert waits.state is State.RUNNING
    assert b.story()[2:] == ["ModeChanged", "Refused c", "Released a", "Admitted b"]


def test_closed_with_dismiss_it_sends_the_waiting_away_and_lets_the_running_end(bench):
    b = bench()
    a, *_ = b.enter("a", "b", "c")
    b.gate.close(0.0, dismiss=True)
    assert a.state is State.RUNNING
    assert b.line == ""
    assert b.gate.statistics().outcomes == {"refused": 2}


def test_a_mode_told_once_is_not_told_again(bench):
    b = bench()
    b.gate.set_paused(True, 0.0)
    b.gate.set_paused(True, 1.0)
    assert b.events() == [ModeChanged(1, 0.0, "reasoning", Mode.OPEN, Mode.PAUSED)]


def test_requeued_after_all_were_dismissed_it_is_sent_away_too(bench):
    b = bench()
    a, _ = b.enter("a", "b")
    b.gate.close(0.0, dismiss=True)
    b.events()
    b.gate.requeue(a, 1.0)
    assert (a.state, b.story()) == (State.GONE, ["Requeued a", "Dismissed a"])
    assert b.gate.statistics().outcomes == {"refused": 2}


def test_requeued_while_who_waits_is_served_it_is_served(bench):
    b = bench()
    a, _ = b.enter("a", "b")
    b.gate.close(0.0, dismiss=False)
    b.gate.requeue(a, 1.0)
    assert (a.state, b.line) == (State.RUNNING, "b")


def test_closed_again_to_serve_them_does_not_call_back_a_dismissal(bench):
    b = bench()
    (a,) = b.enter("a")
    b.gate.close(0.0, dismiss=True)
    b.gate.close(0.0, dismiss=False)
    b.gate.requeue(a, 1.0)
    assert a.state is State.GONE


# ---- looking


def test_a_position_counts_live_waiters_only(bench):
    b = bench()
    a, second, third, fourth = b.enter("a", "b", "c", "d")
    b.leave(third, "abandoned")
    assert b.gate.position(second, 1.5) == Position(position=1, depth=2, waited_ms=1500)
    assert b.gate.position(fourth, 1.5) == Position(position=2, depth=2, waited_ms=1500)
    assert b.gate.position(third, 1.5) is None, "it is gone"
    assert b.gate.position(a, 1.5) is None, "it runs"


def test_statistics_are_the_folded_events(bench):
    b = bench(max_concurrent=2, max_queued=1)
    a, second, third = b.enter("a", "b", "c")
    with pytest.raises(QueueFull):
        b.enter("d")
    b.gate.drain(a, 1.0, "client_gone", release_at=2.0)
    b.leave(second)
    statistics = b.gate.statistics()
    assert (statistics.waiting, statistics.running, statistics.draining) == (0, 1, 1)
    assert (statistics.queued, statistics.admitted) == (1, 3)
    assert statistics.outcomes == {"queue_full": 1, "client_gone": 1, "completed": 1}
    tally = Tally(Limits(max_concurrent=2, max_queued=1))
    for event in b.events():
        tally.apply(event)
    assert tally.statistics() == statistics
    assert third.state is State.RUNNING


def test_events_are_numbered_from_1_and_taken_once(bench):
    b = bench()
    b.enter("a", "b")
    assert [event.number for event in b.events()] == [1, 2]
    assert b.events() == []


def test_it_stands_while_it_is_paused_or_no_server_is_there(bench):
    b = bench()
    assert not b.gate.stands
    b.gate.set_paused(True, b.now)
    assert b.gate.stands
    b.gate.set_paused(False, b.now)
    assert not b.gate.stands
    b.set_down()
    assert b.gate.stands
    b.set_down(up=True)
    assert not b.gate.stands


def test_the_head_of_the_line_is_who_is_admitted_next(bench):
    b = bench()
    running, second, third = b.enter("a", "b", "c")
    assert (b.gate.head(), b.gate.depth) == (second, 2)
    b.leave(running)
    assert b.gate.head() is third
    b.leave(second)
    assert (b.gate.head(), b.gate.depth) == (None, 0)


def test_a_new_name_is_told_and_changes_nothing_else(bench):
    b = bench()
    b.enter("a", "b")
    before = b.gate.statistics()
    b.events()
    b.gate.rename("thinking", 1.0)
    assert b.gate.upstream == "thinking"
    assert b.gate.statistics() == before
    assert b.line == "b"
    assert b.story() == ["UpstreamRenamed"]
