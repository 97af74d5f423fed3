"""The surface of Anthropic Messages: POST /v1/messages.

Waiting is told by an event that is no part of Anthropic's protocol, `event: queue`, whose data says `"type":"ping"`:
SDKs that ignore event names and those that validate the data both skip it.

    error            status  type                    in an open stream
    BadRequest       400     invalid_request_error   the same
    BodyTooLarge     413     request_too_large       the same
    BodyTimeout      408     invalid_request_error   the same
    CodedBody        415     invalid_request_error   the same
    MethodNotAllowed 405     invalid_request_error   the same
    NotFound, UnknownModel 404 not_found_error       the same
    Unauthorized     401     authentication_error    the same
    HostNotAllowed   421     permission_error        the same
    OriginNotAllowed, ModelNotAllowed 403 permission_error the same
    KeyLimit         429     rate_limit_error        the same
    QueueFull        503     overloaded_error        timeout_error
    QueueTimeout     504     timeout_error           the same
    Cancelled        503     overloaded_error        timeout_error
    Refused          503     overloaded_error        timeout_error
    UpstreamDown, TooManyBodies, TooManyConnections 503 overloaded_error the same
    UpstreamTimeout  504     timeout_error           the same
    UpstreamFailed   502     api_error               the same
    any other        500     api_error               the same

An end in the queue must not be tried again by the client itself. In a stream no header can say so: the Vercel AI SDK
sends a request again on overloaded_error, rate_limit_error and api_error as the first event, not on timeout_error.
Claude Code (2.1.197, 2.1.332) asks three times on overloaded_error, and then without a stream; on timeout_error it asks
once more, without a stream, and with CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK not at all.

An upstream's error that is not in this shape gets the type that Anthropic documents for its status (_TYPES_BY_STATUS).
A prompt longer than the context becomes "prompt is too long: N tokens > M maximum", the wording that Claude Code knows.
"""

from functools import partial
from typing import Annotated, Any

import msgspec

from llmgate.errors import (
    BadRequest,
    BodyTooLarge,
    GateError,
    KeyLimit,
    NotAllowed,
    NotFound,
    QueueError,
    QueueTimeout,
    TooManyBodies,
    TooManyConnections,
    Unauthorized,
    UpstreamDown,
    UpstreamTimeout,
)
from llmgate.protocols.decoding import decoded
from llmgate.protocols.document import read_object
from llmgate.protocols.fault import is_fault
from llmgate.protocols.message import tidy
from llmgate.protocols.request import read_model_request, replace_model
from llmgate.protocols.sse import EVENT_STREAM, LIMIT, EventWatch, comment, fields, is_event_stream, kind_of
from llmgate.protocols.surface import ModelRequest, Opening, QueuePosition, StreamWatch
from llmgate.protocols.upstream_error import UpstreamError, read_upstream_error

_TYPES: dict[type[BaseException], str] = {
    BodyTooLarge: "request_too_large",
    BadRequest: "invalid_request_error",
    Unauthorized: "authentication_error",
    NotAllowed: "permission_error",
    KeyLimit: "rate_limit_error",
    NotFound: "not_found_error",
    QueueTimeout: "timeout_error",
    QueueError: "overloaded_error",
    UpstreamDown: "overloaded_error",
    TooManyBodies: "overloaded_error",
    TooManyConnections: "overloaded_error",
    UpstreamTimeout: "timeout_error",
    GateError: "api_error",
}
_TYPES_BY_STATUS = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}

_DELTA = b"event: content_block_delta\n"
_NEXT_DELTA = b"\n\n" + _DELTA
_NAMES = frozenset(
    {
        b"message_start",
        b"content_block_start",
        b"content_block_delta",
        b"content_block_stop",
        b"message_delta",
        b"message_stop",
        b"ping",
    }
)

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _Fault(msgspec.Struct):
    type: str
    message: str


class _ErrorBody(msgspec.Struct):
    type: str
    error: _Fault
    request_id: str


class _Usage(msgspec.Struct):
    input_tokens: _Count | None = None
    cache_creation_input_tokens: _Count | None = None
    cache_read_input_tokens: _Count | None = None
    output_tokens: _Count | None = None


class _Message(msgspec.Struct):
    usage: _Usage | None = None


class _WithUsage(msgspec.Struct):
    """message_start tells the prompt's tokens in its message, message_delta the whole usage so far."""

    message: _Message | None = None
    usage: _Usage | None = None


_WITH_USAGE = msgspec.json.Decoder(_WithUsage)


class MessagesSurface:
    """See Surface."""

    name = "messages"
    paths = ("/v1/messages",)
    stream_type = EVENT_STREAM
    follows_keepalive = False

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
        """The event `queue`; eta_ms is left out while there is no estimate, state while there is nothing to tell."""
        if opening.manner == "comments":
            return comment(position)
        eta = "" if position.eta_ms is None else f',"eta_ms":{position.eta_ms}'
        state = f',"state":"{position.state}"' if position.state else ""
        return (
            f'event: queue\ndata: {{"type":"ping","position":{position.position},"depth":{position.depth},'
            f'"waited_ms":{position.waited_ms}{eta}{state}}}\n\n'
        ).encode()

    def heartbeat(self, position: QueuePosition | None, opening: Opening) -> bytes:  # noqa: ARG002  the same for all
        """A comment."""
        return comment(position)

    def error_body(self, error: GateError, request_id: str) -> bytes:
        """See Surface."""
        return _encode(_type_of(error), str(error), request_id)

    def error_frame(self, error: GateError, request_id: str) -> bytes:
        """The event `error`, after which the stream ends."""
        kind = "timeout_error" if isinstance(error, QueueError) else _type_of(error)
        return _frame(_encode(kind, str(error), request_id))

    def upstream_error_body(self, status: int, body: bytes, request_id: str) -> tuple[int, bytes]:
        """See Surface."""
        error = read_upstream_error(status, body)
        if error.untouched and _in_shape(error.document):
            return status, body
        kind, message = _describe(error)
        return error.status, _encode(kind, message, request_id)

    def upstream_error_frame(self, status: int, body: bytes, request_id: str) -> bytes:
        """See Surface."""
        return _frame(msgspec.json.format(self.upstream_error_body(status, body, request_id)[1], indent=-1))

    def watch(self, request_id: str = "") -> StreamWatch:
        """See Surface."""
        return MessagesWatch(partial(self.upstream_error_frame, request_id=request_id))


class MessagesWatch(EventWatch):
    """An event is known by its name; where that is none of Anthropic's, by the `type` in its data.

    Its SDKs raise on an error by the event's name alone.
    """

    __slots__ = ()

    def feed(self, data: bytes) -> bytes:
        """The short cut: nothing but whole content_block_delta events, which is nearly every piece."""
        if self._between and data.startswith(_DELTA) and data.endswith(b"\n\n") and len(data) <= LIMIT:
            deltas = data.count(b"\n\n")
            if (
                data.count(b"\nevent") == data.count(_NEXT_DELTA) == deltas - 1
                and b"\n\n\n" not in data
                and b"\r" not in data
            ):
                self.started = True
                if self._counting:
                    self.output_tokens += deltas
                return data
        return EventWatch.feed(self, data)

    def _read(self, event: bytes) -> None:
        name, data = fields(event)
        if name not in _NAMES:
            document = read_object(data) or {}
            if name == b"error" or is_fault(document):
                self._fail(document, data, is_own=name == b"error" and _in_shape(document))
                return
            name = kind_of(document)
        if name == b"content_block_delta":
            self.output_tokens += self._counting
        elif name in {b"message_start", b"message_delta"} and b'"usage"' in data:
            self._read_usage(decoded(_WITH_USAGE, data) or _WithUsage())
        elif name == b"message_stop":
            self.complete = True

    def _read_usage(self, told: _WithUsage) -> None:
        if told.message and told.message.usage:
            self._read_input(told.message.usage)
        if told.usage:
            self._read_input(told.usage)
            if told.usage.output_tokens is not None:
                self.output_tokens = told.usage.output_tokens
                self._counting = False

    def _read_input(self, usage: _Usage) -> None:
        if usage.input_tokens is not None:
            cached = (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0)
            self.input_tokens = usage.input_tokens + cached


def _type_of(error: GateError) -> str:
    return next(_TYPES[kind] for kind in type(error).__mro__ if kind in _TYPES)


def _encode(kind: str, message: str, request_id: str) -> bytes:
    return msgspec.json.encode(_ErrorBody("error", _Fault(kind, tidy(message)), request_id))


def _frame(body: bytes) -> bytes:
    return b"event: error\ndata: " + body + b"\n\n"


def _in_shape(document: Any) -> bool:
    match document:
        case {"type": "error", "error": {"type": str(kind), "message": str()}}:
            return kind != ""
    return False


def _describe(error: UpstreamError) -> tuple[str, str]:
    if error.overflow:
        return "invalid_request_error", f"prompt is too long: {error.overflow}"
    fallback = "invalid_request_error" if error.status < 500 else "api_error"
    return _TYPES_BY_STATUS.get(error.status, fallback), error.message
