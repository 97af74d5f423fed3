"""The table of outcomes of requests that reached their upstream."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.errors import GateError, Outcome, Refused, UpstreamDown, UpstreamFailed, UpstreamTimeout
from llmgate.protocols.upstream_error import UpstreamTold
from llmgate.server.outcome import outcome_of, reason_of
from llmgate.upstreams.answer import Done

DOWN, LATE, BAD = UpstreamDown("x"), UpstreamTimeout("x"), UpstreamFailed("x")
TOLD = UpstreamTold(500, b'{"error":{"message":"the prompt is secret"}}')


def found(done: Done, **known: Any) -> Outcome:
    facts = {"status": 200, "told_end": None, "stream_failed": False, "cut": None, "error": None} | known
    return outcome_of(done, **facts)


@pytest.mark.parametrize(
    ("done", "known", "outcome"),
    [
        (Done.ENDED, {}, "completed"),
        (Done.ENDED, {"told_end": True}, "completed"),
        (Done.ENDED, {"told_end": False}, "upstream_error"),
        (Done.ENDED, {"told_end": True, "stream_failed": True}, "upstream_error"),
        (Done.ENDED, {"status": 404}, "completed"),
        (Done.ENDED, {"status": 429}, "upstream_error"),
        (Done.ENDED, {"status": 500}, "upstream_error"),
        (Done.ENDED, {"status": 302}, "upstream_error"),
        (Done.ENDED, {"status": 400, "error": BAD}, "upstream_error"),
        (Done.ENDED, {"told_end": False, "cut": "client_gone"}, "client_gone"),
        (Done.LOST, {"error": BAD}, "upstream_error"),
        (Done.LOST, {"error": BAD, "told_end": True}, "completed"),
        (Done.LOST, {"error": BAD, "told_end": True, "stream_failed": True}, "upstream_error"),
        (Done.LOST, {}, "upstream_error"),
        (Done.CUT, {"error": LATE}, "upstream_timeout"),
        (Done.CUT, {"error": BAD}, "upstream_error"),
        (Done.CUT, {"cut": "client_gone"}, "client_gone"),
        (Done.CUT, {"cut": "client_stalled", "error": LATE}, "client_stalled"),
        (Done.CUT, {"cut": "client_gone", "told_end": True}, "completed"),
        (Done.CUT, {}, "upstream_error"),
        (Done.UNSENT, {"error": DOWN, "status": 0}, "upstream_down"),
        (Done.UNSENT, {"error": LATE, "status": 0}, "upstream_timeout"),
        (Done.UNSENT, {"cut": "client_gone", "status": 0}, "client_gone"),
        (Done.UNSENT, {"status": 0}, "upstream_down"),
    ],
)
def test_the_table(done: Done, known: dict[str, Any], outcome: Outcome) -> None:
    assert found(done, **known) == outcome


@pytest.mark.parametrize(
    ("outcome", "done", "known", "reason"),
    [
        ("completed", Done.ENDED, {"status": 200}, ""),
        ("client_gone", Done.CUT, {"fault": BAD}, ""),
        ("upstream_error", Done.ENDED, {"status": 500}, "it answered with status 500"),
        ("upstream_error", Done.ENDED, {}, "its answer ended before it was complete"),
        ("upstream_error", Done.ENDED, {"stream_failed": True}, "it ended its stream with an error"),
        ("upstream_error", Done.LOST, {"fault": UpstreamFailed("llmgate: it broke (UPSTREAM_ERROR)")}, "it broke"),
        ("upstream_error", Done.CUT, {}, "a fault inside llmgate, see its log"),
        ("upstream_error", Done.CUT, {"fault": GateError()}, "a fault inside llmgate, see its log"),
        ("upstream_error", Done.ENDED, {"fault": TOLD}, "its answer was an error, as of status 500"),
        ("refused", Done.CUT, {"fault": Refused("llmgate: it stops (REFUSED)")}, "it stops"),
    ],
)
def test_why(outcome: Outcome, done: Done, known: dict[str, Any], reason: str) -> None:
    facts = {"status": 200, "stream_failed": False, "fault": None} | known
    assert reason_of(outcome, done, **facts) == reason


@given(
    done=st.sampled_from(Done),
    status=st.sampled_from([0, 200, 204, 302, 400, 429, 500]),
    told_end=st.sampled_from([None, True, False]),
    stream_failed=st.booleans(),
    cut=st.sampled_from([None, "client_gone", "cancelled", "refused", "client_stalled"]),
    error=st.sampled_from([None, DOWN, LATE, BAD]),
)
def test_completed_only_where_the_client_has_everything(error: GateError | None, **known: Any) -> None:
    outcome = found(known.pop("done"), error=error, **known)
    if outcome == "completed":
        assert not known["stream_failed"]
        assert known["told_end"] is not False
