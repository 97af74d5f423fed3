"""The simulated server's Responses, against the official SDK's own types."""

import json
from typing import Any

import pytest
from openai.types.responses import Response

from llmgate.simulator.call import Call, read_call
from llmgate.simulator.responses import RESPONSES


def call(**fields: Any) -> Call:
    return read_call(json.dumps({"model": "m", "input": "hi", **fields}).encode(), "id-1", 5, RESPONSES)


def events(one: Call) -> list[Any]:
    stream = RESPONSES.head(one) + b"".join(RESPONSES.token(one, word) for word in one.words) + RESPONSES.tail(one)
    return [json.loads(block.partition(b"data: ")[2]) for block in stream.split(b"\n\n")[:-1]]


@pytest.mark.parametrize(("limit", "status"), [(99, "completed"), (2, "incomplete")])
def test_a_stream_has_the_whole_order_of_events(limit: int, status: str) -> None:
    one = call(max_output_tokens=limit)
    told = events(one)
    names = [event["type"].removeprefix("response.") for event in told]
    begun = ["created", "in_progress", "output_item.added", "content_part.added"]
    ended = ["output_text.done", "content_part.done", "output_item.done", status]
    assert names == begun + ["output_text.delta"] * one.tokens + ended
    assert "".join(event["delta"] for event in told[4:-4]) == told[-4]["text"] == "".join(one.words)
    last = Response.model_validate(told[-1]["response"])
    assert (last.status, last.output_text) == (status, "".join(one.words))
    assert last.usage is not None
    assert last.usage.output_tokens == one.tokens


def test_the_whole_is_what_the_stream_ends_with() -> None:
    one = call()
    assert json.loads(RESPONSES.whole(one)) == events(one)[-1]["response"]
