"""What a server says on each surface but Messages and chat, by its path: a small answer as a stream and as a whole."""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Spoken:
    """`start` ends before the stream's end, `rest` with it; b"" where the surface has no stream."""

    whole: bytes
    start: bytes = b""
    rest: bytes = b""
    content_type: bytes = b"text/event-stream"

    @property
    def stream(self) -> bytes:
        return self.start + self.rest


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _completion(text: str, finish_reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish_reason}
    return {"id": "c1", "object": "text_completion", "created": 0, "model": "m", "choices": [choice]}


def _data(value: dict[str, Any]) -> bytes:
    return b"data: " + _json(value) + b"\n\n"


def _event(name: str, **fields: Any) -> bytes:
    return f"event: {name}\n".encode() + _data({"type": name, **fields})


_TEXT = {"type": "output_text", "text": "Hello", "annotations": []}
_MESSAGE = {"id": "i", "type": "message", "role": "assistant", "status": "completed", "content": [_TEXT]}
_PLACE = {"item_id": "i", "output_index": 0, "content_index": 0}
_USAGE = {
    "input_tokens": 3,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 2,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 5,
}


def _response(status: str, **fields: Any) -> dict[str, Any]:
    empty = {"output": [], "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {"id": "r1", "object": "response", "created_at": 0, "model": "m", "status": status, **empty, **fields}


def _part(content: dict[str, Any], **fields: Any) -> bytes:
    return _json({"model": "m", "created_at": "2026-11-30T10:20:30Z", **content, "done": False, **fields})


_CHAT = {"message": {"role": "assistant", "content": "Hello"}}
_CHAT_END = {"message": {"role": "assistant", "content": ""}}
_END = {"done": True, "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 2}
_ENDED = _response("completed", output=[_MESSAGE], usage=_USAGE)

NDJSON = b"application/x-ndjson"
AFTER_ERROR = {"/v1/completions": b"data: [DONE]", "/v1/responses": b"event: response.failed"}
"""With what the frame behind an error in a stream begins, by path; elsewhere the error is the last."""
SPOKEN = {
    "/v1/completions": Spoken(
        _json(_completion("Hello", "stop")),
        _data(_completion("Hello")),
        _data(_completion("", "stop")) + b"data: [DONE]\n\n",
    ),
    "/v1/responses": Spoken(
        _json(_ENDED),
        _event("response.created", sequence_number=0, response=_response("in_progress"))
        + _event("response.output_item.added", sequence_number=1, output_index=0, item={**_MESSAGE, "content": []})
        + _event("response.content_part.added", sequence_number=2, part={**_TEXT, "text": ""}, **_PLACE)
        + _event("response.output_text.delta", sequence_number=3, delta="Hello", logprobs=[], **_PLACE),
        _event("response.output_text.done", sequence_number=4, text="Hello", logprobs=[], **_PLACE)
        + _event("response.completed", sequence_number=5, response=_ENDED),
    ),
    "/v1/embeddings": Spoken(
        _json({"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [1]}]})
    ),
    "/v1/messages/count_tokens": Spoken(_json({"input_tokens": 3})),
    "/v1/rerank": Spoken(_json({"results": [{"index": 0, "relevance_score": 1.0}]})),
    "/api/chat": Spoken(_part(_CHAT, **_END), _part(_CHAT) + b"\n", _part(_CHAT_END, **_END) + b"\n", NDJSON),
    "/api/generate": Spoken(
        _part({"response": "Hello"}, **_END),
        _part({"response": "Hello"}) + b"\n",
        _part({"response": ""}, **_END) + b"\n",
        NDJSON,
    ),
    "/api/embed": Spoken(_json({"model": "m", "embeddings": [[1.0, 2.0]], "prompt_eval_count": 3})),
}
