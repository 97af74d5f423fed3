"""Why a gate takes nobody new: an operator's drain, a reload and the end of llmgate are told apart."""

import pytest

from llmgate.core.caller import Caller
from llmgate.core.closing import CUT, UNBEGUN, Closing, closing_of, dismissal, refusal
from llmgate.core.events import Dismissed, Limits, Refused
from llmgate.core.gate import Gate
from llmgate.errors import Refused as RefusedError


def test_what_it_is_asked_for() -> None:
    assert closing_of(dismiss=False, leaving=False) is Closing.DRAIN
    assert closing_of(dismiss=True, leaving=False) is Closing.STOP
    assert {closing_of(dismiss=dismiss, leaving=True) for dismiss in (True, False)} == {Closing.LEAVE}


def test_each_is_told_in_other_words() -> None:
    to_newcomers = [str(refusal(closing, "u")) for closing in Closing]
    to_waiters = [str(dismissal(closing, "u", 0)) for closing in (None, Closing.LEAVE, Closing.STOP)]
    reasons = [closing.reason for closing in Closing]
    assert [len(set(texts)) for texts in (to_newcomers, to_waiters, reasons)] == [3, 3, 3]
    for text in (*to_newcomers, *to_waiters, CUT):
        assert text.startswith("llmgate: ")
        assert text.endswith(" (REFUSED)")


def test_only_one_that_comes_back_says_so() -> None:
    assert dismissal(Closing.STOP, "u", 3).depth == 3
    assert str(dismissal(Closing.STOP, "u", 3)) == UNBEGUN
    assert "send it again" not in str(dismissal(Closing.LEAVE, "u", 0))


def test_of_one_that_leaves_nothing_is_said_that_may_not_be_so() -> None:
    """It may have been paused, with all of its servers well."""
    gate = Gate("u", Limits(1))
    gate.set_paused(True, 0.0)
    gate.enter(0.0, Caller(id="waits"))
    assert gate.stands
    gate.close(0.0, dismiss=gate.stands, leaving=True)
    assert str(dismissal(gate.closing, "u", 0)) == (
        "llmgate: upstream u takes no more requests: a reload took it out of the settings, and nobody could be served "
        "there (REFUSED)"
    )


@pytest.mark.parametrize(
    ("asked", "closing"),
    [
        ([{"dismiss": False}], Closing.DRAIN),
        ([{"dismiss": False}, {"dismiss": False, "leaving": True}], Closing.LEAVE),
        ([{"dismiss": True, "leaving": True}], Closing.LEAVE),
        ([{"dismiss": False, "leaving": True}, {"dismiss": True}], Closing.STOP),
        ([{"dismiss": True}, {"dismiss": False}], Closing.STOP),
    ],
)
def test_a_gate_tells_why_to_whom_it_refuses_and_sends_away(asked: list[dict[str, bool]], closing: Closing) -> None:
    gate = Gate("u", Limits(1))
    for name in ("runs", "waits"):
        gate.enter(0.0, Caller(id=name))
    for how in asked:
        gate.close(0.0, **how)
    with pytest.raises(RefusedError) as told:
        gate.enter(0.0, Caller(id="late"))
    assert str(told.value) == str(refusal(closing, "u"))
    events = gate.take_events()
    assert [event.reason for event in events if isinstance(event, Refused)] == [closing.reason]
    dismissed = [event.reason for event in events if isinstance(event, Dismissed)]
    assert dismissed == ([closing.reason] if any(how["dismiss"] for how in asked) else [])
    gate.reopen(0.0)
    is_leaving = any(how.get("leaving") for how in asked)
    assert gate.closing is (closing if is_leaving else None), "no operator brings back one that is leaving"
    gate.come_back(0.0)
    assert gate.closing is None
