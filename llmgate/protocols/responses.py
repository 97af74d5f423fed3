"""The surface of OpenAI Responses: POST /v1/responses.

Nothing but comments may precede `response.created`, so `openai_keepalive = "chunk"` means comments here.

Errors before the stream are those of the other OpenAI surfaces. In an open stream the error is an event that is shaped
twice, flat as OpenAI documents it and nested as it is sent: each SDK raises on one of the two only. Codex passes over it, and
tells what stands in the `response.failed` behind it.

    event: error
    data: {"type":"error","sequence_number":0,"code":…,"message":…,"param":null,"error":{"type":…,"code":…,"message":…,"param":null}}

    event: response.failed
    data: {"type":"response.failed","sequence_number":1,"response":{…,"status":"failed","error":{"code":…,"message":…},…}}

The code is always text, since the Vercel AI SDK passes over an error without: UPSTREAM_ERROR where the upstream gave none.
"""  # noqa: E501  an event is one line

from functools import partial
from typing import Annotated, Any

import msgspec

from llmgate.errors import GateError
from llmgate.protocols.decoding import decoded
from llmgate.protocols.document import read_object
from llmgate.protocols.fault import is_fault
from llmgate.protocols.openai import OpenAISurface
from llmgate.protocols.sse import LIMIT, EventWatch, fields, kind_of
from llmgate.protocols.surface import StreamWatch

_PREFIX = b"event: response."
_DELTA = b".delta"
_ENDS = frozenset({b"response.completed", b"response.incomplete", b"response.failed"})
_FAILED = {
    "id": "",
    "object": "response",
    "created_at": 0,
    "model": "",
    "status": "failed",
    "output": [],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _Fault(msgspec.Struct):
    type: str
    code: str
    message: str
    param: str | None


class _ErrorEvent(msgspec.Struct):
    type: str
    sequence_number: int
    code: str
    message: str
    param: str | None
    error: _Fault


class _Usage(msgspec.Struct):
    input_tokens: _Count | None = None
    output_tokens: _Count | None = None


class _Response(msgspec.Struct):
    usage: _Usage | None = None


class _End(msgspec.Struct):
    response: _Response | None = None


_END = msgspec.json.Decoder(_End)


class ResponsesSurface(OpenAISurface):
    """See Surface."""

    name = "responses"
    paths = ("/v1/responses",)

    def error_frame(self, error: GateError, request_id: str) -> bytes:
        """The events `error` and `response.failed`, after which the stream ends."""
        return _frame(self.error_body(error, request_id))

    def upstream_error_frame(self, status: int, body: bytes, request_id: str) -> bytes:
        """See Surface."""
        return _frame(self.upstream_error_body(status, body, request_id)[1])

    def watch(self, request_id: str = "") -> StreamWatch:
        """See Surface."""
        return ResponsesWatch(partial(self.upstream_error_frame, request_id=request_id))


class ResponsesWatch(EventWatch):
    """An event is known by its name; where that is none of OpenAI's, by the `type` in its data. Deltas are content."""

    __slots__ = ()

    def feed(self, data: bytes) -> bytes:
        """The short cut: nothing but whole deltas of one kind, which is nearly every piece."""
        if self._between and data.startswith(_PREFIX) and data.endswith(b"\n\n") and len(data) <= LIMIT:
            name = data[: data.find(b"\n") + 1]
            deltas = data.count(b"\n\n")
            if (
                name.endswith(b".delta\n")
                and data.count(b"\nevent") == data.count(b"\n\n" + name) == deltas - 1
                and b"\n\n\n" not in data
                and b"\r" not in data
            ):
                self.started = True
                self.output_tokens += deltas
                return data
        return EventWatch.feed(self, data)

    def _read(self, event: bytes) -> None:
        name, data = fields(event)
        if not name.startswith(b"response."):
            document = read_object(data) or {}
            if name == b"error" or is_fault(document):
                self._fail(document, data, is_own=name == b"error" and _in_shape(document))
                return
            name = kind_of(document)
        if name.endswith(_DELTA):
            self.output_tokens += 1
        elif name in _ENDS:
            self.complete = True
            if name == b"response.failed":
                self._fail(read_object(data) or {}, data, is_own=True)
            self._read_usage((decoded(_END, data) or _End()).response)

    def _read_usage(self, response: _Response | None) -> None:
        usage = response.usage if response else None
        if usage and usage.input_tokens is not None:
            self.input_tokens = usage.input_tokens
        if usage and usage.output_tokens is not None:
            self.output_tokens = usage.output_tokens


def _in_shape(document: Any) -> bool:
    """Both flat and nested: an SDK that looks for the other one would pass over it."""
    match document:
        case {"type": "error", "code": str(code), "message": str(), "error": {"message": str()}}:
            return code != ""
    return False


def _frame(body: bytes) -> bytes:
    """From an error in the shape of a body, which has a message."""
    fault: dict[str, Any] = msgspec.json.decode(body)["error"]
    kind, code = (_text(fault.get(key)) for key in ("type", "code"))
    shaped = _Fault(
        kind or "server_error", code or "UPSTREAM_ERROR", fault["message"], _text(fault.get("param")) or None
    )
    event = _ErrorEvent("error", 0, shaped.code, shaped.message, shaped.param, shaped)
    failed = {**_FAILED, "error": {"code": shaped.code, "message": shaped.message}}
    ended = {"type": "response.failed", "sequence_number": 1, "response": failed}
    return _event("error", event) + _event("response.failed", ended)


def _event(name: str, data: Any) -> bytes:
    return f"event: {name}\n".encode() + b"data: " + msgspec.json.encode(data) + b"\n\n"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
