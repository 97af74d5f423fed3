"""Reads an upstream's error answer, in whatever shape it comes, so that a surface can put it into its own.

Shapes seen: OpenAI and llama-server `{"error":{"message":…}}`, Anthropic `{"type":"error","error":{"message":…}}`,
Ollama `{"error":"…"}`, FastAPI `{"detail":"…"}` and `{"detail":[{"msg":"…"},…]}`, vLLM
`{"object":"error","message":"…"}`, plain text, a proxy's HTML page.
"""

import re
from typing import Any

import msgspec

from llmgate.errors import Outcome, UpstreamFailed
from llmgate.protocols.message import is_html, mask, tidy

_BODY_MOST = 65_536
_NO_REASON = "llmgate: the upstream answered with an error and gave no reason (UPSTREAM_ERROR)"

_REQUEST_FAULT = re.compile(r"'\w+' is required|\[json\.exception\.")
"""llama-server (build 10434) answers 500 with these when the request is at fault."""
_CONTEXT = re.compile(
    r"(?:context|model) length(?: is(?: only)?| of)? \(?(\d+)"
    r"|available context size \((\d+)|exceed the configured limit of (\d+)"
)
_TOTAL = re.compile(r"total of(?: at least)? (\d+)|requested (\d+) tokens")
_INPUT = re.compile(
    r"(?:resulted in|passed|has|contains)(?: at least)? (\d+)(?: input)? tokens"
    r"|(?:request|prompt|input) \((?:length )?(\d+)"
)
_OUTPUT = re.compile(r"requested (\d+) output tokens|is too large: (\d+)")
"""Tokens as llama-server, OpenAI, SGLang and vLLM in several versions tell them; no unit of another kind."""
_TOO_LONG = "prompt is too long: "
_OVERFLOW_CODES = ("context_length_exceeded", "exceed_context_size_error")


class Overflow(msgspec.Struct, frozen=True):
    """The prompt, or with it the answer that was asked for, was longer than the model's context; both in tokens."""

    asked: int
    """More than `most`."""
    most: int

    def __str__(self) -> str:
        return f"{self.asked} tokens > {self.most} maximum"


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
    overflow: Overflow | str | None = None
    """A text where the upstream tells no numbers: its message, or what follows "prompt is too long: " there."""


class UpstreamTold(UpstreamFailed):
    """An error that the upstream told within an answer of status 200, as if it were an answer of its own."""

    outcome: Outcome

    def __init__(self, status: int, body: bytes) -> None:
        """`status` is the one that it would have had, `body` its bytes."""
        super().__init__(read_upstream_error(status, body).message)
        self.status = status
        self.body = body
        self.outcome = "upstream_error" if is_servers_fault(status) else "completed"

    @property
    def reason(self) -> str:
        """None of its words, which may be the client's."""
        return f"its answer was an error, as of status {self.status}"


def is_servers_fault(status: int) -> bool:
    """Whether an answer of this status is the upstream's fault rather than that of the request."""
    return not 400 <= status < 500 or status == 429


def read_upstream_error(status: int, body: bytes) -> UpstreamError:
    """Takes any status and any bytes."""
    document = _decode(body)
    said = _plain_text(body) if document is None else _message(document)
    message = _NO_REASON if is_html(said) else tidy(said)
    if not message.strip():
        message = _NO_REASON
    overflow = _overflow(document, message)
    kept = 400 if status == 500 and overflow else _status(status, message)
    return UpstreamError(
        status=kept,
        message=message,
        document=document,
        untouched=kept == status and message == said and not _has_secret(body),
        overflow=overflow,
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


def _overflow(document: Any, message: str) -> Overflow | str | None:
    match document:
        case {"error": {"n_prompt_tokens": int(asked), "n_ctx": int(most)}} if asked > most:
            return Overflow(asked, most)
    most = _number(_CONTEXT, message)
    asked = _number(_TOTAL, message) or _input_and_output(message)
    if 0 < most < asked:
        return Overflow(asked, most)
    return message.removeprefix(_TOO_LONG) if _has_overflow_code(document) else None


def _input_and_output(message: str) -> int:
    """0: it is not told how long the prompt is."""
    prompt = _number(_INPUT, message)
    return prompt and prompt + _number(_OUTPUT, message)


def _number(pattern: re.Pattern[str], message: str) -> int:
    """0: there is none."""
    found = pattern.search(message)
    return int(next(filter(None, found.groups()))) if found else 0


def _has_overflow_code(document: Any) -> bool:
    match document:
        case {"error": {**told}} | {**told}:
            return told.get("code") in _OVERFLOW_CODES or told.get("type") in _OVERFLOW_CODES
    return False
