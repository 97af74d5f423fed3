"""Chat completions put together."""

from typing import Any

import pytest

from llmgate.errors import UpstreamFailed
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
            *end("function_call"),
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


HALF = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": '{"a":'}}]}


@pytest.mark.parametrize("reason", ["tool_calls", "stop", "function_call"])
def test_half_a_call_is_no_answer_that_is_told_to_be_whole(reason: str) -> None:
    for half in (HALF, {"function_call": {"name": "f", "arguments": '{"a":'}}):
        with pytest.raises(UpstreamFailed, match="no JSON"):
            message(chunk(half), *end(reason))


@pytest.mark.parametrize("reason", ["length", "content_filter", "abort"])
def test_half_a_call_of_an_answer_that_was_cut_short_is_what_the_server_answers_too(reason: str) -> None:
    assert message(chunk(HALF), *end(reason))["tool_calls"][0]["function"]["arguments"] == '{"a":'
