"""What a simulated server says: the bodies of Anthropic Messages and OpenAI chat completions, written without our own
protocol code, so that the two can be held against each other.

Sources: Anthropic "Streaming Messages" (order of events), OpenAI "Chat completion chunk object", llama-server.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

WORDS = ["The", "queue", "is", "short", "and", "the", "answer", "is", "long,", "so", "wait", "for", "your", "turn."]


@dataclass(frozen=True)
class Call:
    """One request as a server reads it."""

    id: str
    model: str
    stream: bool
    tokens: int
    cut: bool
    """True when the request's own max_tokens ends the answer."""
    prompt_tokens: int
    include_usage: bool = False

    @property
    def words(self) -> list[str]:
        return [WORDS[number % len(WORDS)] + " " for number in range(self.tokens)]


class BadCall(Exception):
    """The body is no request; the message says why."""


def read_call(body: bytes, call_id: str, tokens: int) -> Call:
    """Read either dialect's request; `tokens` is how many the server would say."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise BadCall("the body is not JSON") from None
    if not isinstance(fields, dict) or not isinstance(fields.get("messages"), list):
        raise BadCall("'messages' is required")
    limit = fields.get("max_tokens") or fields.get("max_completion_tokens")
    if not isinstance(limit, int) or limit < 1:
        limit = tokens
    options = fields.get("stream_options")
    return Call(
        id=call_id,
        model=str(fields.get("model", "")),
        stream=fields.get("stream") is True,
        tokens=min(limit, tokens),
        cut=limit < tokens,
        prompt_tokens=max(1, len(body) // 4),
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
    )


@dataclass(frozen=True)
class Dialect:
    """How one surface answers: `head`, a `token` for each word and `tail` make a stream; `whole` is the JSON."""

    head: Callable[[Call], bytes]
    token: Callable[[Call, str], bytes]
    tail: Callable[[Call], bytes]
    whole: Callable[[Call], bytes]
    error: Callable[[int, str], bytes]


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _event(name: str, **fields: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + _json({"type": name, **fields}) + b"\n\n"


def _message(call: Call, **fields: Any) -> dict[str, Any]:
    usage = {"input_tokens": call.prompt_tokens, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    return {
        "id": f"msg_{call.id}",
        "type": "message",
        "role": "assistant",
        "model": call.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage | {"output_tokens": 0},
        **fields,
    }


def _stop_reason(call: Call) -> str:
    return "max_tokens" if call.cut else "end_turn"


def _anthropic_head(call: Call) -> bytes:
    block = {"type": "text", "text": ""}
    return _event("message_start", message=_message(call)) + _event("content_block_start", index=0, content_block=block)


def _anthropic_token(_call: Call, word: str) -> bytes:
    return _event("content_block_delta", index=0, delta={"type": "text_delta", "text": word})


def _anthropic_tail(call: Call) -> bytes:
    delta = {"stop_reason": _stop_reason(call), "stop_sequence": None}
    end = _event("message_delta", delta=delta, usage={"output_tokens": call.tokens})
    return _event("content_block_stop", index=0) + end + _event("message_stop")


def _anthropic_whole(call: Call) -> bytes:
    content = [{"type": "text", "text": "".join(call.words)}]
    usage = {"input_tokens": call.prompt_tokens, "output_tokens": call.tokens}
    return _json(_message(call, content=content, stop_reason=_stop_reason(call), usage=usage))


def _anthropic_error(status: int, message: str) -> bytes:
    kind = {400: "invalid_request_error", 404: "not_found_error", 429: "rate_limit_error", 529: "overloaded_error"}
    return _json({"type": "error", "error": {"type": kind.get(status, "api_error"), "message": message}})


def _finish_reason(call: Call) -> str:
    return "length" if call.cut else "stop"


def _openai_usage(call: Call) -> dict[str, int]:
    total = call.prompt_tokens + call.tokens
    return {"prompt_tokens": call.prompt_tokens, "completion_tokens": call.tokens, "total_tokens": total}


def _openai_object(call: Call, kind: str, choices: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{call.id}",
        "object": kind,
        "created": 0,
        "model": call.model,
        "choices": choices,
        **fields,
    }


def _openai_chunk(call: Call, delta: dict[str, str], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return b"data: " + _json(_openai_object(call, "chat.completion.chunk", [choice])) + b"\n\n"


def _openai_head(call: Call) -> bytes:
    return _openai_chunk(call, {"role": "assistant", "content": ""})


def _openai_token(call: Call, word: str) -> bytes:
    return _openai_chunk(call, {"content": word})


def _openai_tail(call: Call) -> bytes:
    end = _openai_chunk(call, {}, _finish_reason(call))
    if call.include_usage:
        chunk = _openai_object(call, "chat.completion.chunk", [], usage=_openai_usage(call))
        end += b"data: " + _json(chunk) + b"\n\n"
    return end + b"data: [DONE]\n\n"


def _openai_whole(call: Call) -> bytes:
    message = {"role": "assistant", "content": "".join(call.words)}
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(call)}
    return _json(_openai_object(call, "chat.completion", [choice], usage=_openai_usage(call)))


def _openai_error(status: int, message: str) -> bytes:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return _json({"error": {"message": message, "type": kind, "param": None, "code": None}})


ANTHROPIC = Dialect(_anthropic_head, _anthropic_token, _anthropic_tail, _anthropic_whole, _anthropic_error)
OPENAI = Dialect(_openai_head, _openai_token, _openai_tail, _openai_whole, _openai_error)
DIALECTS = {"/v1/messages": ANTHROPIC, "/v1/chat/completions": OPENAI}
