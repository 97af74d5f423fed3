"""Pieces of OpenAI's choices. Whole streams and answers: see test_stream and test_answer."""

from typing import Any

import pytest

from llmgate.protocols.call_piece import CallPiece
from llmgate.protocols.translate.piece import Spoken, called, first_choice, spoken


@pytest.mark.parametrize(
    ("choices", "first"),
    [
        ([{"index": 0, "a": 1}], 1),
        ([{"index": 1, "a": 1}, {"index": 0, "a": 2}], 2),
        ([{"a": 1}], 1),
        ([{"index": None, "a": 1}], 1),
        ([{"index": 1}], None),
        ([5], None),
        ([], None),
        (None, None),
        ({}, None),
    ],
)
def test_the_first_choice(choices: Any, first: int | None) -> None:
    found = first_choice({"choices": choices})
    assert (found and found["a"]) == first


def test_reasoning_comes_first() -> None:
    delta = {"refusal": "c", "content": "b", "reasoning": "a"}
    assert list(spoken(delta)) == [Spoken("thinking", "a"), Spoken("text", "b"), Spoken("text", "c", refusal=True)]


@pytest.mark.parametrize(
    ("entry", "piece"),
    [
        ({"index": 1, "id": "x", "function": {"name": "f", "arguments": "{"}}, CallPiece(1, "x", "f", "{")),
        ({"index": None, "id": None, "function": {"name": None, "arguments": None}}, CallPiece(None, "", "", "")),
        ({"index": "1", "id": [], "function": []}, CallPiece(None, "", "", "")),
        ({"id": 7, "function": {"arguments": {"a": 1}}}, CallPiece(None, "7", "", '{"a":1}')),
        ({"id": "\ud83d", "function": {"name": "\ud83d"}}, CallPiece(None, "\ufffd", "\ufffd", "")),
    ],
)
def test_a_call(entry: dict[str, Any], piece: CallPiece) -> None:
    assert list(called({"tool_calls": [entry]})) == [piece]


def test_the_older_function_call() -> None:
    assert list(called({"function_call": {"name": "f", "arguments": "{}"}})) == [CallPiece(0, "", "f", "{}")]
