"""The simulated server's Ollama: lines of JSON."""

import json
from typing import Any

import pytest

from llmgate.simulator.call import Call, Dialect, read_call
from llmgate.simulator.ollama import OLLAMA_CHAT, OLLAMA_GENERATE

DIALECTS = pytest.mark.parametrize(
    ("dialect", "prompt"),
    [(OLLAMA_CHAT, {"messages": []}), (OLLAMA_GENERATE, {"prompt": "hi"})],
    ids=["chat", "generate"],
)


def call(dialect: Dialect, prompt: dict[str, Any], **options: int) -> Call:
    return read_call(json.dumps({"model": "m", **prompt, "options": options}).encode(), "id-1", 5, dialect)


def text_of(part: Any) -> str:
    return str(part["message"]["content"] if "message" in part else part["response"])


@DIALECTS
def test_a_stream_is_a_line_for_each_part(dialect: Dialect, prompt: dict[str, Any]) -> None:
    one = call(dialect, prompt)
    assert dialect.stream_type == "application/x-ndjson"
    stream = dialect.head(one) + b"".join(dialect.token(one, word) for word in one.words) + dialect.tail(one)
    parts = [json.loads(line) for line in stream.splitlines()]
    assert [part["done"] for part in parts] == [False] * 5 + [True]
    assert "".join(map(text_of, parts)) == "".join(one.words)
    assert (parts[-1]["done_reason"], parts[-1]["eval_count"]) == ("stop", 5)
    assert stream.endswith(b"}\n")


@DIALECTS
def test_the_whole_carries_the_text(dialect: Dialect, prompt: dict[str, Any]) -> None:
    one = call(dialect, prompt, num_predict=2)
    whole = json.loads(dialect.whole(one))
    assert (text_of(whole), whole["done"], whole["done_reason"]) == ("The queue ", True, "length")


def test_errors_are_text() -> None:
    assert json.loads(OLLAMA_CHAT.error(404, "no")) == {"error": "no"}
