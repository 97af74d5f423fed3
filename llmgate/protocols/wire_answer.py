"""The answer to what never became a request of some surface: written at once, and the last one on its connection."""

import json
from http import HTTPStatus

from llmgate.errors import GateError

_KINDS = {500: "api_error", 503: "overloaded_error"}


def wire_body(error: GateError) -> bytes:
    """JSON that clients of Anthropic, OpenAI and Ollama understand, all of theirs in one."""
    kind = _KINDS.get(error.status, "invalid_request_error")
    told = {"type": kind, "message": str(error), "code": error.code, "param": None}
    return json.dumps({"type": "error", "error": told}).encode()


def wire_answer(error: GateError, retry_after: int | None = None) -> bytes:
    """A whole answer; which surface's client asks is not known here. `retry_after` in seconds."""
    body = wire_body(error)
    lines = [
        f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}",
        "content-type: application/json",
        f"content-length: {len(body)}",
        f"llmgate-code: {error.code}",
        *([f"retry-after: {retry_after}"] if retry_after is not None else []),
        "connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body
