"""Events are immutable facts, and a fold of them gives the statistics: any schedule is in test_gate_machine.py."""

import msgspec
import pytest

from llmgate.core.caller import Caller
from llmgate.core.events import (
    Abandoned,
    Admitted,
    AlarmCleared,
    AlarmRaised,
    Dismissed,
    Drained,
    EndpointChanged,
    Event,
    Expired,
    Limits,
    LimitsChanged,
    Mode,
    ModeChanged,
    Moved,
    Queued,
    Refused,
    Released,
    Requeued,
    Tally,
)

WHO = Caller(id="r1")
QUEUED = Queued(1, 0.0, "u", 7, WHO, depth=1, order=7, deadline=None)
ADMITTED = Admitted(2, 1.0, "u", 7, WHO, queued=True, waited=1.0)
STRAIGHT = Admitted(1, 0.0, "u", 7, WHO, queued=False, waited=0.0)
DRAINED = Drained(3, 2.0, "u", 7, WHO, outcome="client_gone", ran=1.0)


def fold(*events: Event) -> Tally:
    tally = Tally(Limits())
    for event in events:
        tally.apply(event)
    return tally


@pytest.mark.parametrize(
    ("events", "counts", "outcomes"),
    [
        ((), (0, 0, 0), {}),
        ((QUEUED,), (1, 0, 0), {}),
        ((STRAIGHT,), (0, 1, 0), {}),
        ((QUEUED, ADMITTED), (0, 1, 0), {}),
        ((STRAIGHT, Released(2, 1.0, "u", 7, WHO, outcome="completed", ran=1.0)), (0, 0, 0), {"completed": 1}),
        ((STRAIGHT, DRAINED), (0, 0, 1), {"client_gone": 1}),
        ((STRAIGHT, DRAINED, Released(4, 3.0, "u", 7, WHO, outcome=None, ran=3.0)), (0, 0, 0), {"client_gone": 1}),
        ((QUEUED, Abandoned(2, 1.0, "u", 7, WHO, waited=1.0)), (0, 0, 0), {"abandoned": 1}),
        ((QUEUED, Expired(2, 1.0, "u", 7, WHO, waited=1.0)), (0, 0, 0), {"queue_timeout": 1}),
        ((QUEUED, Dismissed(2, 1.0, "u", 7, WHO, outcome="cancelled", waited=1.0)), (0, 0, 0), {"cancelled": 1}),
        ((Refused(1, 0.0, "u", WHO, outcome="queue_full", depth=3, limit=3),), (0, 0, 0), {"queue_full": 1}),
        ((QUEUED, Moved(2, 1.0, "u", 7, WHO, order=-1)), (1, 0, 0), {}),
        ((STRAIGHT, Requeued(2, 1.0, "u", 7, WHO, order=7)), (1, 0, 0), {}),
    ],
)
def test_each_event_moves_its_request(events, counts, outcomes):
    statistics = fold(*events).statistics()
    assert (statistics.waiting, statistics.running, statistics.draining) == counts
    assert statistics.outcomes == outcomes


def test_who_had_to_wait_and_who_was_admitted_are_counted():
    statistics = fold(QUEUED, ADMITTED, STRAIGHT).statistics()
    assert (statistics.queued, statistics.admitted) == (1, 2)


def test_a_requeued_one_is_not_admitted_twice():
    requeued = Requeued(3, 2.0, "u", 7, WHO, order=7)
    assert fold(QUEUED, ADMITTED, requeued, ADMITTED).statistics().admitted == 1


def test_limits_and_mode_are_the_latest():
    limits = Limits(max_concurrent=4)
    tally = fold(LimitsChanged(1, 0.0, "u", Limits(), limits), ModeChanged(2, 0.0, "u", Mode.OPEN, Mode.PAUSED))
    assert (tally.statistics().limits, tally.statistics().mode) == (limits, Mode.PAUSED)


def test_alarms_last_until_they_are_cleared():
    stalled, drains = AlarmRaised(1, 0.0, "u", "stalled", "s"), AlarmRaised(2, 0.0, "u", "draining", "one")
    tally = fold(stalled, drains)
    before = tally.statistics()
    tally.apply(AlarmRaised(3, 0.0, "u", "draining", "two"))
    tally.apply(AlarmCleared(4, 0.0, "u", "stalled"))
    assert before.alarms == {"stalled": "s", "draining": "one"}
    assert tally.statistics().alarms == tally.alarms == {"draining": "two"}


def test_what_is_about_an_endpoint_is_in_no_count():
    changed = EndpointChanged(1, 0.0, "u", "one", False, 2, True, 2, "gone")
    assert fold(changed).statistics() == fold().statistics()


def test_statistics_are_a_moment_that_stays():
    tally = fold(QUEUED)
    before = tally.statistics()
    tally.apply(Abandoned(2, 1.0, "u", 7, WHO, waited=1.0))
    assert (before.waiting, before.outcomes) == (1, {})


@pytest.mark.parametrize("event", [QUEUED, ADMITTED, DRAINED])
def test_an_event_cannot_be_changed(event):
    with pytest.raises(AttributeError):
        event.number = 9
    assert msgspec.structs.replace(event, number=9).number == 9
