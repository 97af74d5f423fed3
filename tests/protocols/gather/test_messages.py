"""Anthropic messages put together."""

import json
from typing import Any

import pytest

from llmgate.errors import UpstreamFailed
from llmgate.protocols.gather.messages import MessagesGathering
from tests.protocols.gather.gathered import MESSAGES, STREAMS, block, events, gather, gathering, start, stop

TEXT = {"type": "text", "text": ""}
SAY = {"type": "text_delta", "text": "a"}


def test_a_message() -> None:
    assert gather(MESSAGES, STREAMS[MESSAGES]) == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "text", "text": "Héy"},
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 9},
    }


def test_without_names() -> None:
    stream = STREAMS[MESSAGES]
    bare = b"\n".join(line for line in stream.split(b"\n") if not line.startswith(b"event:"))
    assert gather(MESSAGES, bare) == gather(MESSAGES, stream)
    foreign = stream.replace(b"event: content_block_delta", b"event: message")
    assert gather(MESSAGES, foreign) == gather(MESSAGES, stream)


def test_what_is_beside_the_delta_belongs_to_the_message() -> None:
    more = {"context_management": {"applied_edits": []}}
    ended = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "container": {"id": "c"}},
        "usage": None,
        **more,
    }
    found = gather(MESSAGES, events(start(), ended, {"type": "message_stop"}))
    assert found["context_management"] == {"applied_edits": []}
    assert found["container"] == {"id": "c"}
    assert found["usage"] == {"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 1}
    assert found["content"] == []


def test_usage_is_that_of_both_ends() -> None:
    usage = {"output_tokens": 4, "input_tokens": 6, "cache_read_input_tokens": None, "server_tool_use": {"n": 1}}
    ended = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}
    stream = events(start(), ended, {"type": "message_stop"})
    found = gathering(MESSAGES)
    found.feed(stream)
    assert (found.output_tokens, found.input_tokens) == (4, 6)
    told = {"input_tokens": 6, "cache_read_input_tokens": 2, "output_tokens": 4, "server_tool_use": {"n": 1}}
    assert json.loads(found.end())["usage"] == told


def test_tokens_of_a_cache_count() -> None:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 3, "output_tokens": 1}
    found = gathering(MESSAGES)
    found.feed(events(start(usage=usage), *block(0, TEXT, SAY, SAY)))
    assert (found.output_tokens, found.input_tokens) == (2, 10)


def test_no_usage() -> None:
    found = gathering(MESSAGES)
    ended = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    found.feed(events(start(usage=None), ended, {"type": "message_stop"}))
    assert (found.output_tokens, found.input_tokens) == (0, None)
    assert json.loads(found.end())["usage"] == {}


def test_blocks_stand_in_the_order_of_their_beginning() -> None:
    first, second, again = block(1, TEXT, SAY), block(0, TEXT, SAY, SAY), block(1, TEXT)
    found = gather(MESSAGES, events(start(), *first, *second, *again, *stop()))
    assert [one["text"] for one in found["content"]] == ["a", "aa", ""]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "message_start", "message": 5},
        {"type": "content_block_start", "index": "0", "content_block": TEXT},
        {"type": "content_block_start", "index": 0},
        {"type": "content_block_delta", "index": 1, "delta": SAY},
        {"type": "content_block_delta", "index": 0, "delta": "a"},
        {"type": "message_delta", "delta": None},
    ],
)
def test_what_makes_no_sense_cannot_be_read(event: dict[str, Any]) -> None:
    with pytest.raises(UpstreamFailed, match="cannot be read"):
        gather(MESSAGES, events(start(), *block(0, TEXT), event, *stop()))


@pytest.mark.parametrize("event", [{"type": "ping"}, {"type": "content_block_stop"}, {"type": "new"}, {"type": 5}, {}])
def test_what_is_not_known_is_skipped(event: dict[str, Any]) -> None:
    stream = b"event: other\ndata: " + json.dumps(event).encode() + b"\n\n"
    assert gather(MESSAGES, stream + STREAMS[MESSAGES]) == gather(MESSAGES, STREAMS[MESSAGES])


def test_a_message_that_has_not_begun() -> None:
    with pytest.raises(UpstreamFailed, match="without a message"):
        gather(MESSAGES, events({"type": "message_stop"}))


def test_done_is_no_end_of_a_message() -> None:
    with pytest.raises(UpstreamFailed, match="before the answer was complete"):
        gather(MESSAGES, events(start()) + b"data: [DONE]\n\n")


def test_each_block_counts() -> None:
    found = MessagesGathering(limit=20_000)
    found.feed(events(start(), *(event for index in range(20) for event in block(index, TEXT))))
    assert found.failed


@pytest.mark.parametrize("deltas", [[], [{"stop_reason": None}], [{"stop_reason": ""}], [{}], [{"stop_reason": 5}]])
def test_without_a_reason_there_is_no_message(deltas: list[dict[str, Any]]) -> None:
    told = [{"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}} for delta in deltas]
    with pytest.raises(UpstreamFailed, match="before the answer was complete"):
        gather(MESSAGES, events(start(), *block(0, TEXT, SAY), *told, {"type": "message_stop"}))


CALL = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
HALF = {"type": "input_json_delta", "partial_json": '{"a":'}


@pytest.mark.parametrize("reason", ["end_turn", "tool_use", "stop_sequence"])
def test_half_a_call_is_no_message_that_is_told_to_be_whole(reason: str) -> None:
    with pytest.raises(UpstreamFailed, match="no JSON"):
        gather(MESSAGES, events(start(), *block(0, CALL, HALF), *stop(reason)))


def test_half_a_call_of_a_message_that_was_cut_short_is_empty() -> None:
    found = gather(MESSAGES, events(start(), *block(0, CALL, HALF), *stop("max_tokens")))
    assert found["content"] == [CALL]
