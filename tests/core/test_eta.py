"""The estimate of the wait: exact where runs are all alike, and without much bias where they are not."""

import heapq
import random
from collections.abc import Callable
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.core.caller import Caller
from llmgate.core.endpoints import EndpointStatistics
from llmgate.core.eta import ENOUGH, KEPT, SHOWN, Estimator, Schedule, slots_of
from llmgate.core.events import Admitted, Event, Limits, Queued, Released, Requeued
from llmgate.core.gate import Gate, State, Ticket

CALLER = Caller(id="r", model="m", api="messages", path="/v1/messages", stream=True)


def run(estimator: Estimator, ticket: int, since: float, until: float) -> None:
    estimator.apply(admitted(ticket, since))
    estimator.apply(released(ticket, until))


def admitted(ticket: int, at: float) -> Event:
    return Admitted(1, at, "u", ticket, CALLER, False, 0.0, "u")


def released(ticket: int, at: float) -> Event:
    return Released(1, at, "u", ticket, CALLER, "completed", 0.0)


@pytest.fixture
def estimator() -> Estimator:
    """Ten runs of 10 s each are over, at second 0."""
    estimator = Estimator()
    for ticket in range(10):
        run(estimator, ticket, -10.0, 0.0)
    return estimator


def starts(estimator: Estimator, slots: int, now: float) -> tuple[float, ...]:
    schedule = estimator.schedule(slots, now)
    assert schedule is not None
    return schedule.starts


def test_nothing_is_said_while_too_little_is_known() -> None:
    estimator = Estimator()
    for ticket in range(ENOUGH):
        assert estimator.schedule(1, 0.0) is None
        run(estimator, ticket, 0.0, 1.0)
    assert estimator.schedule(1, 2.0) is not None


def test_where_there_is_no_bound_nobody_waits(estimator: Estimator) -> None:
    assert estimator.schedule(0, 0.0) is None


@pytest.mark.parametrize(
    ("max_concurrent", "endpoints", "slots"),
    [
        (3, [(0, True)], 3),
        (0, [(0, True)], 0),
        (0, [(2, True), (4, True)], 6),
        (5, [(2, True), (4, True)], 5),
        (5, [(2, True), (4, False)], 2),
        (0, [(2, True), (0, True)], 0),
        (0, [(2, False)], 0),
    ],
)
def test_the_slots_are_those_of_the_servers_that_are_up(
    max_concurrent: int, endpoints: list[tuple[int, bool]], slots: int
) -> None:
    servers = [EndpointStatistics(cap, up) for cap, up in endpoints]
    assert slots_of(Limits(max_concurrent), servers) == slots


def test_one_slot_falls_free_when_its_run_is_over_and_then_after_each_mean(estimator: Estimator) -> None:
    estimator.apply(admitted(100, 0.0))
    assert starts(estimator, 1, 4.0)[:3] == pytest.approx((10.0, 20.0, 30.0))


def test_slots_fall_free_in_turn(estimator: Estimator) -> None:
    estimator.apply(admitted(100, 0.0))
    estimator.apply(admitted(101, 3.0))
    assert starts(estimator, 2, 4.0)[:4] == pytest.approx((10.0, 13.0, 20.0, 23.0))


def test_one_that_lasts_longer_than_any_before_may_have_half_of_the_longest_left(estimator: Estimator) -> None:
    estimator.apply(admitted(100, 0.0))
    assert starts(estimator, 1, 40.0)[0] == pytest.approx(45.0)


def test_a_free_slot_is_free_now(estimator: Estimator) -> None:
    estimator.apply(admitted(100, 0.0))
    assert starts(estimator, 2, 4.0)[:3] == pytest.approx((4.0, 10.0, 14.0))


def test_above_a_lowered_cap_the_first_to_end_start_nobody(estimator: Estimator) -> None:
    for ticket in range(3):
        estimator.apply(admitted(100 + ticket, float(ticket)))
    assert starts(estimator, 1, 4.0)[0] == pytest.approx(12.0)


def test_one_that_went_back_to_the_line_held_nothing(estimator: Estimator) -> None:
    estimator.apply(admitted(100, 0.0))
    estimator.apply(Requeued(1, 1.0, "u", 100, CALLER, 1))
    assert starts(estimator, 1, 4.0)[0] == pytest.approx(4.0)


def test_a_schedule_is_kept_for_a_moment_and_less_long_when_something_happens(estimator: Estimator) -> None:
    estimator.apply(admitted(100, 0.0))
    before = estimator.schedule(1, 1.0)
    estimator.apply(Queued(1, 1.1, "u", 101, CALLER, 1, 1, None))
    assert estimator.schedule(1, 1.2) is before
    assert estimator.schedule(2, 1.2) is not before
    before = estimator.schedule(1, 1.2)
    assert estimator.schedule(1, 2.0) is not before
    before = estimator.schedule(1, 2.0)
    estimator.apply(released(100, 2.0))
    assert estimator.schedule(1, 2.2) is before
    assert estimator.schedule(1, 2.3) is not before


def test_who_got_a_slot_since_is_not_ahead_any_more(estimator: Estimator) -> None:
    estimator.apply(admitted(100, 0.0))
    assert starts(estimator, 1, 9.9)[:3] == pytest.approx((10.0, 20.0, 30.0))
    run(estimator, 100, 0.0, 10.0)
    estimator.apply(admitted(101, 10.0))
    for moment in (10.0, 10.1):
        assert starts(estimator, 1, moment)[:2] == pytest.approx((30.0, 40.0)), "two got one since"
    estimator.apply(Requeued(1, 10.1, "u", 101, CALLER, 1))
    assert starts(estimator, 1, 10.1)[0] == pytest.approx(10.1)


def test_a_schedule_that_is_used_up_is_made_anew(estimator: Estimator) -> None:
    estimator.schedule(1, 0.0)
    for ticket in range(100, 100 + SHOWN):
        run(estimator, ticket, 0.0, 0.0)
    assert len(starts(estimator, 1, 0.1)) == SHOWN


def test_old_holds_are_forgotten(estimator: Estimator) -> None:
    for ticket in range(KEPT):
        run(estimator, ticket, 0.0, 1.0)
    estimator.apply(admitted(1000, 5.0))
    assert starts(estimator, 1, 5.0)[0] == pytest.approx(6.0)


def test_behind_the_shown_positions_the_line_moves_at_its_mean_pace() -> None:
    schedule = Schedule((1.0, 2.0), 0.5)
    assert [schedule.start(position) for position in (1, 2, 3, 5)] == [1.0, 2.0, 2.5, 3.5]
    assert schedule.eta_ms(5, 1.5) == 2000
    assert schedule.eta_ms(1, 9.0) == 0


@given(
    held=st.lists(st.floats(0, 1000), min_size=ENOUGH, max_size=30),
    ages=st.lists(st.floats(0, 2000), max_size=12),
    slots=st.integers(1, 12),
)
def test_starts_never_go_back_along_the_line_and_none_lies_in_the_past(
    held: list[float], ages: list[float], slots: int
) -> None:
    estimator = Estimator()
    for ticket, seconds in enumerate(held):
        run(estimator, ticket, 0.0, seconds)
    for ticket, age in enumerate(ages):
        estimator.apply(admitted(1000 + ticket, 5000 - age))
    schedule = estimator.schedule(slots, 5000.0)
    assert schedule is not None
    told = [schedule.start(position) for position in range(1, SHOWN + 30)]
    assert len(schedule.starts) == SHOWN
    assert told == sorted(told)
    assert told[0] >= 5000.0 - 1e-6


LENGTHS: dict[str, Callable[[random.Random], float]] = {
    "all alike": lambda _: 10.0,
    "chat": lambda chance: chance.lognormvariate(2.0, 0.6),
    "agents and titles": lambda chance: chance.choice((1.0, 2.0, 12.0, 20.0)) * chance.uniform(0.8, 1.2),
}


@pytest.mark.parametrize("slots", [1, 2, 8])
@pytest.mark.parametrize("kind", LENGTHS)
def test_its_median_error_under_load_is_below_a_third_and_it_is_not_biased(kind: str, slots: int) -> None:
    """Simulated traffic of 3,000 requests at 95 % load, through a real gate; told at arrival."""
    told = _simulate(LENGTHS[kind], slots, random.Random(7))
    errors = [abs(estimate - waited) / waited for estimate, waited in told]
    assert len(told) > 1000
    assert median(errors) < 0.3
    assert 0.85 < sum(estimate for estimate, _ in told) / sum(waited for _, waited in told) < 1.15


def _simulate(length: Callable[[random.Random], float], slots: int, chance: random.Random) -> list[tuple[float, float]]:
    """Of everybody who waited, once 50 requests had been seen: what was estimated at arrival, and what became of it."""
    gate, estimator = Gate("u", Limits(max_concurrent=slots)), Estimator()
    mean = sum(length(chance) for _ in range(2000)) / 2000
    ends: list[tuple[float, int, Ticket]] = []
    estimates: dict[int, float] = {}
    told: list[tuple[float, float]] = []
    arrival, over = 0.0, 0

    def settle() -> None:
        for event in gate.take_events():
            estimator.apply(event)
            if isinstance(event, Admitted):
                heapq.heappush(ends, (event.at + length(chance), event.ticket, tickets[event.ticket]))
                if event.ticket in estimates and event.waited > 0:
                    told.append((estimates[event.ticket], event.waited))

    tickets: dict[int, Ticket] = {}
    for number in range(1, 3001):
        arrival += chance.expovariate(0.95 * slots / mean)
        while ends and ends[0][0] <= arrival:
            at, _, ticket = heapq.heappop(ends)
            gate.leave(ticket, at, "completed")
            over += 1
            settle()
        ticket = tickets[number] = gate.enter(arrival, CALLER)
        settle()
        position = gate.position(ticket, arrival)
        schedule = estimator.schedule(slots, arrival)
        if ticket.state is State.WAITING and position is not None and schedule is not None and over >= 50:
            estimates[number] = schedule.eta_ms(position.position, arrival) / 1000
    return told
