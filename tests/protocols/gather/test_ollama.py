"""Ollama's answers put together; the examples of its documentation (docs/api.md), shortened."""

from typing import Any

import pytest

from llmgate.errors import UpstreamFailed
from llmgate.protocols.gather.ollama import OllamaGathering
from tests.protocols.gather.gathered import GENERATE, OLLAMA_CHAT, gather, gathering, lines

AT = {"model": "llama3.2", "created_at": "2023-08-04T08:52:19.385406455-07:00"}
LATER = {"model": "llama3.2", "created_at": "2023-08-04T19:22:45.499127Z"}
DURATIONS = {
    "total_duration": 4883583458,
    "load_duration": 1334875,
    "prompt_eval_count": 26,
    "prompt_eval_duration": 342546000,
    "eval_count": 282,
    "eval_duration": 4535599000,
}
CALL = {"function": {"name": "get_weather", "arguments": {"city": "Tokyo"}}}
OTHER = {"id": "call_1", "function": {"index": 1, "name": "get_weather", "arguments": {"city": "Oslo"}}}


def say(content: str, **message: Any) -> dict[str, Any]:
    return {**AT, "message": {"role": "assistant", "content": content, **message}, "done": False}


def end(content: str = "", **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content}
    return {**LATER, "message": message, "done_reason": "stop", "done": True, **DURATIONS, **more}


def test_chat() -> None:
    found = gather(OLLAMA_CHAT, lines(say("The"), say(" sky"), end(".")))
    assert found == end("The sky.")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([say("", thinking="h"), say("", thinking="m"), say("ok")], {"content": "ok", "thinking": "hm"}),
        ([say("", tool_calls=[CALL])], {"content": "", "tool_calls": [CALL]}),
        ([say("a", tool_calls=[CALL]), say("", tool_calls=[OTHER])], {"content": "a", "tool_calls": [CALL, OTHER]}),
        ([say("a", tool_calls=None, thinking=None), {**AT, "done": False}], {"content": "a"}),
        ([say("a", images=["x"])], {"content": "a"}),
        ([say("a\ud83d"), say("\ude00")], {"content": "a😀"}),
        ([], {"content": ""}),
    ],
)
def test_what_is_joined(parts: list[dict[str, Any]], message: dict[str, Any]) -> None:
    assert gather(OLLAMA_CHAT, lines(*parts, end())) == {**end(), "message": {"role": "assistant", **message}}


def test_what_comes_with_the_end_is_joined_too() -> None:
    last = end("c", logprobs=[{"token": "c"}])
    last["message"] |= {"thinking": "h", "tool_calls": [CALL], "images": ["x"]}
    found = gather(OLLAMA_CHAT, lines({**say("ab"), "logprobs": [{"token": "a"}, {"token": "b"}]}, last))
    message = {"role": "assistant", "content": "abc", "thinking": "h", "tool_calls": [CALL], "images": ["x"]}
    assert found == {**last, "message": message, "logprobs": [{"token": token} for token in "abc"]}


def test_an_end_without_a_message() -> None:
    found = gather(OLLAMA_CHAT, lines(say("a"), {**LATER, "done": True, "logprobs": None}))
    assert found == {**LATER, "message": {"role": "assistant", "content": "a"}, "done": True, "logprobs": None}


def test_generate() -> None:
    last = {**LATER, "response": "", "done": True, "context": [1, 2, 3], **DURATIONS}
    found = gather(GENERATE, lines({**AT, "response": "The", "done": False}, {**AT, "response": " sky"}, last))
    assert found == {**last, "response": "The sky"}


def test_generate_with_thinking() -> None:
    parts = [{**AT, "response": "", "thinking": "h"}, {**AT, "thinking": "m"}, {**AT, "response": "ok"}]
    last = {**LATER, "response": "", "done": True, "done_reason": "length", "tool_calls": [CALL]}
    assert gather(GENERATE, lines(*parts, last)) == {**last, "response": "ok", "thinking": "hm"}


@pytest.mark.parametrize("path", [OLLAMA_CHAT, GENERATE])
def test_a_text_that_is_none(path: str) -> None:
    with pytest.raises(UpstreamFailed, match="cannot be read"):
        gather(path, lines({"response": 5, "message": {"content": ["a"]}}, {**end(), "response": ""}))


def test_only_true_is_the_end() -> None:
    found = gathering(GENERATE)
    found.feed(lines({"response": "a", "done": 1}, {"response": "a", "done": "true"}))
    assert not found.complete
    assert found.output_tokens == 2
    found.feed(lines({"response": "a", "done": True, "eval_count": 9, "prompt_eval_count": 4}))
    assert (found.complete, found.output_tokens, found.input_tokens) == (True, 9, 4)


def test_one_of_neither_route() -> None:
    with pytest.raises(NotImplementedError):
        OllamaGathering().feed(lines({"done": True}))
