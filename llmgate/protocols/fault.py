"""An error that an upstream tells in an answer of status 200: in a chunk of its stream, or instead of a message.

Shapes seen: `{"error":{"message":…,"type":…,"code":…}}` (OpenAI, llama-server), `{"error":"…"}` (Ollama),
`{"object":"error","message":…,"code":…}` (vLLM), `{"type":"error","error":{…}}` (Anthropic), and any data in an event
that is named error.

Clients know the shape of their own surface only: the others they pass over, and take half a text for the whole.

Servers quote what they were sent: whatever looks like a key, and the server's own, is masked in an error of the
surface's shape too. Every other byte of it stays; where that does not work, since a key hides behind JSON's escapes or
is no string, a frame of ours stands for the error.
"""

from collections.abc import Callable
from typing import Any

from llmgate.protocols.document import read_object, write_object
from llmgate.protocols.message import mask_bytes

Hides = Callable[[bytes], bytes]
"""What the server says without the secrets that it was sent."""

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


def nothing_hidden(said: bytes) -> bytes:
    """Hides nothing."""
    return said


def without_secrets(document: dict[str, Any], data: bytes, hides: Hides) -> bytes:
    """An error's data, to be put into another shape: `document` is what it decodes to. What only looks like a secret is
    left to whoever reads the message in it."""
    written = write_object(document).encode()
    hidden = hides(written)
    return hides(data) if hidden == written else hidden


class FaultWatch:
    """The part of a StreamWatch that judges the errors in a stream. A subclass passes what `_passed` gives."""

    __slots__ = ("_error_frame", "_fault", "_instead", "complete", "failed", "hides")

    def __init__(self, error_frame: ErrorFrame) -> None:
        self.complete = self.failed = False
        self._error_frame = error_frame
        self._instead: bytes | None = None
        """What passed in place of an error of a foreign shape. Once it is there nothing more of the stream passes."""
        self._fault: tuple[dict[str, Any], bytes] | None = None
        """The error, with its bytes, in the event that was read last."""
        self.hides: Hides = nothing_hidden

    @property
    def _is_over(self) -> bool:
        """The stream told its end, or an error was told in its place: nothing more of it passes."""
        return self.complete or self._instead is not None

    def _fail(self, document: dict[str, Any], data: bytes, *, is_own: bool) -> None:
        """The stream tells an error; `is_own`: in the surface's own shape. What follows one is of no account."""
        if is_own or self.failed:
            self._fault = document, data
        else:
            self._tell_instead(document, data)
        self.failed = True

    def _tell_instead(self, document: dict[str, Any], data: bytes) -> None:
        self._instead = self._error_frame(fault_status(document), without_secrets(document, data, self.hides))

    def _passed(self, event: bytes) -> bytes:
        """What passes of an event that was read."""
        if self._fault is not None:
            (document, data), self._fault = self._fault, None
            masked, told = self._mask(event), read_object(self._mask(data))
            if masked != event or not self._is_clean(document):
                if told is not None and self._is_clean(told):
                    return masked
                self._tell_instead(document, data)
        return event if self._instead is None else self._instead

    def _is_clean(self, document: dict[str, Any]) -> bool:
        written = write_object(document).encode()
        return self._mask(written) == written

    def _mask(self, said: bytes) -> bytes:
        return mask_bytes(self.hides(said))


def _status(value: Any) -> int:
    if isinstance(value, str):
        value = int(value) if value.isdecimal() and len(value) == 3 else _STATUSES.get(value.lower(), 0)
    return value if isinstance(value, int) and 400 <= value <= 599 else 0
