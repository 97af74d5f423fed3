"""Why a message ended."""

from typing import Any

import pytest

from llmgate.errors import UpstreamFailed
from llmgate.protocols.translate.reason import Finish, Stop


def finish(*choices: dict[str, Any], asked: tuple[str, ...] = ()) -> Finish:
    found = Finish(asked)
    for choice in choices:
        found.read(choice)
    return found


@pytest.mark.parametrize(
    ("told", "without", "with_calls"),
    [
        ("stop", "end_turn", "tool_use"),
        ("length", "max_tokens", "max_tokens"),
        ("tool_calls", "end_turn", "tool_use"),
        ("tool_use", "end_turn", "tool_use"),
        ("function_call", "end_turn", "tool_use"),
        ("content_filter", "refusal", "refusal"),
        ("refusal", "refusal", "refusal"),
        ("stop_sequence", "stop_sequence", "tool_use"),
        ("eos", "end_turn", "tool_use"),
    ],
)
def test_the_reason(told: str, without: str, with_calls: str) -> None:
    found = finish({"finish_reason": told})
    assert found.decide(calls=False).reason == without
    assert found.decide(calls=True).reason == with_calls
    assert found.cut_short is (without in {"max_tokens", "refusal"})


@pytest.mark.parametrize("told", ["error", "abort", "aborted", "cancelled", "canceled", "insufficient_system_resource"])
def test_an_upstream_that_gave_up(told: str) -> None:
    with pytest.raises(UpstreamFailed):
        finish({"finish_reason": told})


def test_the_newest_reason_counts_and_nothing_is_none() -> None:
    found = finish(
        {"finish_reason": "stop"}, {"finish_reason": "length"}, {"finish_reason": None}, {"finish_reason": ""}
    )
    assert (found.known, found.decide(calls=False)) == (True, Stop("max_tokens"))
    assert not finish({}, {"finish_reason": None}, {"finish_reason": 5}).known


def test_a_refusal_is_no_cut() -> None:
    found = finish({"finish_reason": "stop"})
    found.refused = True
    assert (found.decide(calls=True), found.cut_short) == (Stop("refusal"), False)


def test_a_stop_string_told_before_the_end() -> None:
    found = finish({"stop_reason": "END"}, {"finish_reason": "stop", "stop_reason": None}, asked=("END",))
    assert found.decide(calls=False) == Stop("stop_sequence", "END")
