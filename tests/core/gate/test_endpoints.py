"""The rules of a gate with several servers behind it. Which takes the next one: tests/core/test_endpoints.py."""

import pytest

from llmgate.core.account import Account
from llmgate.core.endpoints import EndpointStatistics
from llmgate.core.events import Admitted, EndpointChanged, EndpointsReplaced, Limits, Mode
from llmgate.core.gate import Gate, State
from llmgate.core.line import Position

TWO = {"one": 1, "two": 2}


def went(*tickets):
    """Where they run; "-" for one that does not."""
    return " ".join(ticket.endpoint if ticket.state is State.RUNNING else "-" for ticket in tickets)


def test_without_endpoints_there_is_one_called_as_the_upstream(bench):
    b = bench(max_concurrent=2)
    assert went(*b.enter("a", "b", "c")) == "reasoning reasoning -"
    assert b.gate.endpoints() == {"reasoning": EndpointStatistics(0, in_flight=2)}
    assert b.gate.is_up("reasoning")


def test_the_least_busy_takes_the_next_one(bench):
    b = bench(0, endpoints=TWO)
    assert went(*b.enter("a", "b", "c", "d")) == "one two two -"
    assert [event.endpoint for event in b.events() if isinstance(event, Admitted)] == ["one", "two", "two"]


@pytest.mark.parametrize("leaver", [0, 1, 2])
def test_a_slot_that_falls_free_anywhere_serves_the_head(bench, leaver):
    b = bench(0, endpoints=TWO)
    *running, head, _ = b.enter("a", "b", "c", "d", "e")
    b.leave(running[leaver])
    assert (went(head), b.line) == (running[leaver].endpoint, "e")


def test_a_session_sticks_where_it_has_room(bench):
    b = bench(0, endpoints={"one": 2, "two": 2})
    (first,) = b.enter("a", session="s")
    assert went(*b.enter("b"), *b.enter("c", "d", "e", session="s")) == "two one two -"
    b.leave(first)
    assert b.line == "", "one that waits does not wait for its own"


def test_the_head_does_not_wait_for_the_endpoint_of_its_session(bench):
    b = bench(0, endpoints={"one": 1, "two": 1})
    _, other = b.enter("a", "b", session="s")
    (head,) = b.enter("c", session="s")
    b.now = 1.0
    b.leave(other)
    assert went(head) == "two"


def test_max_concurrent_bounds_the_sum(bench):
    b = bench(2, endpoints={"one": 2, "two": 2})
    a, *rest = b.enter("a", "b", "c")
    assert went(a, *rest) == "one two -"
    b.gate.set_limits(Limits(max_concurrent=3), 0.0)
    assert went(a, *rest) == "one two one"
    assert went(*b.enter("d")) == "-"


def test_max_concurrent_0_leaves_the_endpoints_their_own_caps(bench):
    b = bench(0, endpoints={"one": 1, "two": 1})
    assert went(*b.enter("a", "b", "c")) == "one two -"


def test_one_that_is_down_takes_nothing_and_who_waits_goes_to_the_others(bench):
    b = bench(0, endpoints=TWO)
    b.set_down("one")
    a, second, head = b.enter("a", "b", "c")
    assert (went(a, second, head), b.gate.mode) == ("two two -", Mode.OPEN)
    b.leave(a)
    assert went(head) == "two"
    (late,) = b.enter("d")
    b.set_down("one", up=True)
    assert went(late) == "one"


def test_who_runs_where_it_went_down_goes_on_and_gives_its_slot_back_there(bench):
    b = bench(0, endpoints=TWO)
    (a,) = b.enter("a")
    b.set_down("one")
    assert a.state is State.RUNNING
    b.leave(a)
    assert b.gate.endpoints()["one"] == EndpointStatistics(1, up=False, in_flight=0, reason="it takes no connection")


def test_requeued_from_one_that_is_down_it_runs_elsewhere_before_all_others(bench):
    b = bench(0, endpoints=TWO)
    a, second, _, _ = b.enter("a", "b", "c", "d")
    b.set_down("one")
    b.gate.requeue(a, 0.0)
    assert (a.state, b.line) == (State.WAITING, "ad")
    b.leave(second)
    assert went(a) == "two"
    b.set_down("one", up=True)
    assert b.line == ""


def test_all_down_everybody_waits_until_one_is_back(bench):
    b = bench(0, endpoints=TWO)
    b.set_down()
    first, second, third = b.enter("a", "b", "c")
    assert (b.line, b.gate.mode, b.gate.holds) == ("abc", Mode.HELD, True)
    b.set_down("two", up=True)
    assert (went(first, second, third), b.gate.mode) == ("two two -", Mode.OPEN)
    assert b.story() == [
        *["EndpointChanged", "EndpointChanged", "ModeChanged", "Queued a", "Queued b", "Queued c"],
        *["EndpointChanged", "ModeChanged", "Admitted a", "Admitted b"],
    ]


def test_all_down_where_nothing_holds_all_are_tried(bench):
    b = bench(0, endpoints=TWO, holds=False)
    b.set_down()
    a, second, third, fourth = b.enter("a", "b", "c", "d")
    assert (went(a, second, third, fourth), b.gate.mode, b.gate.holds) == ("one two two -", Mode.OPEN, False)
    assert b.gate.position(fourth, 0.0).state == ""
    b.set_down("one", up=True)
    b.leave(second)
    assert went(fourth) == "-", "now only the one that is up takes anybody"


def test_caps_of_endpoints_change_live(bench):
    b = bench(0, endpoints=TWO)
    a, _, _, fourth, fifth = b.enter("a", "b", "c", "d", "e")
    b.events()
    b.gate.set_endpoint("one", 1.0, max_concurrent=3)
    assert went(fourth, fifth) == "one one"
    b.gate.set_endpoint("one", 2.0, max_concurrent=1)
    (sixth,) = b.enter("f")
    b.leave(a)
    b.leave(fourth)
    assert (went(fifth, sixth), b.gate.endpoints()["one"].in_flight) == ("one -", 1)
    b.leave(fifth)
    assert went(sixth) == "one"
    changes = [event for event in b.events() if isinstance(event, EndpointChanged)]
    assert [(event.max_concurrent, event.old_max_concurrent) for event in changes] == [(3, 1), (1, 3)]


def test_a_change_of_an_endpoint_is_told_once_with_what_it_was(bench):
    b = bench(endpoints=TWO)
    b.gate.set_endpoint("two", 1.0, up=False, reason="it takes no connection")
    b.gate.set_endpoint("two", 2.0, up=False, reason="something else")
    b.gate.set_endpoint("two", 3.0, max_concurrent=2)
    b.gate.set_endpoint("two", 4.0, up=True, max_concurrent=1, reason="why ever")
    about = "reasoning", "two"
    assert b.events() == [
        EndpointChanged(1, 1.0, *about, False, 2, True, 2, "it takes no connection"),
        EndpointChanged(2, 4.0, *about, True, 1, False, 2, ""),
    ]


def test_that_the_last_server_is_down_is_told_with_how_many_are_held(bench):
    b = bench(0, endpoints=TWO)
    b.enter("a", "b", "c", "d", "e")
    b.set_down("one")
    b.set_down("two")
    b.gate.set_endpoint("two", 1.0, up=True)
    assert [event.holding for event in b.events() if isinstance(event, EndpointChanged)] == [0, 2, 0]


def test_a_change_of_the_cap_of_one_that_is_down_still_says_why_it_is(bench):
    b = bench(endpoints=TWO)
    b.set_down("two")
    b.gate.set_endpoint("two", 1.0, max_concurrent=5)
    assert b.events()[-1] == EndpointChanged(2, 1.0, "reasoning", "two", False, 5, False, 2, "it takes no connection")


def test_a_position_says_when_the_server_is_not_there(bench):
    b = bench(endpoints=TWO)
    b.set_down()
    (waits,) = b.enter("a")
    assert b.gate.position(waits, 0.0) == Position(1, 1, 0, state="upstream_down")
    b.gate.set_paused(True, 0.0)
    assert (b.gate.mode, b.gate.position(waits, 0.0).state) == (Mode.PAUSED, "upstream_down")
    b.set_down("one", up=True)
    assert b.gate.position(waits, 0.0).state == ""


# ---- after a reload


def test_who_runs_at_a_server_that_is_gone_counts_for_all_but_at_none(bench):
    b = bench(2, endpoints=TWO)
    first, second, head = b.enter("a", "b", "c")
    assert b.gate.in_flight() == {first, second}
    b.gate.set_endpoints({"new": 5, "one": 2}, b.now, kept={"one": "two"}, holds=True)
    assert (first.endpoint, second.endpoint, head.state) == ("", "one", State.WAITING)
    assert [it.in_flight for it in b.gate.endpoints().values()] == [0, 1]
    b.leave(first)
    assert (went(head), b.line) == ("new", "")
    told = [event for event in b.events() if isinstance(event, EndpointsReplaced)]
    assert [(event.caps, event.kept) for event in told] == [({"new": 5, "one": 2}, {"one": "two"})]


def test_another_server_ends_a_hold(bench):
    b = bench(1, endpoints={"one": 1})
    b.gate.set_endpoint("one", b.now, up=False, reason="gone")
    (waits,) = b.enter("a")
    b.gate.set_endpoints({"one": 1}, b.now, kept={"one": "one"}, holds=True)
    assert (b.gate.mode, waits.state) == (Mode.HELD, State.WAITING)
    b.gate.set_endpoints({"one": 1}, b.now, kept={}, holds=True)
    assert (b.gate.mode, waits.state) == (Mode.OPEN, State.RUNNING)
    assert b.gate.endpoints()["one"] == EndpointStatistics(1, in_flight=1)


# ---- servers that others have too


def test_a_server_that_is_taken_away_and_put_back_finds_what_runs_there(bench):
    b, one = bench(0, endpoints={"one": 1}), Account()
    b.gate.set_endpoints({"one": 1}, 0.0, kept={}, holds=True, accounts={"one": one})
    a, waits = b.enter("a", "b")
    b.gate.set_endpoints({"two": 1}, 0.0, kept={}, holds=True, accounts={"two": Account()})
    assert (a.endpoint, went(waits), one.in_flight) == ("", "two", 1)
    b.gate.set_endpoints(
        {"two": 1, "one": 1}, 0.0, kept={"two": "two"}, holds=True, accounts={"two": waits.account, "one": one}
    )
    assert (went(a, waits), went(*b.enter("c"))) == ("one two", "-")
    b.leave(a)
    assert (one.in_flight, b.line) == (1, "")


def test_one_that_goes_gives_up_its_part_of_a_server():
    one = Account()
    gates = [Gate(name, Limits(1), {name: 0}, accounts={name: one}) for name in ("a", "b")]
    one.in_flight = 1
    assert dict(gates[0].accounts()) == {"a": one}
    gates[0].dissolve()
    assert one.owners == 1
    assert not one.has_room("b")


def test_while_others_are_changed_with_it_nobody_is_admitted(bench):
    b = bench(1)
    _, waits = b.enter("a", "b")
    b.gate.begin_change()
    b.gate.set_limits(Limits(2), 0.0)
    assert went(waits) == "-"
    b.gate.end_change(0.0)
    assert went(waits) == "reasoning"


def test_one_that_leaves_has_kept_free_what_it_could_take(bench):
    one, two = Account(), Account()
    b, accounts = bench(3, endpoints={"one": 1, "two": 2}), {"one": one, "two": two}
    b.gate.set_endpoints({"one": 1, "two": 2}, 0.0, kept={}, holds=True, accounts=accounts)
    for account in (one, two):
        account.share("other", 1, leaving=False)
        account.in_flight = 2  # more than may be
    b.gate.set_paused(True, 0.0)
    b.enter("a", "b", "c", "d")
    b.gate.close(0.0, dismiss=False, leaving=True)
    assert (one._claims, two._claims) == ({}, {}), "paused, it could take nobody"
    b.gate.set_paused(False, 0.0)
    assert [list(account._claims.values()) for account in (one, two)] == [[1], [2]]
    b.set_down("two")
    assert [list(account._claims.values()) for account in (one, two)] == [[1], []]
    two.in_flight = 0
    b.set_down("two", up=True)
    assert went(*b.gate.in_flight()) == "two"
    b.gate.come_back(0.0)
    assert (one._claims, two._claims, one.owners) == ({}, {}, 2)
    one.in_flight = 1
    assert one.has_room("other"), "it has its own part again"
