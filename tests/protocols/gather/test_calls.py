"""Tool calls put together: the shapes that servers send them in."""

import json
from typing import Any

import msgspec
import pytest

from llmgate.errors import UpstreamFailed
from llmgate.protocols.budget import Budget
from llmgate.protocols.gather.calls import Called, Calls
from tests.protocols.translate.openai_streams import tool

F = {"id": "call_a", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
G = {"id": "call_b", "type": "function", "function": {"name": "g", "arguments": '{"b":2}'}}
_WHOLE_F = tool(0, "f", '{"a":1}', id="call_a", type="function")
_WHOLE_G = tool(1, "g", '{"b":2}', id="call_b", type="function")


def gather(*pieces: Any) -> Any:
    calls = Calls(Budget(100_000))
    for piece in pieces:
        calls.add(piece if isinstance(piece, list) else [piece])
    return json.loads(msgspec.json.encode(calls.value(whole=False)))


def nameless(call: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in call.items() if key != "id"}


CASES: dict[str, tuple[list[Any], list[dict[str, Any]]]] = {
    "nothing": ([[]], []),
    "whole ones": ([[_WHOLE_F, _WHOLE_G]], [F, G]),
    "in pieces": (
        [tool(0, "f", "", id="call_a", type="function"), tool(0, None, '{"a":'), tool(0, None, "1}")],
        [F],
    ),
    "pieces that alternate": (
        [
            tool(0, "f", "", id="call_a"),
            tool(1, "g", "", id="call_b"),
            tool(0, None, '{"a":'),
            tool(1, None, '{"b":'),
            tool(0, None, "1}"),
            tool(1, None, "2}"),
        ],
        [F, G],
    ),
    "without arguments": (
        [tool(0, "f", id="call_a")],
        [{**F, "function": {"name": "f", "arguments": ""}}],
    ),
    "arguments that are null": (
        [tool(0, "f", id="call_a", function={"name": "f", "arguments": None})],
        [{**F, "function": {"name": "f", "arguments": ""}}],
    ),
    "arguments that are an object": (
        [tool(0, "f", {"a": 1}, id="call_a")],
        [{**F, "function": {"name": "f", "arguments": {"a": 1}}}],
    ),
    "half of one": (
        [tool(0, "f", '{"a"', id="call_a")],
        [{**F, "function": {"name": "f", "arguments": '{"a"'}}],
    ),
    "id and name again": (
        [tool(0, "f", "", id="call_a"), tool(0, "f", '{"a":', id="call_a"), tool(0, "f", "1}", id="call_a")],
        [F],
    ),
    "an id that is empty later": (
        [tool(0, "f", "", id="call_a"), tool(0, None, '{"a":1}', id="", type="")],
        [F],
    ),
    "a new id in every piece": (
        [tool(0, "f", "", id="call_a"), tool(0, None, '{"a":', id="x"), tool(0, None, "1}", id="y")],
        [F],
    ),
    "a new id in every piece, the first of the arguments too": (
        [tool(0, "f", id="call_a", type="function"), tool(0, None, '{"a":', id="x"), tool(0, None, "1}", id="y")],
        [F],
    ),
    "an id that ends the arguments of another": (
        [_WHOLE_F, tool(0, None, '{"b":2}', id="call_b"), tool(0, "g")],
        [F, G],
    ),
    "whole ones of one name at one index": (
        [tool(0, "f", '{"a":1}'), tool(0, "f", '{"b":'), tool(0, "f", "2}"), tool(0, "f", "{}")],
        [nameless({**F, "function": {"name": "f", "arguments": text}}) for text in ('{"a":1}', '{"b":2}', "{}")],
    ),
    "blanks after the end": (
        [tool(0, "f", ' {"a":1}', id="call_a"), tool(0, "f", " ")],
        [{**F, "function": {"name": "f", "arguments": ' {"a":1} '}}],
    ),
    "a name in parts": (
        [tool(0, "get_", id="call_a"), tool(0, "time"), tool(0, "get_time", "{}")],
        [{**F, "function": {"name": "get_time", "arguments": "{}"}}],
    ),
    "a name after the arguments": (
        [tool(0, None, '{"a":1}', id="call_a"), tool(0, "f")],
        [F],
    ),
    "a new id at a used index": ([_WHOLE_F, {**_WHOLE_G, "index": 0}], [F, G]),
    "a new name at a used index": (
        [tool(0, "f", '{"a":1}'), tool(0, "g", '{"b":'), tool(0, None, "2}")],
        [nameless(F), nameless(G)],
    ),
    "another name for the same id": (
        [tool(0, "f", '{"a":', id="call_a"), tool(0, "g", "1}", id="call_a")],
        [F],
    ),
    "an id that comes late": ([tool(0, "f", '{"a":1}'), tool(0, None, id="call_a")], [F]),
    "no index, whole ones": ([{**_WHOLE_F, "index": None}, {**_WHOLE_G, "index": None}], [F, G]),
    "no index, in pieces": (
        [tool(None, "f", "", id="call_a"), tool(None, None, '{"a":'), tool(None, None, "1}", id="call_a")],
        [F],
    ),
    "neither index nor id": ([tool(None, "f", '{"a":1}'), tool(None, "g", '{"b":2}')], [nameless(F), nameless(G)]),
    "neither index nor id, in pieces": (
        [tool(None, "f", '{"a":1}'), tool(None, "g"), tool(None, None, '{"b":2}')],
        [nameless(F), nameless(G)],
    ),
    "neither index nor id nor name": (
        [tool(None, None, "{}")],
        [{"type": "function", "function": {"name": "", "arguments": "{}"}}],
    ),
    "an id that is a number": ([tool(0, "f", '{"a":1}', id=5)], [{**F, "id": "5"}]),
    "a custom tool": (
        [
            {"index": 0, "id": "c", "type": "custom", "custom": {"name": "sh", "input": ""}},
            {"index": 0, "custom": {"input": "ls "}},
            {"index": 0, "custom": {"input": "-l"}},
        ],
        [{"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls -l"}}],
    ),
    "a custom tool's text that looks like an object": (
        [{"index": 0, "custom": {"name": "sh", "input": "{ls}"}}, {"index": 0, "custom": {"name": "sh", "input": ";"}}],
        [{"type": "custom", "custom": {"name": "sh", "input": "{ls};"}}],
    ),
    "no index, a new id in every piece": (
        [tool(None, "f", id="call_a", type="function"), tool(None, None, '{"a":', id="x"), tool(None, None, "1}")],
        [F],
    ),
    "an index, then none": (
        [tool(0, "f", '{"a":', id="call_a"), tool(1, "g"), tool(None, None, "1}", id="call_a")],
        [F, {"type": "function", "function": {"name": "g", "arguments": ""}}],
    ),
    "a blank amid the name": (
        [tool(0, "get_", " "), tool(0, "time", "{}")],
        [nameless({**F, "function": {"name": "get_time", "arguments": " {}"}})],
    ),
    "a custom tool that is not called so": (
        [{"index": 0, "custom": {"name": "sh", "input": "ls"}}],
        [{"type": "custom", "custom": {"name": "sh", "input": "ls"}}],
    ),
    "more fields": (
        [
            {**_WHOLE_F, "extra_content": {"google": {"thought_signature": "ab"}}},
            tool(0, extra_content={"google": {"thought_signature": "cd"}}),
        ],
        [{**F, "extra_content": {"google": {"thought_signature": "abcd"}}}],
    ),
    "no call": (["x", 5, None, [{"index": 0, "function": 5}]], [{"type": "function"}]),
    "half a pair": (
        [tool(0, "f\ud83d", "\ud83d", id="a\ud83d"), tool(0, None, "\ude00")],
        [{"id": "a�", "type": "function", "function": {"name": "f�", "arguments": "😀"}}],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_calls(name: str) -> None:
    pieces, calls = CASES[name]
    assert gather(*pieces) == calls


def test_whether_there_are_any() -> None:
    calls = Calls(Budget(100_000))
    assert not calls
    calls.add([_WHOLE_F])
    assert calls


@pytest.mark.parametrize(
    "piece",
    [tool(None, "f", "{}"), tool(0, None, "x" * 100), tool(0, "x" * 100, None), tool(0, None, None, id="x" * 3000)],
)
def test_each_call_counts(piece: dict[str, Any]) -> None:
    calls = Calls(Budget(3000))
    with pytest.raises(UpstreamFailed):
        calls.add([piece] * 30)


def test_ids_that_are_not_kept_cost_nothing() -> None:
    calls = Calls(Budget(3000))
    calls.add([tool(None, "f", id="call_a")])
    for number in range(1000):
        calls.add([tool(None, None, "x", id=f"call_{number}")])
    assert len(calls._at) == 1


def test_a_function_call() -> None:
    called = Called(Budget(10_000), "arguments")
    for piece in ({"name": "f"}, {"arguments": "{"}, {"name": "f", "arguments": "}"}, {"more": 1}):
        called.add(piece)
    assert json.loads(msgspec.json.encode(called.value(whole=False))) == {"name": "f", "arguments": "{}", "more": 1}


@pytest.mark.parametrize("arguments", ["", " ", "{}", '{"a":1}', "5", None, {"a": 1}])
def test_arguments_of_a_whole_answer(arguments: Any) -> None:
    called = Called(Budget(100_000), "arguments")
    called.add({"name": "f", "arguments": arguments})
    assert called.value(whole=True) == called.value(whole=False)


@pytest.mark.parametrize("arguments", ['{"a":', '{"a":1', "{}}", "f(x)", "\ud83d"])
def test_half_the_arguments_are_no_whole_answer(arguments: str) -> None:
    calls = Calls(Budget(100_000))
    calls.add([{"index": 0, "id": "c", "function": {"name": "f", "arguments": arguments}}])
    assert len(calls.value(whole=False)) == 1
    with pytest.raises(UpstreamFailed, match="no JSON"):
        calls.value(whole=True)


def test_what_a_custom_tool_takes_is_any_text() -> None:
    calls = Calls(Budget(100_000))
    calls.add([{"index": 0, "id": "c", "type": "custom", "custom": {"name": "f", "input": '{"a":'}}])
    assert calls.value(whole=True)[0]["custom"] == {"name": "f", "input": '{"a":'}
