"""Tools, and the choice among them."""

from typing import Any

import pytest

from tests.protocols.translate.said import (
    TOOL,
    body,
    refusal,
    sent,
)


def test_tools_are_functions() -> None:
    tools = [
        {**TOOL, "type": "custom", "strict": True, "eager_input_streaming": True},
        {"name": "g", "input_schema": {}},
    ]
    assert sent(body("hi", tools=tools))["tools"] == [
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": TOOL["input_schema"]}},
        {"type": "function", "function": {"name": "g", "parameters": {}}},
    ]


def test_no_tools() -> None:
    assert sent(body("hi", tools=[], tool_choice={"type": "auto"})) == sent(body("hi"))


@pytest.mark.parametrize(
    ("choice", "fields"),
    [
        ({"type": "auto"}, {"tool_choice": "auto"}),
        ({"type": "any"}, {"tool_choice": "required"}),
        ({"type": "none"}, {"tool_choice": "none"}),
        ({"type": "tool", "name": "f"}, {"tool_choice": {"type": "function", "function": {"name": "f"}}}),
        (
            {"type": "any", "disable_parallel_tool_use": True},
            {"tool_choice": "required", "parallel_tool_calls": False},
        ),
        ({"type": "auto", "disable_parallel_tool_use": False}, {"tool_choice": "auto"}),
        (None, {}),
    ],
)
def test_the_choice_of_a_tool(choice: dict[str, Any] | None, fields: dict[str, Any]) -> None:
    found = sent(body("hi", tools=[TOOL], tool_choice=choice))
    assert {key: found[key] for key in ("tool_choice", "parallel_tool_calls") if key in found} == fields


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ({"type": "tool", "name": "g"}, "not among the tools"),
        ({"type": "tool"}, "not among the tools"),
        ({"type": "some"}, "'some'"),
        ({}, "lacks type"),
        ("auto", "tool_choice is not of the type"),
    ],
)
def test_a_choice_that_cannot_be_made(choice: Any, reason: str) -> None:
    assert reason in refusal(body("hi", tools=[TOOL], tool_choice=choice))


@pytest.mark.parametrize("kind", ["web_search_20250305", "bash_20250124", "computer_20250124"])
def test_server_tools(kind: str) -> None:
    data = body("hi", tools=[{"type": kind, "name": "x", "max_uses": 5}, TOOL], tool_choice={"type": "auto"})
    assert repr(kind) in refusal(data)
    assert [tool["function"]["name"] for tool in sent(data, server_tools="drop")["tools"]] == ["f"]


def test_server_tools_alone() -> None:
    data = body("hi", tools=[{"type": "web_search_20250305", "name": "x"}], tool_choice={"type": "any"})
    assert sent(data, server_tools="drop") == sent(body("hi"))


def test_a_typed_tool_with_a_schema_is_a_function() -> None:
    assert len(sent(body("hi", tools=[{**TOOL, "type": "special_20250101"}]))["tools"]) == 1


@pytest.mark.parametrize("server_tools", ["reject", "drop"])
@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        ({"name": "f"}, "'f' has no input_schema"),
        ({"name": "f", "type": "custom", "input_schema": None}, "'f' has no input_schema"),
        ({"name": "f", "input_schema": "x"}, "'f' has no input_schema"),
        ({"input_schema": {}}, "no name"),
    ],
)
def test_a_malformed_tool_is_refused(tool: dict[str, Any], reason: str, server_tools: str) -> None:
    assert reason in refusal(body("hi", tools=[tool]), server_tools=server_tools)
