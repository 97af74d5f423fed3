"""Reads an upstream's error answer, in whatever shape it comes, so that a surface can put it into its own.

Shapes seen: OpenAI and llama-server `{"error":{"message":…}}`, Anthropic `{"type":"error","error":{"message":…}}`,
Ollama `{"error":"…"}`, FastAPI `{"detail":"…"}` and `{"detail":[{"msg":"…"},…]}`, vLLM
`{"object":"error","message":"…"}`, plain text, a proxy's HTML page.
"""

import re
from typing import Any

import msgspec

from llmgate.protocols.message import is_html, mask, tidy

_BODY_MOST = 65_536
_NO_REASON = "llmgate: the upstream answered with an error and gave no reason (UPSTREAM_ERROR)"

_REQUEST_FAULT = re.compile(r"'\w+' is required|\[json\.exception\.")
"""llama-server (build 10434) answers 500 with these when the request is at fault."""
_OVERFLOWS = (
    re.compile(r"request \((?P<asked>\d+) tokens\) exceeds the available context size \((?P<most>\d+) tokens\)"),
    re.compile(
        r"maximum context length is (?P<most>\d+) tokens\D+"
        r"(?:requested|resulted in|passed|has|contains|contains at least) (?P<asked>\d+)"
    ),
)
"""llama-server; OpenAI and vLLM."""


class Overflow(msgspec.Struct, frozen=True):
    """The prompt was longer than the model's context; both in tokens."""

    asked: int
    most: int


class UpstreamError(msgspec.Struct, frozen=True):
    """One error answer, read."""

    status: int
    """As it was sent; 400 where the server blames itself for a faulty request, 502 for what is no error status."""
    message: str
    """Never empty, tidy."""
    document: Any
    """The decoded body; None where it is not JSON."""
    untouched: bool
    """Status and body may go out as they came: there is a message, and nothing had to be changed in it."""
    overflow: Overflow | None = None


def read_upstream_error(status: int, body: bytes) -> UpstreamError:
    """Takes any status and any bytes."""
    document = _decode(body)
    said = _plain_text(body) if document is None else _message(document)
    message = _NO_REASON if is_html(said) else tidy(said)
    if not message.strip():
        message = _NO_REASON
    kept = _status(status, message)
    return UpstreamError(
        status=kept,
        message=message,
        document=document,
        untouched=kept == status and message == said and not _has_secret(body),
        overflow=_overflow(document, message),
    )


def _decode(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body) if len(body) <= _BODY_MOST else {}
    except (msgspec.DecodeError, RecursionError):
        return None


def _plain_text(body: bytes) -> str:
    return " ".join(body.decode("utf-8", "replace").split())


def _message(document: Any) -> str:
    match document:
        case (
            {"error": {"message": str(text)}}
            | {"error": str(text)}
            | {"message": str(text)}
            | {"detail": str(text)}
            | {"detail": {"message": str(text)}}
            | str(text)
        ):
            return text
        case {"detail": [*faults]}:
            return "; ".join(
                fault["msg"] for fault in faults if isinstance(fault, dict) and isinstance(fault.get("msg"), str)
            )
    return ""


def _status(status: int, message: str) -> int:
    if status == 500 and _REQUEST_FAULT.match(message):
        return 400
    return status if 400 <= status <= 599 else 502


def _has_secret(body: bytes) -> bool:
    text = body.decode("utf-8", "replace")
    return mask(text) != text


def _overflow(document: Any, message: str) -> Overflow | None:
    match document:
        case {"error": {"n_prompt_tokens": int(asked), "n_ctx": int(most)}}:
            return Overflow(asked, most)
    for pattern in _OVERFLOWS:
        if found := pattern.search(message):
            return Overflow(int(found["asked"]), int(found["most"]))
    return None
