"""An error that an upstream tells in an answer of status 200: in a chunk of its stream, or instead of a message.

Shapes seen: `{"error":{"message":…,"type":…,"code":…}}` (OpenAI, llama-server), `{"error":"…"}` (Ollama),
`{"object":"error","message":…,"code":…}` (vLLM), `{"type":"error","error":{…}}` (Anthropic), and any data in an event
that is named error.

Clients know the shape of their own surface only: the others they pass over, and take half a text for the whole.
"""

from collections.abc import Callable
from typing import Any

ErrorFrame = Callable[[int, bytes], bytes]
"""Makes the last frames of an open stream of an upstream's error: its status and its data."""

_STATUSES = {
    "invalid_request_error": 400,
    "exceed_context_size_error": 400,
    "context_length_exceeded": 400,
    "badrequesterror": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "unavailable_error": 503,
    "overloaded_error": 503,
    "timeout_error": 504,
}


def is_fault(document: dict[str, Any]) -> bool:
    """Whether an object tells an error; some servers send `"error": null` beside every message."""
    if document.get("object") == "error" or document.get("type") == "error":
        return True
    error = document.get("error")
    return bool(error) or (error is not None and "choices" not in document)


def fault_status(document: dict[str, Any]) -> int:
    """The status that the error would have had as an answer of its own."""
    error = document.get("error")
    told = error if isinstance(error, dict) else document
    for key in ("code", "status", "status_code", "type"):
        if status := _status(told.get(key)):
            return status
    return 500


class FaultWatch:
    """The part of a StreamWatch that judges the errors in a stream."""

    __slots__ = ("_error_frame", "_instead", "complete", "failed")

    def __init__(self, error_frame: ErrorFrame) -> None:
        self.complete = self.failed = False
        self._error_frame = error_frame
        self._instead: bytes | None = None
        """What passed in place of an error of a foreign shape. Once it is there nothing more of the stream passes."""

    def _fail(self, document: dict[str, Any], data: bytes, *, is_own: bool) -> None:
        """The stream tells an error; `is_own`: in the surface's own shape. What follows an end is of no account."""
        if not (is_own or self.complete or self.failed):
            self._instead = self._error_frame(fault_status(document), data)
        self.failed = True


def _status(value: Any) -> int:
    if isinstance(value, str):
        value = int(value) if value.isdecimal() and len(value) == 3 else _STATUSES.get(value.lower(), 0)
    return value if isinstance(value, int) and 400 <= value <= 599 else 0
