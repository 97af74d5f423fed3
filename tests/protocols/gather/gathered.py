"""Streams of whole answers, and what they must become, for all surfaces."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from llmgate.protocols.gather.gathering import Gathering
from llmgate.protocols.gather.gatherings import gathering_of
from tests.protocols.translate.openai_streams import DONE, chunk, say, sse, think, tool

CHAT, COMPLETIONS, MESSAGES = "/v1/chat/completions", "/v1/completions", "/v1/messages"
RESPONSES, OLLAMA_CHAT, GENERATE = "/v1/responses", "/api/chat", "/api/generate"
PATHS = (CHAT, COMPLETIONS, MESSAGES, RESPONSES, OLLAMA_CHAT, GENERATE)

RECORDED = {path.stem: json.loads(path.read_text()) for path in sorted((Path(__file__).parent / "recorded").iterdir())}
"""From a real llama-server (build 10434): the stream, and the whole answer to the same request."""


def gathering(path: str) -> Gathering:
    found = gathering_of(path)
    assert found is not None
    return found


def gather(path: str, *pieces: bytes) -> Any:
    """The document."""
    found = gathering(path)
    for piece in pieces:
        found.feed(piece)
    return json.loads(found.end())


def events(*documents: dict[str, Any]) -> bytes:
    """Named by their type, as Anthropic and Responses do it."""
    return b"".join(b"event: %s\ndata: %s\n\n" % (one["type"].encode(), json.dumps(one).encode()) for one in documents)


def lines(*documents: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(document).encode() + b"\n" for document in documents)


def cut_anywhere(stream: bytes) -> Iterator[bytes]:
    """The beginnings of a stream, all but the whole of it."""
    return (stream[:place] for place in range(len(stream)))


def call_piece(*entries: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return chunk({"tool_calls": list(entries)}, finish)


def start(**message: Any) -> dict[str, Any]:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 1}
    whole = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "m", "usage": usage}
    return {"type": "message_start", "message": {**whole, "stop_reason": None, "stop_sequence": None, **message}}


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> Iterable[dict[str, Any]]:
    yield {"type": "content_block_start", "index": index, "content_block": start}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def stop(reason: str = "end_turn", **more: Any) -> list[dict[str, Any]]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}, **more},
        {"type": "message_stop"},
    ]


def text_choice(text: str, finish: str | None = None, **choice: Any) -> dict[str, Any]:
    choices = [{"text": text, "index": 0, "logprobs": None, "finish_reason": finish, **choice}]
    return {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m", "choices": choices}


def response(status: str = "completed", **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
    return {"id": "resp_1", "object": "response", "status": status, "output": [], "usage": usage, **more}


_DURATIONS = {"total_duration": 4_883_583_458, "prompt_eval_count": 26, "eval_count": 282, "eval_duration": 4_535_599}
_AT = {"model": "llama3.2", "created_at": "2023-08-04T08:52:19.385406455-07:00"}

STREAMS: dict[str, bytes] = {
    CHAT: sse(
        chunk({"role": "assistant", "content": None}),
        think("hm"),
        say("Héllo "),
        say("world 😀"),
        call_piece(tool(0, "f", '{"a":', id="call_a", type="function")),
        call_piece(tool(0, None, "1}")),
        chunk({}, "tool_calls"),
        {**chunk(), "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}},
        DONE,
    ),
    COMPLETIONS: sse(text_choice("Once "), text_choice("upon ä"), text_choice("", "length"), DONE),
    MESSAGES: events(
        start(),
        {"type": "ping"},
        *block(
            0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Hé"}, {"type": "text_delta", "text": "y"}
        ),
        *block(
            1,
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"a":'},
            {"type": "input_json_delta", "partial_json": "1}"},
        ),
        *stop("tool_use"),
    ),
    RESPONSES: events(
        {"type": "response.created", "response": response("in_progress", usage=None)},
        {"type": "response.output_text.delta", "delta": "Hé"},
        {"type": "response.completed", "response": response(output=[{"type": "message", "text": "Hé"}])},
    ),
    OLLAMA_CHAT: lines(
        {**_AT, "message": {"role": "assistant", "content": "The "}, "done": False},
        {**_AT, "message": {"role": "assistant", "content": "ský"}, "done": False},
        {**_AT, "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop", **_DURATIONS},
    ),
    GENERATE: lines(
        {**_AT, "response": "The ", "done": False},
        {**_AT, "response": "ský", "done": False},
        {**_AT, "response": "", "done": True, "context": [1, 2, 3], **_DURATIONS},
    ),
}
"""One that ends regularly, for each surface."""
