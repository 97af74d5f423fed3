"""Log lines word for word; what is not worth a line has none."""

import logging
from typing import Any

import pytest

from llmgate.core.caller import Caller
from llmgate.core.events import (
    Abandoned,
    Admitted,
    AlarmCleared,
    AlarmRaised,
    CallerRefused,
    Dismissed,
    Drained,
    EndpointChanged,
    EndpointsReplaced,
    Event,
    Expired,
    Limits,
    LimitsChanged,
    Mode,
    ModeChanged,
    Moved,
    Queued,
    RanEmpty,
    Refused,
    Released,
    Requeued,
    SettingsReloaded,
    UpstreamRenamed,
)
from llmgate.core.gate import Gate
from llmgate.errors import QueueFull
from llmgate.telemetry.journal import Journal, describe, word_of

SESSION = "a61e6e40-9a1c-4f0e-8d1b-2f1f1a5f7a10"
WHO = Caller(id="r1", session=SESSION)
ABOUT: tuple[Any, ...] = (1, 5.0, "llamacpp", 1)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Any:
    """The lines that the journal writes for events, the "llmgate: " in front included."""
    logger = logging.getLogger("llmgate.test_journal")
    journal = Journal(logger)

    def write(*events: Event, level: int = logging.INFO) -> list[str]:
        caplog.clear()
        with caplog.at_level(level, logger.name):
            for event in events:
                journal.apply(event)
        return [f"{record.name.partition('.')[0]}: {record.getMessage()}" for record in caplog.records]

    return write


def test_one_who_waits_has_two_lines(lines: Any) -> None:
    gate = Gate("llamacpp", Limits(1))
    first = gate.enter(0.0, Caller(id="a", session="other"))
    second = gate.enter(1.0, WHO)
    gate.leave(first, 6.73, "completed")
    gate.leave(second, 9.0, "completed")
    assert lines(*gate.take_events()) == [
        "llmgate: llamacpp session=a61e6e40 queued (depth 1)",
        "llmgate: llamacpp session=a61e6e40 dispatched after 5730ms",
    ]


def test_one_who_gets_its_slot_at_once_has_none(lines: Any) -> None:
    gate = Gate("llamacpp", Limits(1))
    for outcome in ("completed", "client_gone", "client_stalled"):
        gate.leave(gate.enter(0.0, WHO), 1.0, outcome)
    gate.drain(gate.enter(2.0, WHO), 3.0, "client_gone", release_at=4.0)
    gate.handle_timer(5.0)
    assert lines(*gate.take_events()) == []


def test_failures_are_told_once_until_one_is_served(lines: Any) -> None:
    gate = Gate("a", Limits(1))

    def end(*outcomes: Any) -> list[str]:
        for outcome in outcomes:
            gate.leave(gate.enter(0.0, Caller(id="x")), 1.0, outcome)
        return lines(*gate.take_events(), level=logging.WARNING)

    assert end("upstream_down", "upstream_down", "upstream_error", "client_gone", "upstream_down") == [
        "llmgate: a upstream_down after 1000ms",
        "llmgate: a upstream_error after 1000ms",
    ]
    assert end("completed", "upstream_down") == ["llmgate: a upstream_down after 1000ms"]


def test_a_full_queue_is_told_once_until_somebody_waits_again(lines: Any) -> None:
    gate = Gate("a", Limits(1, max_queued=1))
    running, waiting = gate.enter(0.0, Caller(id="1")), gate.enter(0.0, Caller(id="2"))

    def crowd() -> list[str]:
        for _ in range(3):
            with pytest.raises(QueueFull):
                gate.enter(0.0, Caller(id="x"))
        return lines(*gate.take_events())

    assert crowd() == ["llmgate: a queued (depth 1)", "llmgate: a queue_full (depth 1)"]
    assert crowd() == []
    gate.leave(running, 1.0, "completed")
    gate.enter(1.0, Caller(id="3"))
    assert crowd()[-1] == "llmgate: a queue_full (depth 1)"
    gate.leave(waiting, 2.0, "completed")


@pytest.mark.parametrize(
    ("caller", "who"),
    [
        (Caller(id="r"), ""),
        (Caller(id="r", session="short"), " session=short"),
        (Caller(id="r", session=SESSION, purpose="compaction"), " session=a61e6e40 purpose=compaction"),
        (Caller(id="r", purpose="session-title"), " purpose=session-title"),
        (Caller(id="r", client="dsh", model="m", peer="1.2.3.4:5"), ""),
    ],
)
def test_session_and_purpose_stand_there_when_known(lines: Any, caller: Caller, who: str) -> None:
    queued = Queued(1, 5.0, "llamacpp", 1, caller, depth=12, order=1, deadline=None)
    assert lines(queued) == [f"llmgate: llamacpp{who} queued (depth 12)"]


OLD = Limits(2, 64, None)
GPU = "http://gpu2:8000"
TEXTS = [
    (Admitted(*ABOUT, WHO, queued=True, waited=0.0004), "dispatched after 0ms"),
    (Admitted(*ABOUT, WHO, queued=False, waited=0.0), ""),
    (Abandoned(*ABOUT, WHO, waited=1.5), "abandoned after 1500ms"),
    (Expired(*ABOUT, WHO, waited=60.0), "queue_timeout after 60000ms"),
    (Dismissed(*ABOUT, WHO, "cancelled", waited=0.25), "cancelled after 250ms"),
    (Refused(1, 5.0, "llamacpp", WHO, "queue_full", 16, 16), "queue_full (depth 16)"),
    (Refused(1, 5.0, "llamacpp", WHO, "refused", 0, None), "refused (draining)"),
    (Moved(*ABOUT, WHO, order=-1), "moved to the front"),
    (Requeued(*ABOUT, WHO, order=1), "requeued, nothing of it was sent"),
    (Drained(*ABOUT, WHO, "client_gone", ran=1.0), ""),
    (Released(*ABOUT, WHO, "completed", ran=1.0), ""),
    (Released(*ABOUT, WHO, None, ran=1.0), ""),
    (ModeChanged(1, 5.0, "llamacpp", Mode.OPEN, Mode.PAUSED), "paused"),
    (ModeChanged(1, 5.0, "llamacpp", Mode.PAUSED, Mode.CLOSED), "draining (was paused)"),
    (ModeChanged(1, 5.0, "llamacpp", Mode.CLOSED, Mode.OPEN), "resumed (was draining)"),
    (ModeChanged(1, 5.0, "llamacpp", Mode.PAUSED, Mode.HELD), "resumed (was paused)"),
    (ModeChanged(1, 5.0, "llamacpp", Mode.HELD, Mode.PAUSED), "paused"),
    (ModeChanged(1, 5.0, "llamacpp", Mode.OPEN, Mode.HELD), ""),
    (ModeChanged(1, 5.0, "llamacpp", Mode.HELD, Mode.OPEN), ""),
    (UpstreamRenamed(1, 5.0, "llamacpp", "old"), "renamed by a reload, from old: who waits and runs there stays"),
    (EndpointsReplaced(1, 5.0, "llamacpp", {}, {}, True), ""),
    (RanEmpty(0, 5.0, "llamacpp"), "drained"),
    (LimitsChanged(1, 5.0, "llamacpp", OLD, Limits(8, 64, None)), "limits max_concurrent=8 (was 2)"),
    (
        LimitsChanged(1, 5.0, "llamacpp", OLD, Limits(2, None, 30.0)),
        "limits max_queued=none (was 64), queue_timeout=30s (was none)",
    ),
    (
        LimitsChanged(1, 5.0, "llamacpp", OLD, Limits(2, 64, None, 60.0)),
        "limits stall_alarm=1m (was none)",
    ),
    (AlarmRaised(1, 5.0, "llamacpp", "stalled", "stalled: requests wait"), "alarm stalled: requests wait"),
    (AlarmCleared(1, 5.0, "llamacpp", "stalled"), "alarm stalled no more"),
    (AlarmCleared(1, 5.0, "llamacpp", "hidden_wait"), "alarm hidden wait no more"),
    (EndpointChanged(1, 5.0, "llamacpp", GPU, False, 2, True, 2, "it broke"), "down http://gpu2:8000: it broke"),
    (EndpointChanged(1, 5.0, "llamacpp", GPU, False, 2, True, 2), "down http://gpu2:8000"),
    (EndpointChanged(1, 5.0, "llamacpp", GPU, True, 2, False, 2), "up http://gpu2:8000"),
    (EndpointChanged(1, 5.0, "llamacpp", "llamacpp", False, 0, True, 0, "it broke"), "down: it broke"),
    (
        EndpointChanged(1, 5.0, "llamacpp", "llamacpp", False, 0, True, 0, "it broke", 1),
        "down: it broke, holding 1 waiter",
    ),
    (EndpointChanged(1, 5.0, "llamacpp", "llamacpp", False, 0, True, 0, "", 2), "down: holding 2 waiters"),
    (EndpointChanged(1, 5.0, "llamacpp", "llamacpp", True, 0, False, 0), "up"),
    (
        EndpointChanged(1, 5.0, "llamacpp", GPU, False, 3, False, 2, "x"),
        "limits http://gpu2:8000 max_concurrent=3 (was 2)",
    ),
    (
        EndpointChanged(1, 5.0, "llamacpp", "llamacpp", True, 3, False, 2),
        "up max_concurrent=3 (was 2)",
    ),
    (Event(1, 5.0, "llamacpp"), ""),
]


@pytest.mark.parametrize(("event", "text"), TEXTS)
def test_events_in_words(lines: Any, event: Event, text: str) -> None:
    assert describe(event) == text
    who = " session=a61e6e40" if hasattr(event, "caller") else ""
    assert lines(event) == ([f"llmgate: llamacpp{who} {text}"] if text else [])


@pytest.mark.parametrize(("event", "text"), [entry for entry in TEXTS if entry[1]])
def test_a_text_begins_with_its_word(event: Event, text: str) -> None:
    assert text.startswith(word_of(event))
    assert text[len(word_of(event)) :][:1] in ("", " ", ":", ",")


@pytest.mark.parametrize(
    ("event", "word"),
    [
        (Admitted(*ABOUT, WHO, queued=False, waited=0.0), "dispatched"),
        (Released(*ABOUT, WHO, "completed", ran=1.0), "completed"),
        (Released(*ABOUT, WHO, None, ran=1.0), "released"),
        (Drained(*ABOUT, WHO, "client_gone", ran=1.0), "client_gone"),
        (ModeChanged(1, 5.0, "a", Mode.OPEN, Mode.HELD), "held"),
        (ModeChanged(1, 5.0, "a", Mode.HELD, Mode.OPEN), "unheld"),
        (EndpointsReplaced(1, 5.0, "a", {}, {}, True), "servers"),
        (SettingsReloaded(0, 5.0, "", "reload: 1 settings changed"), "reload"),
        (CallerRefused(0, 5.0, "", "KEY_LIMIT", "refused a request"), "refused"),
    ],
)
def test_the_word_of_what_has_no_text_or_one_from_elsewhere(event: Event, word: str) -> None:
    assert word_of(event) == word


def test_no_word_comes_from_inside_of_the_gate() -> None:
    """ "open", "closed" and "endpoint" are words of the code."""
    words = {word for _, text in TEXTS for word in text.replace(":", " ").split()}
    assert not words & {"open", "closed", "endpoint", "held"}


def test_a_full_queue_is_told(lines: Any) -> None:
    gate = Gate("llamacpp", Limits(1, max_queued=0))
    gate.enter(0.0, Caller(id="a"))
    with pytest.raises(QueueFull):
        gate.enter(0.0, WHO)
    assert lines(*gate.take_events()) == ["llmgate: llamacpp session=a61e6e40 queue_full (depth 0)"]


def test_nothing_is_written_above_the_level(lines: Any) -> None:
    assert lines(Moved(*ABOUT, WHO, order=-1), level=logging.WARNING) == []


@pytest.mark.parametrize(
    ("event", "warns"),
    [
        (AlarmRaised(1, 5.0, "llamacpp", "stalled", "stalled: requests wait"), True),
        (AlarmCleared(1, 5.0, "llamacpp", "stalled"), True),
        (EndpointChanged(1, 5.0, "llamacpp", GPU, False, 2, True, 2, "it broke"), True),
        (EndpointChanged(1, 5.0, "llamacpp", GPU, True, 2, False, 2), True),
        (EndpointChanged(1, 5.0, "llamacpp", GPU, False, 3, False, 2, "it broke"), False),
        (ModeChanged(1, 5.0, "llamacpp", Mode.OPEN, Mode.HELD), False),
    ],
)
def test_what_is_wrong_and_that_it_is_right_again_are_warnings(lines: Any, event: Event, warns: bool) -> None:
    assert bool(lines(event, level=logging.WARNING)) is warns


def test_a_hold_is_told_by_the_server_that_is_down_alone(lines: Any) -> None:
    gate = Gate("a", Limits(1))
    gate.set_endpoint("a", 1.0, up=False, reason="it takes no connection")
    gate.set_endpoint("a", 2.0, up=True)
    assert lines(*gate.take_events()) == [
        "llmgate: a down: it takes no connection",
        "llmgate: a up",
    ]
    gate.set_paused(True, 3.0)
    assert lines(*gate.take_events()) == ["llmgate: a paused"]


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (Dismissed(*ABOUT, WHO, "cancelled", 1.5, "uid 0 (root)"), "cancelled after 1500ms by uid 0 (root)"),
        (Drained(*ABOUT, WHO, "cancelled", 1.5, "uid 0 (root)"), "cancelled after 1500ms by uid 0 (root)"),
        (Released(*ABOUT, WHO, "cancelled", 1.5), "cancelled after 1500ms"),
        (Moved(*ABOUT, WHO, order=-1, by="uid 7"), "moved to the front by uid 7"),
        (ModeChanged(1, 5.0, "a", Mode.OPEN, Mode.PAUSED, "uid 7"), "paused by uid 7"),
        (LimitsChanged(1, 5.0, "a", Limits(), Limits(2), "uid 7"), "limits max_concurrent=2 (was 1) by uid 7"),
        (Released(*ABOUT, WHO, "completed", 1.5, "uid 7"), ""),
    ],
)
def test_who_had_it_done_is_told(event: Event, text: str) -> None:
    assert describe(event) == text


def test_what_an_operator_did_is_no_warning(lines: Any) -> None:
    for kind in (Drained, Released):
        event = kind(*ABOUT, WHO, "cancelled", 1.5, "uid 7")
        assert lines(event, level=logging.WARNING) == []
        assert lines(event) == ["llmgate: llamacpp session=a61e6e40 cancelled after 1500ms by uid 7"]


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (Released(*ABOUT, WHO, "upstream_error", 1.5, "", "it answered with status 500"),
         "upstream_error after 1500ms: it answered with status 500"),
        (Drained(*ABOUT, WHO, "upstream_timeout", 1.5, "", "it stopped"), "upstream_timeout after 1500ms: it stopped"),
        (Dismissed(*ABOUT, WHO, "refused", 1.5, "", "llmgate is stopping"),
         "refused after 1500ms: llmgate is stopping"),
        (Refused(1, 5.0, "a", WHO, "refused", 0, None, "no longer in the settings"),
         "refused (no longer in the settings)"),
    ],
)  # fmt: skip
def test_why_is_told(event: Event, text: str) -> None:
    assert describe(event) == text


def test_another_reason_is_told_too(lines: Any) -> None:
    def fail(reason: str) -> list[str]:
        return lines(Released(2, *ABOUT[1:], WHO, "upstream_error", 1.0, "", reason))  # type: ignore[no-any-return]

    assert [len(fail(reason)) for reason in ("a", "b", "a", "b")] == [1, 1, 0, 0]
    lines(Released(2, *ABOUT[1:], WHO, "completed", 1.0))
    assert len(fail("a")) == 1


def test_what_was_told_once_is_not_told_again_under_another_name(lines: Any) -> None:
    gate = Gate("a", Limits(1, max_queued=0))

    def fail_and_crowd() -> list[str]:
        gate.leave(gate.enter(0.0, Caller(id="x")), 1.0, "upstream_down")
        running = gate.enter(1.0, Caller(id="y"))
        with pytest.raises(QueueFull):
            gate.enter(1.0, Caller(id="z"))
        gate.leave(running, 2.0, "client_gone")
        return lines(*gate.take_events())

    assert fail_and_crowd() == ["llmgate: a upstream_down after 1000ms", "llmgate: a queue_full (depth 0)"]
    gate.rename("b", 3.0)
    assert fail_and_crowd() == ["llmgate: b renamed by a reload, from a: who waits and runs there stays"]
    gate = Gate("c", Limits(1, max_queued=0))
    gate.rename("b", 4.0)
    assert len(fail_and_crowd()) == 3, "of what was called so before nothing is left"
    gate = Gate("b", Limits(1, max_queued=0))
    assert len(fail_and_crowd()) == 2
