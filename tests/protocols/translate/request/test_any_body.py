"""What cannot be read, and what holds for any body."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.errors import BadRequest
from tests.protocols.translate.said import (
    TOOL,
    body,
    image,
    messages,
    refusal,
    result,
    said,
    sent,
    text,
    use,
)

# what cannot be read


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b'{"model":"\xff","messages":[]}', "not valid JSON"),
        (b'{"model":"m","messages":[{"role":"user","content":"\xff"}]}', "not valid JSON"),
        (b'{"model":"m","messages":[{"role":"user","content":"\\ud83d"}]}', "not valid JSON"),
        (b"[]", "the body is not of the type"),
        (b"5", "the body is not of the type"),
        (b"{}", "lacks model"),
        (b'{"model":"m"}', "lacks messages"),
        (b'{"model":"","messages":[{"role":"user","content":"hi"}]}', "model name is empty"),
        (b'{"model":5,"messages":[]}', "model is not of the type"),
        (b'{"model":"m","messages":[]}', "no messages"),
        (b'{"model":"m","messages":[{"role":"system","content":"S"}]}', "no messages"),
        (b'{"model":"m","messages":"hi"}', "messages is not of the type"),
        (b'{"model":"m","messages":[{}]}', "lacks role"),
        (b'{"model":"m","messages":[{"role":5}]}', "messages.role is not of the type"),
        (b'{"model":"m","messages":[{"role":"owner","content":""}]}', "no role 'owner'"),
        (b'{"model":"m","messages":[{"role":"user","content":5}]}', "the content is not of the type"),
        (b'{"model":"m","messages":[{"role":"user","content":[5]}]}', "the content is not of the type"),
        (b'{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":5}]}]}', "text is not of the type"),
        (b'{"model":"m","messages":[{"role":"user","content":[{}]}]}', "lacks type"),
        (b'{"model":"m","messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "messages"),
        (
            b'{"model":"m","messages":[{"role":"user","content":' + b"[" * 100_000 + b"]" * 100_000 + b"}]}",
            "too deeply",
        ),
        (body("hi", temperature="hot"), "temperature is not of the type"),
        (body("hi", max_tokens=1.5), "max_tokens is not of the type"),
        (body("hi", stream=1), "stream is not of the type"),
        (body("hi", stop_sequences="END"), "stop_sequences is not of the type"),
        (body("hi", stop_sequences=[5]), "stop_sequences is not of the type"),
        (body("hi", system=5), "the content is not of the type"),
        (body("hi", system=[image()]), "a system prompt of type 'image'"),
        (body("hi", tools="f"), "tools is not of the type"),
    ],
)
def test_what_cannot_be_read_is_refused(data: bytes, reason: str) -> None:
    assert reason in refusal(data)


def test_a_deep_schema_is_refused() -> None:
    deep = b'{"a":' * 100_000 + b"{}" + b"}" * 100_000
    assert "too deeply" in refusal(body("hi", tools=[{**TOOL, "input_schema": "DEEP"}]).replace(b'"DEEP"', deep))


def test_a_long_foreign_word_is_cut() -> None:
    assert len(refusal(body(said("user", {"type": "x" * 5000})))) < 250


# what holds for any body

_TEXT = st.builds(text, st.text(max_size=5))
_RESULT_CONTENT = st.one_of(st.text(max_size=5), st.none(), st.lists(_TEXT | st.builds(image), max_size=3))
_USER_BLOCK = _TEXT | st.builds(image)
_SYSTEM = st.text(max_size=5) | st.lists(_TEXT, max_size=3)


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Valid ones: every call is answered in the user's next turn, which may come in several messages."""
    history: list[dict[str, Any]] = []
    asked: list[str] = []
    for turn in range(draw(st.integers(1, 4))):
        blocks = [result(identity, draw(_RESULT_CONTENT), is_error=draw(st.booleans())) for identity in asked]
        blocks = draw(st.permutations(blocks + draw(st.lists(_USER_BLOCK, max_size=3))))
        parted = draw(st.integers(0, len(blocks)))
        for part in (blocks[:parted], blocks[parted:]):
            history.append(said("user", *part) if part else said("user", ""))
            if draw(st.booleans()):
                history.append(said("system", draw(st.text(max_size=3))))
        asked = [f"t{turn}_{number}" for number in range(draw(st.integers(0, 2)))]
        thinking = {"type": "thinking", "thinking": "SECRET", "signature": "s"}
        answer = [*draw(st.lists(_TEXT | st.just(thinking), max_size=2)), *(use(identity, x=1) for identity in asked)]
        history.append({"role": "assistant", "content": answer or draw(st.text(max_size=3))})
    return history if not asked else [*history, said("user", *(result(identity, "r") for identity in asked))]


@given(histories(), _SYSTEM, st.sampled_from(["drop", "reasoning_content"]))
def test_turns_alternate_and_results_stand_next_to_their_calls(
    history: list[dict[str, Any]], system: Any, reasoning: str
) -> None:
    found = messages(*history, system=system, reasoning_history=reasoning)
    assert [message["role"] for message in found].count("system") <= 1
    if found[0]["role"] == "system":
        found = found[1:]
    waiting: list[str] = []
    last = ""
    for message in found:
        role = message["role"]
        if role == "tool":
            waiting.remove(message["tool_call_id"])
            assert last in {"assistant", "tool"}
        else:
            assert not waiting
            assert role != last
            assert role in {"user", "assistant"}
        waiting += [call["id"] for call in message.get("tool_calls", ())]
        assert "SECRET" not in json.dumps(message.get("content"))
        last = role
    assert not waiting


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
_KINDS = ("text", "image", "document", "search_result", "tool_use", "tool_result", "thinking", "server_tool_use", "x")
_HOSTILE_BLOCK = st.fixed_dictionaries(
    {"type": st.sampled_from(_KINDS) | _ANY},
    optional={
        key: _ANY
        | st.sampled_from(["x", [text("x")], {"type": "text", "data": "x"}, {"type": "content", "content": [5]}])
        for key in ("text", "source", "content", "id", "name", "input", "tool_use_id", "thinking", "title", "is_error")
    },
)
_HOSTILE_MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system"]) | _ANY},
    optional={"content": st.lists(_HOSTILE_BLOCK, max_size=3) | _ANY},
)
_HOSTILE = st.fixed_dictionaries(
    {"model": st.just("m"), "messages": st.lists(_HOSTILE_MESSAGE, max_size=3) | _ANY},
    optional={
        **dict.fromkeys(("system", "stop_sequences", "stream", "temperature", "tool_choice", "tools"), _ANY),
        "tools": st.lists(st.just(TOOL) | _ANY, max_size=2),
    },
)


@given(_HOSTILE, st.sampled_from(["reject", "drop"]))
def test_a_hostile_body_is_translated_or_refused(found: dict[str, Any], server_tools: str) -> None:
    with suppress(BadRequest):
        assert sent(json.dumps(found).encode(), server_tools=server_tools)["messages"]


@given(st.binary(max_size=100))
def test_bytes_of_any_kind_are_refused(data: bytes) -> None:
    refusal(data)
