"""What a piece of a tool call tells, and which call it belongs to: the cases are in translate/test_call.py, too."""

import pytest

from llmgate.protocols.call_piece import CallPiece, KnownCall, arguments_of, goes_on, piece_of


@pytest.mark.parametrize(
    ("told", "text"), [({"a": 1}, '{"a":1}'), ({}, "{}"), ("{", "{"), ("", ""), (None, ""), ([1], ""), (5, "")]
)
def test_arguments(told: object, text: str) -> None:
    assert arguments_of(told) == text
    assert piece_of({"index": 1, "id": 7}, {"name": "f", "arguments": told}) == CallPiece(1, "7", "f", text)


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("complete", [False, True])
def test_a_new_id_without_a_name_goes_on_while_arguments_may_come(begun: bool, complete: bool) -> None:
    named, nameless = KnownCall("x", "f", begun, complete), KnownCall("x", "", begun, complete)
    more, nothing = CallPiece(0, "y", "", "{"), CallPiece(0, "y", "", "")
    assert goes_on(named, more) is (not complete)
    assert goes_on(named, nothing) is goes_on(nameless, more) is (begun and not complete)
