"""What the simulated server reads of a request."""

import json
from typing import Any

import pytest

from llmgate.simulator.call import BadCall, Dialect, as_json, named_event, read_call
from llmgate.simulator.dialects import COMPLETIONS, OPENAI
from llmgate.simulator.ollama import OLLAMA_CHAT, OLLAMA_GENERATE
from llmgate.simulator.responses import RESPONSES

BODIES = [
    pytest.param(OPENAI, {"messages": []}, id="chat"),
    pytest.param(COMPLETIONS, {"prompt": "hi"}, id="completions"),
    pytest.param(RESPONSES, {"input": "hi"}, id="responses"),
    pytest.param(RESPONSES, {"input": [{"role": "user", "content": "hi"}]}, id="responses-list"),
    pytest.param(OLLAMA_CHAT, {"messages": []}, id="ollama-chat"),
    pytest.param(OLLAMA_GENERATE, {"prompt": ""}, id="ollama-generate"),
]


def read(dialect: Dialect, fields: dict[str, Any]) -> Any:
    return read_call(json.dumps({"model": "m", **fields}).encode(), "id-1", 5, dialect)


@pytest.mark.parametrize(("dialect", "fields"), BODIES)
def test_each_dialect_reads_its_own_field(dialect: Dialect, fields: dict[str, Any]) -> None:
    one = read(dialect, fields)
    assert (one.id, one.model, one.tokens, one.cut) == ("id-1", "m", 5, False)
    assert one.stream is (dialect in (OLLAMA_CHAT, OLLAMA_GENERATE))
    assert read(dialect, fields | {"stream": True}).stream
    assert not read(dialect, fields | {"stream": False}).stream


@pytest.mark.parametrize(
    "limit",
    [
        {"max_tokens": 2},
        {"max_completion_tokens": 2},
        {"max_output_tokens": 2},
        {"options": {"num_predict": 2}},
        {"max_tokens": None, "max_completion_tokens": 2},
    ],
)
def test_the_request_may_lower_the_number_of_tokens(limit: dict[str, Any]) -> None:
    one = read(OPENAI, {"messages": [], **limit})
    assert (one.tokens, one.cut) == (2, True)
    assert one.words == ["The ", "queue "]


@pytest.mark.parametrize("limit", [0, -1, 99, "many", None])
def test_a_limit_that_limits_nothing_is_passed_over(limit: object) -> None:
    for fields in ({"max_tokens": limit}, {"options": {"num_predict": limit}}, {"options": limit}):
        one = read(OPENAI, {"messages": [], **fields})
        assert (one.tokens, one.cut) == (5, False)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"messages":"hi"}', b'{"prompt":5}', b"[" * 100_000])
@pytest.mark.parametrize("dialect", [OPENAI, COMPLETIONS, RESPONSES])
def test_a_bad_body_is_no_call(body: bytes, dialect: Dialect) -> None:
    with pytest.raises(BadCall):
        read_call(body, "id-1", 5, dialect)


def test_bytes() -> None:
    assert as_json({"a": [1, "b"]}) == b'{"a":[1,"b"]}'
    assert named_event("x.y", n=1) == b'event: x.y\ndata: {"type":"x.y","n":1}\n\n'
