"""What was said before: calls of tools and their results, the model's own words and thoughts."""

import json
from typing import Any

import pytest

from tests.protocols.translate.said import (
    body,
    image,
    messages,
    refusal,
    result,
    roles,
    said,
    sent,
    text,
    use,
)

# tools in the history


def test_results_come_first_and_next_to_their_calls() -> None:
    found = messages("go", said("assistant", use("t1", a=1)), said("user", text("and hurry"), result("t1", "42")))
    assert found == [
        said("user", "go"),
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}],
        },
        {"role": "tool", "tool_call_id": "t1", "content": "42"},
        said("user", "and hurry"),
    ]


def test_results_in_two_messages_of_the_user() -> None:
    history = (
        "go",
        said("assistant", use("a"), use("b")),
        said("user", result("a"), text("x")),
        said("user", result("b")),
    )
    assert roles(*history) == ["user", "assistant", "tool", "tool", "user"]


def test_two_answers_in_a_row_are_one_turn() -> None:
    history = (
        "go",
        said("assistant", text("x"), use("a")),
        said("assistant", text("y"), use("b")),
        said("user", result("a"), result("b")),
    )
    found = messages(*history)
    assert [message["role"] for message in found] == ["user", "assistant", "tool", "tool"]
    assert found[1]["content"] == "xy"
    assert [call["id"] for call in found[1]["tool_calls"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("block", "content"),
    [
        (result("t1", "42"), "42"),
        (result("t1"), ""),
        (result("t1", None), ""),
        (result("t1", []), ""),
        (result("t1", [text("a")]), "a"),
        (result("t1", [text("a"), text("b")]), "a\nb"),
        (result("t1", "no", is_error=True), "Error: no"),
        (result("t1", is_error=True), "Error"),
        (result("t1", "yes", is_error=False), "yes"),
        (result("t1", "yes", is_error=None), "yes"),
        (result("t1", [{"type": "document", "source": {"type": "text", "data": "D"}}]), "D"),
        (result("t1", [{"type": "tool_reference", "tool_name": "g"}]), "g"),
        (result("t1", [{"type": "search_result", "source": "s", "title": "t", "content": [text("c")]}]), "t\n\ns\n\nc"),
    ],
)
def test_a_result_is_a_text(block: dict[str, Any], content: str) -> None:
    found = messages("go", said("assistant", use("t1")), said("user", block))
    assert found[2:] == [{"role": "tool", "tool_call_id": "t1", "content": content}]


def test_images_of_results_follow_them() -> None:
    history = said(
        "user", text("look"), result("a", [text("x"), image()]), image(type="url", url="u"), result("b", [image()])
    )
    found = messages("go", said("assistant", use("a"), use("b")), history)
    assert [message["role"] for message in found] == ["user", "assistant", "tool", "tool", "user"]
    assert [message["content"] for message in found[2:4]] == ["x", ""]
    assert [part["type"] for part in found[4]["content"]] == ["image_url", "image_url", "text", "image_url"]
    assert found[4]["content"][3]["image_url"]["url"] == "u"


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ("{}", "{}"),
        ("null", "{}"),
        ('{"b" : [1, 2.0, 12345678901234567890123], "a":"é \\u00e9 \\ud83d\\ude00"}', None),
        ('{ "cache_control": {"type": "ephemeral"} }', '{"cache_control":{"type":"ephemeral"}}'),
    ],
)
def test_arguments_are_compact_json(given: str, arguments: str | None) -> None:
    data = body("go", said("assistant", {**use("t1"), "input": "GIVEN"})).replace(b'"GIVEN"', given.encode())
    found = sent(data)["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert found == arguments or (arguments is None and json.loads(found) == json.loads(given))
    assert ": " not in found


def test_a_call_without_input() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "f"}
    assert messages("go", said("assistant", call))[1]["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize(
    "block", [{**use("t1"), "input": [1]}, {**use("t1"), "input": "{}"}, use(""), use("t1", ""), {"type": "tool_use"}]
)
def test_a_malformed_call_is_refused(block: dict[str, Any]) -> None:
    assert "tool_use" in refusal(body("go", said("assistant", block)))


def test_a_result_of_no_call_is_refused() -> None:
    assert "tool_use_id" in refusal(body("go", said("user", {"type": "tool_result", "content": "x"})))


# what the model said


def test_texts_of_an_answer_are_joined() -> None:
    assert messages("q", said("assistant", text("a"), text("b"))) == [said("user", "q"), said("assistant", "ab")]


def test_text_beside_calls() -> None:
    message = messages("q", said("assistant", text("a"), use("t1")))[1]
    assert (message["content"], len(message["tool_calls"])) == ("a", 1)


_THOUGHTS = said(
    "assistant",
    {"type": "thinking", "thinking": "SEC", "signature": "s"},
    {"type": "redacted_thinking", "data": "xyz"},
    {"type": "thinking", "thinking": "RET", "signature": "s"},
    text("a"),
)


def test_thinking_is_dropped() -> None:
    assert messages("q", _THOUGHTS, "q2") == [said("user", "q"), said("assistant", "a"), said("user", "q2")]


def test_thinking_goes_back_where_it_is_wanted() -> None:
    found = messages("q", _THOUGHTS, "q2", reasoning_history="reasoning_content")
    assert found[1] == {**said("assistant", "a"), "reasoning_content": "SECRET"}
    assert "xyz" not in json.dumps(found)


def test_an_answer_of_thinking_alone() -> None:
    thought = said("assistant", {"type": "thinking", "thinking": "x"})
    assert messages("q", thought, "q2")[1] == said("assistant", "")
    wanted = messages("q", thought, "q2", reasoning_history="reasoning_content")[1]
    assert wanted == {**said("assistant", ""), "reasoning_content": "x"}


_SERVER_BLOCKS = [
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result", "url": "u"}]},
    {"type": "mcp_tool_use", "id": "s2", "name": "x", "server_name": "y", "input": {}},
    {"type": "mcp_tool_result", "tool_use_id": "s2", "content": {"type": "x"}, "is_error": False},
]


@pytest.mark.parametrize("block", _SERVER_BLOCKS, ids=lambda block: block["type"])
def test_calls_of_server_tools_in_the_history(block: dict[str, Any]) -> None:
    data = body("q", said("assistant", text("a"), block), "q2")
    assert repr(block["type"]) in refusal(data)
    assert sent(data, server_tools="drop")["messages"][1] == said("assistant", "a")


@pytest.mark.parametrize("block", [image(), result("t1", "x"), {"type": "x"}], ids=lambda block: block["type"])
def test_what_no_answer_holds_is_refused(block: dict[str, Any]) -> None:
    assert repr(block["type"]) in refusal(body("q", said("assistant", block)), server_tools="drop")
