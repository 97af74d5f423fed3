"""What a simulated server says on Ollama's /api/chat and /api/generate: a line of JSON for each part.

Source: Ollama docs/api.md.
"""

from collections.abc import Callable
from typing import Any

from llmgate.simulator.call import Call, Dialect, as_json

_CREATED = "1970-01-01T00:00:00Z"

Content = Callable[[str], dict[str, Any]]
"""The field that holds a text."""


def _message(text: str) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": text}}


def _response(text: str) -> dict[str, Any]:
    return {"response": text}


def _ended(call: Call, content: dict[str, Any]) -> bytes:
    reason = {"done": True, "done_reason": "length" if call.cut else "stop"}
    counts = {"prompt_eval_count": call.prompt_tokens, "prompt_eval_duration": 1, "eval_count": call.tokens}
    times = {"total_duration": 1, "load_duration": 1, "eval_duration": 1}
    return as_json({"model": call.model, "created_at": _CREATED, **content, **reason, **counts, **times})


def _head(_call: Call) -> bytes:
    return b""


def _error(_status: int, message: str) -> bytes:
    return as_json({"error": message})


def _dialect(content: Content, prompt: str) -> Dialect:
    def token(call: Call, word: str) -> bytes:
        return as_json({"model": call.model, "created_at": _CREATED, **content(word), "done": False}) + b"\n"

    def tail(call: Call) -> bytes:
        return _ended(call, content("")) + b"\n"

    def whole(call: Call) -> bytes:
        return _ended(call, content("".join(call.words)))

    return Dialect(_head, token, tail, whole, _error, prompt=prompt, streams=True, stream_type="application/x-ndjson")


OLLAMA_CHAT = _dialect(_message, "messages")
OLLAMA_GENERATE = _dialect(_response, "prompt")
