"""The simulated server's bytes: whole Anthropic and OpenAI answers."""

import json
from typing import Any

import pytest

from llmgate.simulator.call import Call, Dialect, read_call
from llmgate.simulator.dialects import ANTHROPIC, COMPLETIONS, OPENAI


def call(**fields: Any) -> Call:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]} | fields
    return read_call(json.dumps(body).encode(), "id-1", 5, OPENAI)


def stream(dialect: Dialect, one: Call) -> bytes:
    return dialect.head(one) + b"".join(dialect.token(one, word) for word in one.words) + dialect.tail(one)


def events(data: bytes) -> list[tuple[str, Any]]:
    parsed = []
    for block in data.decode().split("\n\n")[:-1]:
        lines = dict(line.split(": ", 1) for line in block.split("\n"))
        parsed.append((lines.get("event", ""), lines["data"]))
    return parsed


def test_an_anthropic_stream_has_the_whole_order_of_events() -> None:
    parsed = [(name, json.loads(data)) for name, data in events(stream(ANTHROPIC, call(stream=True)))]
    deltas = ["content_block_delta"] * 5
    ends = ["content_block_stop", "message_delta", "message_stop"]
    assert [name for name, _ in parsed] == ["message_start", "content_block_start", *deltas, *ends]
    assert all(data["type"] == name for name, data in parsed)
    assert parsed[0][1]["message"]["content"] == []
    assert parsed[-2][1]["delta"]["stop_reason"] == "end_turn"
    assert parsed[-2][1]["usage"]["output_tokens"] == 5


def test_an_anthropic_answer_carries_the_same_text_as_its_stream() -> None:
    one = call()
    streamed = "".join(
        json.loads(data)["delta"]["text"]
        for name, data in events(stream(ANTHROPIC, one))
        if name == "content_block_delta"
    )
    assert json.loads(ANTHROPIC.whole(one))["content"] == [{"type": "text", "text": streamed}]


def test_an_openai_stream_has_role_text_reason_and_done() -> None:
    parsed = [data for _, data in events(stream(OPENAI, call(stream=True, max_tokens=2)))]
    assert parsed.pop() == "[DONE]"
    choices = [json.loads(data)["choices"][0] for data in parsed]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert [choice["delta"].get("content") for choice in choices[1:-1]] == call(max_tokens=2).words
    assert choices[-1] == {"index": 0, "delta": {}, "finish_reason": "length"}


def test_openai_usage_comes_only_when_asked_for() -> None:
    assert b"usage" not in stream(OPENAI, call(stream=True))
    asked = call(stream=True, stream_options={"include_usage": True})
    last = json.loads(events(stream(OPENAI, asked))[-2][1])
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 5


@pytest.mark.parametrize("limit", [{"max_tokens": 2}, {"max_completion_tokens": 2}])
def test_the_request_may_lower_the_number_of_tokens(limit: dict[str, int]) -> None:
    one = call(**limit)
    assert json.loads(ANTHROPIC.whole(one))["stop_reason"] == "max_tokens"
    assert json.loads(OPENAI.whole(one))["choices"][0]["finish_reason"] == "length"


def test_a_completion_has_text_reason_and_done() -> None:
    one = call(stream=True)
    parsed = [data for _, data in events(stream(COMPLETIONS, one))]
    assert parsed.pop() == "[DONE]"
    choices = [json.loads(data)["choices"][0] for data in parsed]
    assert "".join(choice["text"] for choice in choices) == "".join(one.words)
    assert [choice["finish_reason"] for choice in choices] == [None] * 5 + ["stop"]
    whole = json.loads(COMPLETIONS.whole(one))
    assert (whole["choices"][0]["text"], whole["usage"]["completion_tokens"]) == ("".join(one.words), 5)


def test_errors_have_the_shape_of_their_surface() -> None:
    assert json.loads(ANTHROPIC.error(404, "no"))["error"] == {"type": "not_found_error", "message": "no"}
    assert json.loads(ANTHROPIC.error(503, "no"))["error"]["type"] == "api_error"
    assert json.loads(OPENAI.error(400, "no"))["error"]["type"] == "invalid_request_error"
    assert json.loads(OPENAI.error(500, "no"))["error"]["type"] == "server_error"
