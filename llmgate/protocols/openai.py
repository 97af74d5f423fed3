"""What OpenAI's surfaces share, and the first of them, chat completions: POST /v1/chat/completions.

Waiting is told by comments: a named event or foreign data reaches the caller of an official SDK as a broken chunk. The
setting `openai_keepalive` may ask for chunks instead: the one form that every client tried took is a whole chunk of the
answer with an empty delta. It is for clients that give up after a time without a chunk, whatever comments come.

    error                        status       type                    code
    BadRequest and its kinds  400 405 408 413 415  invalid_request_error  the error's own, such as BODY_TOO_LARGE
    NotFound, UnknownModel       404          not_found_error         NOT_FOUND, UNKNOWN_MODEL
    Unauthorized                 401          authentication_error    UNAUTHORIZED
    HostNotAllowed               421          permission_error        HOST_NOT_ALLOWED
    OriginNotAllowed, ModelNotAllowed 403     permission_error        ORIGIN_NOT_ALLOWED, MODEL_NOT_ALLOWED
    KeyLimit                     429          rate_limit_error        KEY_LIMIT
    QueueFull, Cancelled, Refused 503         server_error            QUEUE_FULL, CANCELLED, REFUSED
    QueueTimeout                 504          server_error            QUEUE_TIMEOUT
    UpstreamDown                 503          server_error            UPSTREAM_DOWN
    UpstreamTimeout              504          server_error            UPSTREAM_TIMEOUT
    UpstreamFailed               502          server_error            UPSTREAM_ERROR
    any other                    500          server_error            its own

In an open stream the same object is sent as data, and `data: [DONE]` after it. An upstream's error that is not in this
shape gets the type that fits its status (_TYPES_BY_STATUS), and the code that it came with.
"""

import re
from functools import partial
from typing import Annotated, Any

import msgspec

from llmgate.errors import GateError
from llmgate.protocols.decoding import decoded
from llmgate.protocols.document import read_object
from llmgate.protocols.fault import ErrorFrame, is_fault
from llmgate.protocols.message import tidy
from llmgate.protocols.queue_field import QueueField, queue_field
from llmgate.protocols.request import read_model_request, replace_model
from llmgate.protocols.sse import EVENT_STREAM, LIMIT, EventWatch, comment, fields, is_event_stream
from llmgate.protocols.surface import ModelRequest, Opening, QueuePosition, StreamWatch
from llmgate.protocols.upstream_error import read_upstream_error

_TYPES_BY_STATUS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    421: "permission_error",
    429: "rate_limit_error",
}

_DATA = b"data: {"
_NEXT_DATA = b"\n\n" + _DATA
_SOME_CHOICES = b'"choices":[{'
_SOME_CHOICES_SPACED = re.compile(rb'"choices"\s*:\s*\[\s*\{')

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _Fault(msgspec.Struct):
    message: str
    type: str
    param: str | None
    code: str | None


class _ErrorBody(msgspec.Struct):
    error: _Fault


class _Usage(msgspec.Struct):
    prompt_tokens: _Count | None = None
    completion_tokens: _Count | None = None


class _WithUsage(msgspec.Struct):
    usage: _Usage | None = None


_WITH_USAGE = msgspec.json.Decoder(_WithUsage)


class _Chunk(msgspec.Struct):
    id: str
    object: str
    created: int
    model: str
    choices: list[Any]
    queue: QueueField | msgspec.UnsetType


class OpenAISurface:
    """See Surface. A surface of its own adds its name and paths, and what differs there."""

    name = ""
    paths: tuple[str, ...] = ()
    stream_type = EVENT_STREAM
    follows_keepalive = True

    def is_stream(self, content_type: bytes) -> bool:
        """See Surface."""
        return is_event_stream(content_type)

    def read_request(self, body: bytes) -> ModelRequest:
        """See Surface."""
        return read_model_request(body)

    def with_model(self, body: bytes, model: str) -> bytes:
        """See Surface."""
        return replace_model(body, model)

    def queue_frame(self, position: QueuePosition, opening: Opening) -> bytes:
        """The same as a heartbeat."""
        return self.heartbeat(position, opening)

    def heartbeat(self, position: QueuePosition | None, opening: Opening) -> bytes:  # noqa: ARG002  some have chunks
        """A comment."""
        return comment(position)

    def error_body(self, error: GateError, request_id: str) -> bytes:  # noqa: ARG002  OpenAI's shape has no place for it
        """See Surface."""
        fallback = "invalid_request_error" if error.status < 500 else "server_error"
        kind = _TYPES_BY_STATUS.get(error.status, fallback)
        return _encode(kind, str(error), error.code)

    def error_frame(self, error: GateError, request_id: str) -> bytes:
        """The error as data, then [DONE]."""
        return _frame(self.error_body(error, request_id))

    def upstream_error_body(self, status: int, body: bytes, request_id: str) -> tuple[int, bytes]:  # noqa: ARG002
        """See Surface."""
        error = read_upstream_error(status, body)
        if error.untouched and _in_shape(error.document):
            return status, body
        fallback = "invalid_request_error" if error.status < 500 else "server_error"
        kind = _TYPES_BY_STATUS.get(error.status, fallback)
        return error.status, _encode(kind, error.message, _code_of(error.document))

    def upstream_error_frame(self, status: int, body: bytes, request_id: str) -> bytes:
        """See Surface."""
        return _frame(msgspec.json.format(self.upstream_error_body(status, body, request_id)[1], indent=-1))

    def watch(self, request_id: str = "") -> StreamWatch:
        """See Surface."""
        return ChatWatch(partial(self.upstream_error_frame, request_id=request_id))


class ChatSurface(OpenAISurface):
    """Chat completions."""

    name = "chat"
    paths = ("/v1/chat/completions",)

    def heartbeat(self, position: QueuePosition | None, opening: Opening) -> bytes:
        """A comment, or a chunk with an empty delta."""
        if opening.manner != "chunks":
            return comment(position)
        choice = {"index": 0, "delta": {}, "finish_reason": None}
        return chunk("chatcmpl-", "chat.completion.chunk", choice, position, opening)


class ChatWatch(EventWatch):
    """An event with choices is content; usage and errors are looked for by their bytes, and only then decoded.

    Some servers leave [DONE] out: a regular end of the message after a finish_reason is as good. OpenAI's SDKs raise on
    an `error` in the data of an event without a name, and on nothing else in every version.
    """

    __slots__ = ("_stopped",)

    def __init__(self, error_frame: ErrorFrame) -> None:
        super().__init__(error_frame)
        self._stopped = False

    def finish(self) -> bytes:
        """See StreamWatch."""
        rest = super().finish()
        self.complete = self.complete or self._stopped
        return rest

    def feed(self, data: bytes) -> bytes:
        """The short cut: whole events of one line of data each, without usage or error."""
        if self._between and data.startswith(_DATA) and data.endswith(b"\n\n") and len(data) <= LIMIT:
            lines = data.count(b"\n")
            if (
                (lines == 2 or lines == 2 * data.count(_NEXT_DATA) + 2)
                and b"\r" not in data
                and b'"error"' not in data
                and (b'"usage"' not in data or data.count(b'"usage"') == data.count(b'"usage":null'))
            ):
                self.started = True
                self._stopped = self._stopped or _has_stopped(data)
                if self._counting:
                    self.output_tokens += _count_content(data, lines)
                return data
        return EventWatch.feed(self, data)

    def _read(self, event: bytes) -> None:
        name, data = fields(event)
        if data.startswith(b"[DONE]"):
            self.complete = True
            return
        self._stopped = self._stopped or _has_stopped(data)
        if self._counting:
            self.output_tokens += _is_content(data)
        if b'"usage"' in data:
            self._read_usage((decoded(_WITH_USAGE, data) or _WithUsage()).usage)
        if name == b"error" or b'"error"' in data:
            document = read_object(data) or {}
            if name == b"error" or is_fault(document):
                self._fail(document, data, is_own=not name and _in_shape(document))

    def _read_usage(self, usage: _Usage | None) -> None:
        if usage and usage.prompt_tokens is not None:
            self.input_tokens = usage.prompt_tokens
        if usage and usage.completion_tokens is not None:
            self.output_tokens = usage.completion_tokens
            self._counting = False


def _has_stopped(data: bytes) -> bool:
    """A finish_reason that is not null; inside a text its quotes would be escaped."""
    return b'"finish_reason":"' in data or b'"finish_reason": "' in data


def chunk(prefix: str, kind: str, choice: dict[str, Any], position: QueuePosition | None, opening: Opening) -> bytes:
    """A whole chunk of an answer that has not begun, with `queue` in it while there is a position."""
    created = int(opening.at.timestamp())
    made = _Chunk(prefix + opening.request_id, kind, created, opening.model, [choice], queue_field(position))
    return b"data: " + msgspec.json.encode(made) + b"\n\n"


def _is_content(data: bytes) -> bool:
    return _SOME_CHOICES in data or _SOME_CHOICES_SPACED.search(data) is not None


def _count_content(data: bytes, lines: int) -> int:
    if lines == 2:
        return _is_content(data)
    return sum(map(_is_content, data.split(b"\n\n")))


def _encode(kind: str, message: str, code: str | None) -> bytes:
    return msgspec.json.encode(_ErrorBody(_Fault(tidy(message), kind, None, code)))


def _frame(body: bytes) -> bytes:
    return b"data: " + body + b"\n\ndata: [DONE]\n\n"


def _in_shape(document: Any) -> bool:
    match document:
        case {"type": "error"}:
            return False
        case {"error": {"message": str()}}:
            return True
    return False


def _code_of(document: Any) -> str | None:
    match document:
        case {"error": {"code": str(code)}} | {"code": str(code)}:
            return tidy(code)
    return None
