"""Reads OpenAI's choices: the pieces of text, of reasoning and of tool calls in a delta or in a whole message.

Shapes differ between servers, and a field that is not what it should be counts as absent:

    reasoning    reasoning_content (llama-server, SGLang, DeepSeek), reasoning (Ollama, OpenRouter, newer vLLM, which
                 sends both with the same text), parts of type "thinking" in the content (Mistral)
    content      a string, null, a list of parts (Mistral)
    tool_calls   with index and id in the first delta only; without index (Gemini), without id, with an id of "" later
                 on (Qwen), with arguments as an object; the older function_call
"""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from llmgate.protocols.call_piece import CallPiece, piece_of

Kind = Literal["text", "thinking"]


class Spoken(msgspec.Struct, frozen=True):
    """A piece of text or of reasoning; not empty. It may begin or end within a surrogate pair."""

    kind: Kind
    text: str
    refusal: bool = False


def first_choice(document: dict[str, Any]) -> dict[str, Any] | None:
    """The one choice that is translated: Anthropic knows no others."""
    choices = document.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and not choice.get("index"):
            return choice
    return None


def spoken(delta: dict[str, Any]) -> Iterator[Spoken]:
    """What it says, reasoning first."""
    reasoning = _text(delta.get("reasoning_content")) or _text(delta.get("reasoning"))
    if reasoning:
        yield Spoken("thinking", reasoning)
    content = delta.get("content")
    if isinstance(content, list):
        yield from _parts(content)
    elif text := _text(content):
        yield Spoken("text", text)
    if refusal := _text(delta.get("refusal")):
        yield Spoken("text", refusal, refusal=True)


def called(delta: dict[str, Any]) -> Iterator[CallPiece]:
    """The pieces of tool calls in it."""
    calls = delta.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            yield piece_of(call, call.get("function"))
    if isinstance(legacy := delta.get("function_call"), dict):
        yield piece_of({"index": 0}, legacy)


def _parts(content: list[Any]) -> Iterator[Spoken]:
    for part in content:
        match part:
            case {"type": "thinking", "thinking": [*steps]}:
                yield from (Spoken("thinking", text) for text in map(_part_text, steps) if text)
            case {"type": "thinking", "thinking": str(text)} if text:
                yield Spoken("thinking", text)
            case {"type": "text"} if text := _part_text(part):
                yield Spoken("text", text)


def _part_text(part: Any) -> str:
    return _text(part.get("text")) if isinstance(part, dict) else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
