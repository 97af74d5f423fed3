"""The timers against a plain list: who is due, who is next, and that the dead do not pile up."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.core import timers as timers_module
from llmgate.core.timers import Timer, Timers


class Waiter:
    """One whose time may come."""

    def __init__(self, name: int) -> None:
        self.name = name
        self.timer: Timer | None = None


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["set", "set", "set", "drop", "time", "take one"]),
        st.integers(0, 9),
        st.none() | st.integers(0, 9),
    ),
    max_size=200,
)


@pytest.fixture(params=[1, 64], ids=["few dead", "as many dead as ever"], scope="module")
def dead_kept(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timers_module, "_DEAD_KEPT", request.param)
        yield request.param


@given(operations=OPERATIONS)
def test_it_is_a_list_sorted_by_time(dead_kept, operations):
    timers: Timers[Waiter] = Timers()
    expected: list[tuple[float, int, Waiter]] = []
    now = 0.0
    for number, (operation, which, after) in enumerate(operations):
        if operation == "set":
            waiter = Waiter(number)
            timers.set(waiter, None if after is None else now + after)
            if after is not None:
                expected.append((now + after, number, waiter))
        elif operation == "drop" and expected:
            waiter = expected.pop(which % len(expected))[2]
            timers.drop(waiter)
            assert waiter.timer is None
        elif operation == "time":
            now += which
        due = [entry for entry in sorted(expected, key=lambda entry: entry[:2]) if entry[0] <= now]
        for entry in due[: 1 if operation == "take one" else None]:
            assert timers.take_due(now) is entry[2]
            assert entry[2].timer is None
            expected.remove(entry)
        if operation != "take one":
            assert timers.take_due(now) is None
        soonest = min((entry[0] for entry in expected), default=None)
        assert timers.soonest <= (math.inf if soonest is None else soonest), "nobody is missed"
        assert timers.next() == soonest
        assert len(timers) <= 2 * len(expected) + dead_kept


def test_those_of_one_time_come_in_the_order_in_which_they_were_set():
    timers: Timers[Waiter] = Timers()
    waiters = [Waiter(number) for number in range(20)]
    for waiter in waiters:
        timers.set(waiter, 5.0)
    assert [timers.take_due(5.0) for _ in waiters] == waiters


def test_nothing_is_due_where_nothing_is_set():
    timers: Timers[Waiter] = Timers()
    timers.set(Waiter(1), None)
    assert (timers.next(), timers.take_due(1e9), timers.soonest, len(timers)) == (None, None, math.inf, 0)


def test_it_is_due_at_its_time_and_not_before():
    timers: Timers[Waiter] = Timers()
    waiter = Waiter(1)
    timers.set(waiter, 5.0)
    assert timers.soonest == 5.0
    assert timers.take_due(4.999) is None
    assert timers.take_due(5.0) is waiter
    assert timers.take_due(5.0) is None
    assert timers.soonest == math.inf


def test_one_who_has_none_can_be_dropped():
    timers: Timers[Waiter] = Timers()
    timers.drop(Waiter(1))
    assert len(timers) == 0


def test_one_who_was_dropped_can_be_set_again():
    timers: Timers[Waiter] = Timers()
    waiter = Waiter(1)
    timers.set(waiter, 5.0)
    timers.drop(waiter)
    timers.set(waiter, 7.0)
    assert timers.next() == 7.0
    assert timers.take_due(6.0) is None
    assert timers.take_due(7.0) is waiter
