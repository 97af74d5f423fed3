"""Events are numbered without gaps and counted as they are made. Under any schedule: test_gate_machine.py."""

from llmgate.core.caller import Caller
from llmgate.core.chronicle import Chronicle
from llmgate.core.endpoints import EndpointStatistics
from llmgate.core.events import (
    Abandoned,
    AlarmCleared,
    Dismissed,
    EndpointChanged,
    Expired,
    Limits,
    Released,
    UpstreamRenamed,
)
from llmgate.core.ticket import Ticket

WHO = Caller(id="r")


def test_they_are_numbered_and_fetched_once():
    story, ticket = Chronicle("a", Limits()), Ticket(7, WHO, 1.0)
    story.queued(ticket, 1.0, 1)
    story.admitted(ticket, 3.0, queued=True)
    first = story.take()
    story.released(ticket, 4.0, "completed", "")
    assert [event.number for event in [*first, *story.take()]] == [1, 2, 3]
    assert story.take() == []
    assert first[1].waited == 2.0
    assert story.tally.statistics().outcomes == {"completed": 1}


def test_whoever_was_never_admitted_did_not_run():
    story = Chronicle("a", Limits())
    story.released(Ticket(7, WHO, 1.0), 4.0, "completed", "me")
    assert story.take() == [Released(1, 4.0, "a", 7, WHO, "completed", 0.0, "me")]


def test_the_outcome_says_how_a_wait_ended():
    story = Chronicle("a", Limits())
    for outcome in ("abandoned", "queue_timeout", "cancelled"):
        story.left_line(Ticket(7, WHO, 1.0), 4.0, outcome, "me")
    assert story.take() == [
        Abandoned(1, 4.0, "a", 7, WHO, 3.0),
        Expired(2, 4.0, "a", 7, WHO, 3.0),
        Dismissed(3, 4.0, "a", 7, WHO, "cancelled", 3.0, "me"),
    ]


def test_a_new_name_is_told_under_the_new_name():
    story = Chronicle("a", Limits())
    story.renamed(1.0, "b")
    story.alarm_raised(2.0, "drift", "why")
    story.alarm_cleared(3.0, "drift")
    assert (story.upstream, story.take()[::2]) == (
        "b",
        [UpstreamRenamed(1, 1.0, "b", "a"), AlarmCleared(3, 3.0, "b", "drift")],
    )


def test_an_endpoint_is_told_as_it_is_and_was():
    story = Chronicle("a", Limits())
    story.endpoint_changed(1.0, "a#2", EndpointStatistics(1), EndpointStatistics(2, up=False, reason="gone"))
    assert story.take() == [EndpointChanged(1, 1.0, "a", "a#2", False, 2, True, 1, "gone")]
