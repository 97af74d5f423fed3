"""The answer that is not streamed: every row of the mapping, and that it says the same as the stream."""

import json
from itertools import zip_longest
from typing import Any

import pytest
from anthropic_message import seen_in
from hypothesis import given
from hypothesis import strategies as st

from llmgate.errors import UpstreamFailed
from llmgate.protocols.translate.answer import answer
from llmgate.protocols.translate.asked import Asked
from llmgate.protocols.translate.stream import MessageStream
from tests.protocols.translate.openai_streams import DONE, USAGE, chunk, sse, text, thinking, told, tool, use

ASKED = Asked(model="asked", stop_sequences=("END",), input_estimate=11)


def body(message: Any, finish: Any = "stop", usage: Any = USAGE, **choice: Any) -> dict[str, Any]:
    choices = [{"index": 0, "finish_reason": finish, "message": message, **choice}]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": choices,
        "usage": usage,
    }


def answered(found: dict[str, Any], asked: Asked = ASKED) -> dict[str, Any]:
    message = json.loads(answer(json.dumps(found).encode(), asked, "req_1"))
    assert isinstance(message, dict)
    return message


def content(message: dict[str, Any], finish: str = "stop") -> list[dict[str, Any]]:
    found = answered(body({"role": "assistant", **message}, finish))["content"]
    for block in found:
        assert block["type"] != "thinking" or block.pop("signature")
    return list(found)


def reason(finish: Any, **message: Any) -> tuple[str, str | None]:
    choice = message.pop("choice", {})
    found = answered(body({"content": "a", **message}, finish, **choice))
    return found["stop_reason"], found["stop_sequence"]


def test_the_whole_message() -> None:
    assert answered(body({"role": "assistant", "content": "ok"})) == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "asked",
        "content": [{"type": "text", "text": "ok"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 7, "output_tokens": 3},
    }


@pytest.mark.parametrize(("model", "shown"), [("m", "m"), (None, ""), (5, ""), ("\ud83d", "\ufffd")])
def test_the_upstreams_model_is_shown_where_none_was_asked(model: Any, shown: str) -> None:
    assert answered({**body({"content": "a"}), "model": model}, Asked())["model"] == shown


@pytest.mark.parametrize(
    ("message", "blocks"),
    [
        ({"content": "a"}, [text("a")]),
        ({"content": ""}, []),
        ({"content": None}, []),
        ({}, []),
        ({"content": "a", "reasoning_content": "r"}, [thinking("r"), text("a")]),
        ({"content": "a", "reasoning": "r"}, [thinking("r"), text("a")]),
        ({"content": "a", "reasoning": "r", "reasoning_content": "r"}, [thinking("r"), text("a")]),
        ({"content": None, "refusal": "no"}, [text("no")]),
        (
            {"content": [{"type": "thinking", "thinking": [text("r")]}, text("a"), text("b"), text("")]},
            [thinking("r"), text("ab")],
        ),
        ({"content": "a\ud83d\ude00\ud83d"}, [text("a\U0001f600\ufffd")]),
        (
            {"content": "a", "tool_calls": [tool(None, "f", '{"a":1}', id="x"), tool(None, "g", "", id="y")]},
            [text("a"), use("x", "f", a=1), use("y", "g")],
        ),
        ({"tool_calls": [tool(None, "f", {"a": 1}, id="x")]}, [use("x", "f", a=1)]),
        ({"tool_calls": [tool(None, "f", {"a": "\ud83d"}, id="x")]}, [use("x", "f", a="\ud83d")]),
        ({"tool_calls": [tool(None, "f", '"{\\"a\\":1}"', id="x")]}, [use("x", "f", a=1)]),
        ({"tool_calls": [tool(None, "f", "null", id="x")]}, [use("x", "f")]),
        ({"tool_calls": [tool(None, "f", ' {"a":1} \n', id="x")]}, [use("x", "f", a=1)]),
        ({"tool_calls": [tool(0, "f", "{}"), tool(0, "g", "{}")]}, [use("toolu_1_1", "f"), use("toolu_1_2", "g")]),
        (
            {"tool_calls": [tool(0, "f", "{}", id="x"), tool(1, "g", "{}", id="x")]},
            [use("x", "f"), use("toolu_1_2", "g")],
        ),
        ({"tool_calls": [], "content": "a"}, [text("a")]),
        ({"tool_calls": [tool(0, "", "")], "content": "a"}, [text("a")]),
        ({"function_call": {"name": "f", "arguments": '{"a":1}'}}, [use("toolu_1_1", "f", a=1)]),
    ],
)
def test_content(message: dict[str, Any], blocks: list[dict[str, Any]]) -> None:
    assert content(message) == blocks


def test_numbers_in_arguments_are_kept() -> None:
    call = tool(0, "f", '{"a": 12345678901234567890123, "b": 1.0}', id="x")
    data = json.dumps(body({"tool_calls": [call]})).encode()
    assert b'"input":{"a": 12345678901234567890123, "b": 1.0}' in answer(data, ASKED, "r")


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_half_a_call_is_left_out_where_the_answer_was_cut(finish: str) -> None:
    whole = tool(0, "f", '{"a":1}', id="x")
    for half in (tool(1, "g", '{"b":', id="y"), tool(1, "g", "", id="y")):
        assert content({"content": "a", "tool_calls": [whole, half]}, finish) == [text("a"), use("x", "f", a=1)]


@pytest.mark.parametrize(
    ("finish", "told"),
    [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("max_tokens", "max_tokens"),
        ("model_length", "max_tokens"),
        ("content_filter", "refusal"),
        ("tool_calls", "end_turn"),
        ("function_call", "end_turn"),
        ("eos", "end_turn"),
        (None, "end_turn"),
        (5, "end_turn"),
    ],
)
def test_the_reason(finish: Any, told: str) -> None:
    assert reason(finish) == (told, None)


@pytest.mark.parametrize("finish", ["stop", "tool_calls", "function_call", "tool_use", None])
def test_the_reason_of_a_call(finish: Any) -> None:
    assert reason(finish, tool_calls=[tool(0, "f", "{}")]) == ("tool_use", None)


def test_a_refusal_is_the_reason() -> None:
    assert reason("stop", refusal="no") == ("refusal", None)
    assert reason("length", refusal="no") == ("max_tokens", None)


def test_a_stop_string_is_the_reason() -> None:
    assert reason("stop", choice={"stop_reason": "END"}) == ("stop_sequence", "END")
    assert reason("stop", choice={"matched_stop": "END"}) == ("stop_sequence", "END")
    assert reason("stop", choice={"stop_reason": "other"}) == ("end_turn", None)
    assert reason("stop", choice={"stop_reason": 5}) == ("end_turn", None)
    assert reason("length", choice={"stop_reason": "END"}) == ("max_tokens", None)
    assert reason("stop_sequence") == ("stop_sequence", "END")


@pytest.mark.parametrize(
    ("usage", "shown"),
    [
        (
            {"prompt_tokens": 25, "completion_tokens": 6, "prompt_tokens_details": {"cached_tokens": 20}},
            {"input_tokens": 5, "output_tokens": 6, "cache_read_input_tokens": 20},
        ),
        (None, {"input_tokens": 11, "output_tokens": 2}),
        ({"prompt_tokens": 7}, {"input_tokens": 7, "output_tokens": 2}),
        ({"completion_tokens": 6}, {"input_tokens": 11, "output_tokens": 6}),
    ],
)
def test_usage(usage: Any, shown: dict[str, int]) -> None:
    assert answered(body({"content": "x" * 8}, usage=usage))["usage"] == shown


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no JSON object"),
        (b"<html>", "no JSON object"),
        (b"[]", "no JSON object"),
        (b"{}", "without a message"),
        (b'{"choices":[]}', "without a message"),
        (b'{"choices":null}', "without a message"),
        (b'{"choices":[{"message":null}]}', "without a message"),
        (b'{"choices":[{"message":"x"}]}', "without a message"),
        (b'{"error":{"message":"out of memory"}}', "out of memory"),
        (b'{"error":"out of memory"}', "out of memory"),
        (b'{"object":"error","message":"out of memory"}', "out of memory"),
        (b'{"error":{"message":"with sk-12345678"}}', "with ***"),
        (json.dumps(body({"tool_calls": [tool(0, "f", "{a}")]})).encode(), "arguments are no JSON object"),
        (json.dumps(body({"tool_calls": [tool(0, "f", '{"a":')]})).encode(), "arguments are no JSON object"),
        (json.dumps(body({"tool_calls": [tool(0, "f", "{} {")]})).encode(), "arguments are no JSON object"),
        (json.dumps(body({"tool_calls": [tool(0, "", "{}")]})).encode(), "name is missing"),
        (json.dumps(body({"content": "a"}, "abort")).encode(), "broke its answer off"),
    ],
)
def test_what_is_no_answer(data: bytes, message: str) -> None:
    with pytest.raises(UpstreamFailed, match=message.replace("*", r"\*")):
        answer(data, ASKED, "req_1")


_ARGUMENTS = st.dictionaries(st.text(max_size=3), st.none() | st.text(max_size=3) | st.integers(), max_size=2)
_CALLS = st.lists(st.tuples(st.sampled_from(["f", "g"]), _ARGUMENTS), max_size=3)


@given(
    st.text(max_size=5), st.text(max_size=5), _CALLS, st.sampled_from(["stop", "length", "tool_calls"]), st.booleans()
)
def test_a_stream_says_the_same(
    reasoning: str, said: str, calls: list[tuple[str, dict[str, Any]]], finish: str, interleaved: bool
) -> None:
    entries = [tool(at, name, json.dumps(given), id=f"call_{at}") for at, (name, given) in enumerate(calls)]
    message = {"content": said, "reasoning_content": reasoning, "tool_calls": entries}
    pieces = [
        [tool(at, name, "", id=f"call_{at}"), *(tool(at, None, letter) for letter in json.dumps(given))]
        for at, (name, given) in enumerate(calls)
    ]
    rows = zip_longest(*pieces) if interleaved else pieces
    deltas = [piece for row in rows for piece in row if piece]
    stream = sse(
        *(chunk({"reasoning_content": letter}) for letter in reasoning),
        *(chunk({"content": letter}) for letter in said),
        *(chunk({"tool_calls": [delta]}) for delta in deltas),
        chunk({}, finish),
        told(),
        DONE,
    )
    watch = MessageStream(ASKED, "req_1")
    seen = seen_in(b"".join(watch.feed(stream) + watch.end()))
    whole = answered(body(message, finish))
    assert seen.faults == []
    assert (seen.content, seen.stop_reason, seen.usage) == (
        [{key: value for key, value in block.items() if key != "signature"} for block in whole["content"]],
        whole["stop_reason"],
        whole["usage"],
    )


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "content": _ANY
            | st.lists(st.fixed_dictionaries({"type": st.sampled_from(["text", "thinking"]), "text": _ANY})),
            "reasoning": _ANY,
            "refusal": _ANY,
            "tool_calls": st.lists(
                st.fixed_dictionaries(
                    {"id": _ANY, "function": st.fixed_dictionaries({"name": _ANY, "arguments": _ANY})}
                )
            ),
            "function_call": _ANY,
        },
    ),
    _ANY,
    _ANY,
)
def test_a_hostile_answer_is_translated_or_has_failed(message: dict[str, Any], finish: Any, usage: Any) -> None:
    try:
        found = answered(body(message, finish, usage))
    except UpstreamFailed:
        return
    assert {block["type"] for block in found["content"]} <= {"text", "thinking", "tool_use"}


@given(st.binary(max_size=100))
def test_bytes_of_any_kind_have_failed(data: bytes) -> None:
    with pytest.raises(UpstreamFailed):
        answer(data, ASKED, "req_1")
