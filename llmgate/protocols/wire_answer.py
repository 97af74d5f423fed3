"""The answer to what never became a request of some surface: written at once, and the last one on its connection."""

import json
from http import HTTPStatus

from llmgate.errors import GateError

_OVERLOADED = 503


def wire_answer(error: GateError, retry_after: int | None = None) -> bytes:
    """A whole answer, whose body clients of Anthropic, OpenAI and Ollama understand; `retry_after` in seconds.

    Which of them asks is not known here, so that the body is all of theirs in one.
    """
    kind = "overloaded_error" if error.status == _OVERLOADED else "invalid_request_error"
    told = {"type": kind, "message": str(error), "code": error.code, "param": None}
    body = json.dumps({"type": "error", "error": told}).encode()
    lines = [
        f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}",
        "content-type: application/json",
        f"content-length: {len(body)}",
        f"llmgate-code: {error.code}",
        *([f"retry-after: {retry_after}"] if retry_after is not None else []),
        "connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body
