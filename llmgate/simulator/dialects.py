"""What a simulated server says: the bodies of Anthropic Messages and of OpenAI's completions, of chat and of a prompt,
written without our own protocol code, so that the two can be held against each other.

Sources: Anthropic "Streaming Messages" (order of events), OpenAI "Chat completion chunk object", llama-server.
"""

from typing import Any

from llmgate.simulator.call import Call, Dialect, as_json, named_event


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
    return named_event("message_start", message=_message(call)) + named_event(
        "content_block_start", index=0, content_block=block
    )


def _anthropic_token(_call: Call, word: str) -> bytes:
    return named_event("content_block_delta", index=0, delta={"type": "text_delta", "text": word})


def _anthropic_tail(call: Call) -> bytes:
    delta = {"stop_reason": _stop_reason(call), "stop_sequence": None}
    end = named_event("message_delta", delta=delta, usage={"output_tokens": call.tokens})
    return named_event("content_block_stop", index=0) + end + named_event("message_stop")


def _anthropic_whole(call: Call) -> bytes:
    content = [{"type": "text", "text": "".join(call.words)}]
    usage = {"input_tokens": call.prompt_tokens, "output_tokens": call.tokens}
    return as_json(_message(call, content=content, stop_reason=_stop_reason(call), usage=usage))


def _anthropic_error(status: int, message: str) -> bytes:
    kind = {400: "invalid_request_error", 404: "not_found_error", 429: "rate_limit_error", 529: "overloaded_error"}
    return as_json({"type": "error", "error": {"type": kind.get(status, "api_error"), "message": message}})


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
    return b"data: " + as_json(_openai_object(call, "chat.completion.chunk", [choice])) + b"\n\n"


def _openai_head(call: Call) -> bytes:
    return _openai_chunk(call, {"role": "assistant", "content": ""})


def _openai_token(call: Call, word: str) -> bytes:
    return _openai_chunk(call, {"content": word})


def _openai_tail(call: Call) -> bytes:
    end = _openai_chunk(call, {}, _finish_reason(call))
    if call.include_usage:
        chunk = _openai_object(call, "chat.completion.chunk", [], usage=_openai_usage(call))
        end += b"data: " + as_json(chunk) + b"\n\n"
    return end + b"data: [DONE]\n\n"


def _openai_whole(call: Call) -> bytes:
    message = {"role": "assistant", "content": "".join(call.words)}
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(call)}
    return as_json(_openai_object(call, "chat.completion", [choice], usage=_openai_usage(call)))


def openai_error(status: int, message: str) -> bytes:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return as_json({"error": {"message": message, "type": kind, "param": None, "code": None}})


def _completion_chunk(call: Call, text: str, finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish_reason}
    return b"data: " + as_json(_openai_object(call, "text_completion", [choice])) + b"\n\n"


def _completion_head(_call: Call) -> bytes:
    return b""


def _completion_tail(call: Call) -> bytes:
    return _completion_chunk(call, "", _finish_reason(call)) + b"data: [DONE]\n\n"


def _completion_whole(call: Call) -> bytes:
    choice = {"index": 0, "text": "".join(call.words), "logprobs": None, "finish_reason": _finish_reason(call)}
    return as_json(_openai_object(call, "text_completion", [choice], usage=_openai_usage(call)))


ANTHROPIC = Dialect(_anthropic_head, _anthropic_token, _anthropic_tail, _anthropic_whole, _anthropic_error)
OPENAI = Dialect(_openai_head, _openai_token, _openai_tail, _openai_whole, openai_error)
COMPLETIONS = Dialect(
    _completion_head, _completion_chunk, _completion_tail, _completion_whole, openai_error, prompt="prompt"
)
