"""Content blocks put together."""

import json
from typing import Any

import msgspec
import pytest

from llmgate.errors import UpstreamFailed
from llmgate.protocols.budget import Budget
from llmgate.protocols.gather.block import Block

TEXT = {"type": "text", "text": ""}
USE = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}


def gather(start: dict[str, Any], *deltas: dict[str, Any]) -> Any:
    block = Block(Budget(100_000), start)
    for delta in deltas:
        block.add(delta)
    return json.loads(msgspec.json.encode(block.value(whole=False)))


def given(*pieces: str) -> list[dict[str, Any]]:
    return [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def cited(number: int) -> dict[str, Any]:
    return {"type": "citations_delta", "citation": {"type": "char_location", "start": number}}


RESULT = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "web_search_result", "url": "u"}]}
SERVER = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}

CASES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]] = {
    "text": (
        TEXT,
        [{"type": "text_delta", "text": "a"}, {"type": "text_delta", "text": "b"}],
        {"type": "text", "text": "ab"},
    ),
    "empty": (TEXT, [], TEXT),
    "citations": (
        {**TEXT, "citations": None},
        [{"type": "text_delta", "text": "a"}, cited(1), cited(2)],
        {"type": "text", "text": "a", "citations": [cited(1)["citation"], cited(2)["citation"]]},
    ),
    "thinking": (
        {"type": "thinking", "thinking": "", "signature": ""},
        [{"type": "thinking_delta", "thinking": "hm"}, {"type": "signature_delta", "signature": "Eq=="}],
        {"type": "thinking", "thinking": "hm", "signature": "Eq=="},
    ),
    "thinking of llama-server": (
        {"type": "thinking", "thinking": ""},
        [{"type": "thinking_delta", "thinking": "hm"}, {"type": "signature_delta", "signature": ""}],
        {"type": "thinking", "thinking": "hm", "signature": ""},
    ),
    "redacted": ({"type": "redacted_thinking", "data": "xx"}, [], {"type": "redacted_thinking", "data": "xx"}),
    "a tool": (USE, given("", '{"a', '":1.50, "b":[]}'), {**USE, "input": {"a": 1.5, "b": []}}),
    "a tool without input": (USE, given("", " "), USE),
    "a tool of llama-server without input": ({"type": "tool_use", "id": "x", "name": "f"}, [], {**USE, "id": "x"}),
    "a tool whose input came with it": (
        {**USE, "input": {"a": {"type": "x"}}},
        [],
        {**USE, "input": {"a": {"type": "x"}}},
    ),
    "half a tool": (USE, given('{"a":'), USE),
    "half a pair in an input": (USE, given('{"a":"\ud83d', '\ude00"}'), {**USE, "input": {"a": "😀"}}),
    "a tool of the server": (SERVER, given('{"query":"q"}'), {**SERVER, "input": {"query": "q"}}),
    "the result of such a tool": (RESULT, [], RESULT),
    "a block of tomorrow": (
        {"type": "song", "notes": ""},
        [{"type": "song_delta", "notes": "c"}, {"type": "song_delta", "notes": "d", "key": 4}],
        {"type": "song", "notes": "cd", "key": 4},
    ),
    "a tool of tomorrow": (
        {"type": "mcp_tool_use", "id": "m", "name": "f", "server_name": "s"},
        given('{"a":1}'),
        {"type": "mcp_tool_use", "id": "m", "name": "f", "server_name": "s", "input": {"a": 1}},
    ),
    "no type": ({}, [{"type": "text_delta", "text": "a", "partial_json": 5}], {"text": "a"}),
}


@pytest.mark.parametrize("name", CASES)
def test_blocks(name: str) -> None:
    start, deltas, whole = CASES[name]
    assert gather(start, *deltas) == whole


def test_an_input_keeps_its_bytes() -> None:
    block = Block(Budget(100_000), USE)
    block.add(given('{"a": 1.50, "a": 1e2}')[0])
    assert b'"input":{"a": 1.50, "a": 1e2}' in msgspec.json.encode(block.value(whole=False))


@pytest.mark.parametrize("delta", [{"text": "x" * 100}, given("x" * 100)[0], cited(1)])
def test_a_block_counts(delta: dict[str, Any]) -> None:
    with pytest.raises(UpstreamFailed):
        Block(Budget(1000), {})
    block = Block(Budget(1600), {})
    block.add(delta)
    with pytest.raises(UpstreamFailed):
        list(map(block.add, [delta] * 10))


def test_half_an_input_is_no_whole_answer() -> None:
    block = Block(Budget(100_000), USE)
    block.add(given('{"a":')[0])
    with pytest.raises(UpstreamFailed, match="no JSON"):
        block.value(whole=True)
    block.add(given("1}")[0])
    assert block.value(whole=True) == block.value(whole=False)
