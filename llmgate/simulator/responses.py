"""What a simulated server says on OpenAI's /v1/responses.

Source: OpenAI "Responses streaming events", llama-server.
"""

from typing import Any

from llmgate.simulator.call import Call, Dialect, as_json, named_event
from llmgate.simulator.dialects import openai_error


def _response(call: Call, status: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"resp_{call.id}",
        "object": "response",
        "created_at": 0,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "model": call.model,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
        **fields,
    }


def _item(call: Call, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"id": f"msg_{call.id}", "type": "message", "role": "assistant", "status": status, "content": content}


def _text(call: Call, text: str | None = None) -> dict[str, Any]:
    return {"type": "output_text", "text": "".join(call.words) if text is None else text, "annotations": []}


def _ended(call: Call) -> dict[str, Any]:
    status = "incomplete" if call.cut else "completed"
    usage = {"input_tokens": call.prompt_tokens, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}}
    usage |= {"output_tokens": call.tokens, "output_tokens_details": {"reasoning_tokens": 0}}
    usage |= {"total_tokens": call.prompt_tokens + call.tokens}
    details = {"reason": "max_output_tokens"} if call.cut else None
    output = [_item(call, status, [_text(call)])]
    return _response(call, status, output=output, usage=usage, incomplete_details=details)


def _place(call: Call) -> dict[str, Any]:
    return {"item_id": f"msg_{call.id}", "output_index": 0, "content_index": 0}


def _head(call: Call) -> bytes:
    begun = _response(call, "in_progress")
    return (
        named_event("response.created", sequence_number=0, response=begun)
        + named_event("response.in_progress", sequence_number=1, response=begun)
        + named_event(
            "response.output_item.added", sequence_number=2, output_index=0, item=_item(call, "in_progress", [])
        )
        + named_event("response.content_part.added", sequence_number=3, part=_text(call, ""), **_place(call))
    )


def _token(call: Call, word: str) -> bytes:
    """Its number is the same for all: what is simulated has no memory of what it said."""
    return named_event("response.output_text.delta", sequence_number=4, delta=word, logprobs=[], **_place(call))


def _tail(call: Call) -> bytes:
    ended, first = _ended(call), 4 + call.tokens
    text = "".join(call.words)
    return (
        named_event("response.output_text.done", sequence_number=first, text=text, logprobs=[], **_place(call))
        + named_event("response.content_part.done", sequence_number=first + 1, part=_text(call), **_place(call))
        + named_event("response.output_item.done", sequence_number=first + 2, output_index=0, item=ended["output"][0])
        + named_event(f"response.{ended['status']}", sequence_number=first + 3, response=ended)
    )


def _whole(call: Call) -> bytes:
    return as_json(_ended(call))


RESPONSES = Dialect(_head, _token, _tail, _whole, openai_error, prompt="input")
