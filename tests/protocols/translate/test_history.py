"""Turns. The rows of the mapping, and what holds for any history: see test_request."""

import msgspec
import pytest

from llmgate.protocols.translate.history import Message, messages, system_texts


def said(role: str, text: str) -> Message:
    return Message(role, msgspec.Raw(msgspec.json.encode(text)))


def test_turns_of_one_role_are_joined() -> None:
    history = [said("user", "a"), said("user", "b"), said("assistant", "c"), said("assistant", "d"), said("user", "e")]
    system, turns = messages(history, reasoning="drop", server_tools="reject")
    assert system == []
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert [part.text for part in turns[0]["content"]] == ["a", "b"]
    assert turns[1]["content"] == "cd"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("x-anthropic-billing-header: a", []),
        ("x-anthropic-billing-header: a\n\n", []),
        ("x-anthropic-billing-header: a\nb\nc", ["b\nc"]),
        ("see x-anthropic-billing-header: a", ["see x-anthropic-billing-header: a"]),
        ("", []),
    ],
)
def test_the_line_before_the_system_prompt(text: str, left: list[str]) -> None:
    assert system_texts(msgspec.Raw(msgspec.json.encode(text))) == left
