"""Drift is what lasts: seen one by one in every look, and never in traffic that is in order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.core.drift import LASTING_SECONDS, Drift, Look


def looks(*, step: float = 2.5, count: int = 8, **what: object) -> list[str | None]:
    """The same is seen again and again."""
    drift, told = Drift(), []
    for index in range(count):
        look = {"running": frozenset(), "draining": frozenset(), "connections": 0, "tasks": None, **what}
        told.append(drift.judge(Look(at=index * step, **look)))
    return told


def test_a_slot_without_a_connection_is_told_when_it_lasts() -> None:
    told = looks(running=frozenset({1, 2, 3}), connections=2)
    assert told[:4] == [None] * 4
    assert set(told[4:]) == {"drift: 1 slot taken by requests that have no connection to the server"}


def test_a_connection_that_no_request_has_is_told_when_it_lasts() -> None:
    told = looks(running=frozenset({1}), draining=frozenset({2}), connections=5, asides=1)
    assert told[:4] == [None] * 4
    assert set(told[4:]) == {"drift: 2 connections to the server in use that no request has"}
    assert looks(connections=1)[-1] == "drift: 1 connection to the server in use that no request has"
    assert set(looks(running=frozenset({1}), draining=frozenset({2}), connections=3, asides=1)) == {None}


def test_one_look_without_it_is_enough() -> None:
    drift = Drift()
    for index in range(9):
        extra = index != 6
        assert (drift.judge(Look(index * 2.5, frozenset(), frozenset(), extra)) is None) == (index not in (4, 5))


def test_slots_at_work_for_others_whatever_they_work_on() -> None:
    told = looks(running=frozenset({1}), connections=1, busy=3)
    assert told[-1] == "drift: the server works on 2 requests that llmgate did not send: who else uses it?"
    assert set(looks(running=frozenset({1}), draining=frozenset({2}), connections=1, others=1, busy=3)) == {None}
    drift = Drift()
    for index in range(9):
        look = Look(index * 2.5, frozenset(), frozenset(), 0, frozenset({("a", index)}), busy=index != 6)
        assert (drift.judge(look) is None) == (index not in (4, 5))


def test_what_was_not_sent_yet_hides_nobody() -> None:
    stranger = "drift: the server works on 1 request that llmgate did not send: who else uses it?"
    waits = {"running": frozenset({1, 2}), "connections": 2}
    for seen in ({"busy": 2}, {"tasks": frozenset({("a", 1), ("a", 2)})}):
        assert set(looks(**waits, **seen)) == {None}
        assert looks(**waits, **seen, held_back=1)[-1] == stranger
    assert set(looks(busy=0, held_back=1)) == {None}, "it has just left"


def test_a_task_of_the_server_that_is_nobodys() -> None:
    tasks = frozenset({("a", 7), ("a", 8), ("a", 9)})
    told = looks(running=frozenset({1}), connections=1, tasks=tasks)
    assert told[-1] == "drift: the server works on 2 requests that llmgate did not send: who else uses it?"
    assert set(looks(running=frozenset({1, 2}), draining=frozenset({3}), connections=2, tasks=tasks)) == {None}


def test_a_server_that_does_not_tell_proves_nothing() -> None:
    drift = Drift()
    for index in range(9):
        tasks = None if index == 6 else frozenset({("a", 1)})
        told = drift.judge(Look(index * 2.5, frozenset(), frozenset(), 0, tasks))
        assert (told is None) == (index in range(4) or index in range(6, 10)), index


def test_a_slot_that_is_kept_though_the_server_is_idle() -> None:
    told = looks(draining=frozenset({1}), tasks=frozenset())
    assert told[-1] == "drift: 1 slot kept for requests that are over, though the server is idle"
    assert set(looks(draining=frozenset({1}), tasks=None)) == {None}
    assert set(looks(draining=frozenset({1}), tasks=frozenset({("a", 1)}))) == {None}


def test_it_is_gone_with_its_reason() -> None:
    drift = Drift()
    for index in range(6):
        told = drift.judge(Look(index * 2.5, frozenset({1}), frozenset(), 0))
    assert told is not None
    assert drift.judge(Look(15.0, frozenset(), frozenset(), 0)) is None


@pytest.mark.parametrize("step", [0.1, 1.0, 11.0])
def test_neither_few_looks_nor_a_short_time_are_enough(step: float) -> None:
    told = looks(step=step, count=200, running=frozenset({1}))
    first = next(index for index, text in enumerate(told) if text is not None)
    assert first >= 2
    assert first * step >= LASTING_SECONDS


TRAFFIC = st.lists(
    st.tuples(st.floats(0, 60), st.floats(0.01, 60), st.floats(0, 5), st.booleans()), min_size=1, max_size=12
)
"""When each begins, how long it runs, how long its server goes on after that; whether it is one that ends early."""


@given(TRAFFIC, st.floats(0.5, 4))
def test_traffic_in_order_never_raises_it(traffic: list[tuple[float, float, float, bool]], step: float) -> None:
    drift = Drift()
    for index in range(40):
        now = index * step
        running = {number for number, (at, ran, _, _) in enumerate(traffic) if at <= now < at + ran}
        ends = {number: (at + ran, more) for number, (at, ran, more, early) in enumerate(traffic) if early}
        over = {number for number, (end, more) in ends.items() if end <= now < end + more}
        tasks = frozenset(("a", number) for number in running | over)
        told = drift.judge(Look(now, frozenset(running), frozenset(over), len(running), tasks))
        assert told is None


@given(TRAFFIC, st.floats(0.5, 4), st.integers(0, 11))
def test_a_leak_under_any_traffic_is_found(
    traffic: list[tuple[float, float, float, bool]], step: float, which: int
) -> None:
    """A ticket that never leaves, once the rest of the traffic is over."""
    drift, leaked = Drift(), which % len(traffic)
    told = None
    for index in range(200):
        now = index * step
        running = {number for number, (at, ran, _, _) in enumerate(traffic) if at <= now < at + ran}
        held = running | ({leaked} if traffic[leaked][0] <= now else set())
        told = drift.judge(Look(now, frozenset(held), frozenset(), len(running)))
    others = [at + ran for number, (at, ran, _, _) in enumerate(traffic) if number != leaked]
    alone_since = max([sum(traffic[leaked][:2]), *others])
    assert told is not None or alone_since > 200 * step - LASTING_SECONDS - step * 3
