"""Chat completions put together."""

from typing import Any

import pytest

from tests.protocols.gather.gathered import CHAT, call_piece, gather
from tests.protocols.translate.openai_streams import DONE, chunk, end, say, sse, think, tool


def message(*items: Any) -> Any:
    return gather(CHAT, sse(*items))["choices"][0]["message"]


ROLE = {"role": "assistant"}
FUNCTION = {"name": "f", "arguments": '{"a":1}'}
CALL = {"id": "call_a", "type": "function", "function": FUNCTION}
_WHOLE = tool(0, "f", '{"a":1}', id="call_a", type="function")

CASES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "text": ([chunk({"role": "assistant", "content": ""}), say("Hel"), say("lo"), *end()], {"content": "Hello"}),
    "no role": ([say("Hello"), *end()], {"content": "Hello"}),
    "a role that is null": ([chunk({"role": None, "content": "a"}), *end()], {"content": "a"}),
    "nothing": ([chunk({"role": "assistant", "content": None}), *end()], {"content": ""}),
    "no delta": ([chunk({}, "stop"), {"choices": [{"delta": 5}]}, DONE], {"content": ""}),
    "a whole message": ([{"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}], {"content": "a"}),
    "reasoning_content": ([think("h"), think("m"), say("ok"), *end()], {"content": "ok", "reasoning_content": "hm"}),
    "reasoning": ([chunk({"reasoning": "hm"}), say("ok"), *end()], {"content": "ok", "reasoning": "hm"}),
    "a refusal": (
        [chunk({"content": None, "refusal": None}), chunk({"refusal": "I "}), chunk({"refusal": "won't"}), *end()],
        {"content": "", "refusal": "I won't"},
    ),
    "no refusal": ([chunk({"content": "a", "refusal": None}), *end()], {"content": "a", "refusal": None}),
    "a call": ([call_piece(_WHOLE), *end("tool_calls")], {"content": "", "tool_calls": [CALL]}),
    "text and a call": ([say("a"), call_piece(_WHOLE), *end()], {"content": "a", "tool_calls": [CALL]}),
    "no calls": ([chunk({"content": "a", "tool_calls": []}), *end()], {"content": "a", "tool_calls": []}),
    "calls that are null": ([chunk({"content": "a", "tool_calls": None}), *end()], {"content": "a"}),
    "a function call": (
        [
            chunk({"function_call": {"name": "f", "arguments": '{"a"'}}),
            chunk({"function_call": {"arguments": ":1}"}}),
            DONE,
        ],
        {"content": "", "function_call": FUNCTION},
    ),
    "annotations": (
        [chunk({"content": "a", "annotations": [{"a": 1}]}), chunk({"annotations": [{"a": 2}]}), *end()],
        {"content": "a", "annotations": [{"a": 1}, {"a": 2}]},
    ),
    "parts, as Mistral sends them": (
        [
            chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}),
            say("a"),
            say("b"),
            *end(),
        ],
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                {"type": "text", "text": "ab"},
            ]
        },
    ),
    "half a pair": ([say("a\ud83d"), say("\ude00b\ud83d"), *end()], {"content": "a😀b�"}),
}


@pytest.mark.parametrize("name", CASES)
def test_messages(name: str) -> None:
    items, said = CASES[name]
    assert message(*items) == ROLE | said


def test_a_reason_that_was_not_told() -> None:
    def reason(*items: Any) -> Any:
        return gather(CHAT, sse(*items, DONE))["choices"][0]["finish_reason"]

    assert reason(say("a")) == "stop"
    assert reason(call_piece(_WHOLE)) == "tool_calls"
    assert reason(chunk({"tool_calls": []})) == "stop"
    assert reason(chunk({"function_call": {"name": "f"}})) == "function_call"
