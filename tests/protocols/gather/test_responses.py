"""OpenAI Responses: the last event has all of it."""

import json
from typing import Any

import pytest

from llmgate.errors import UpstreamFailed
from tests.protocols.gather.gathered import RESPONSES, STREAMS, events, gather, gathering, response


def last(status: str, **more: Any) -> dict[str, Any]:
    return {"type": f"response.{status}", "response": response(status), **more}


@pytest.mark.parametrize("status", ["completed", "incomplete", "failed"])
def test_the_last_event(status: str) -> None:
    stream = events(
        {"type": "response.created", "response": response("in_progress")},
        {"type": "response.output_text.delta", "delta": "a"},
        last(status),
    )
    assert gather(RESPONSES, stream) == response(status)


def test_without_names() -> None:
    stream = STREAMS[RESPONSES]
    bare = b"\n".join(line for line in stream.split(b"\n") if not line.startswith(b"event:"))
    assert gather(RESPONSES, bare) == gather(RESPONSES, stream)
    assert gather(RESPONSES, stream.replace(b"event: response", b"event: x")) == gather(RESPONSES, stream)


def test_tokens() -> None:
    found = gathering(RESPONSES)
    delta = {"type": "response.output_text.delta"}
    found.feed(events(delta, {"type": "response.reasoning_text.delta"}, {"type": "response.output_text.done"}))
    assert (found.output_tokens, found.input_tokens) == (2, None)
    found.feed(events(last("completed")))
    assert (found.output_tokens, found.input_tokens) == (3, 7)


def test_no_usage() -> None:
    found = gathering(RESPONSES)
    found.feed(events({"type": "response.completed", "response": {"usage": None}}))
    assert (found.output_tokens, found.input_tokens) == (0, None)
    assert json.loads(found.end()) == {"usage": None}


@pytest.mark.parametrize("event", [{}, {"response": None}, {"response": [1]}])
def test_an_end_without_a_response(event: dict[str, Any]) -> None:
    with pytest.raises(UpstreamFailed, match="cannot be read"):
        gather(RESPONSES, events({"type": "response.completed", **event}))


def test_an_error_event() -> None:
    with pytest.raises(UpstreamFailed, match="slot lost"):
        gather(RESPONSES, events({"type": "error", "message": "slot lost"}, last("completed")))


REASONING = {"type": "reasoning", "content": []}
SAID = {"type": "message", "content": []}


@pytest.mark.parametrize(
    ("found", "whole"),
    [
        (
            {"created_at": 5, "output": [REASONING, SAID, "x"]},
            {"created_at": 5, "completed_at": 5, "output": [{**REASONING, "status": "completed"}, SAID, "x"]},
        ),
        (
            {"created_at": 5, "completed_at": 6, "output": [{**REASONING, "status": "incomplete"}]},
            {"created_at": 5, "completed_at": 6, "output": [{**REASONING, "status": "incomplete"}]},
        ),
        ({"output": None}, {"output": None}),
    ],
)
def test_what_llama_server_leaves_out_in_a_stream(found: dict[str, Any], whole: dict[str, Any]) -> None:
    end = {"type": "response.completed", "response": found}
    assert gather(RESPONSES, events({**end, "timings": {}})) == whole
    assert gather(RESPONSES, events(end)) == found


def test_half_a_pair() -> None:
    end = {"type": "response.completed", "response": {"output": ["\ud83d", "\ud83d\ude00"]}}
    assert gather(RESPONSES, events(end)) == {"output": ["�", "😀"]}
