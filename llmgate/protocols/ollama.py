"""The surfaces of Ollama: POST /api/chat, /api/generate and /api/embed.

A request streams unless it says `"stream":false`; embeddings never do. A stream is a line of JSON for each part, without
blank lines. A sign of life is one blank, which belongs to the line that follows and which JSON allows there. A position
is told by a whole part of the answer with an empty text and one more field:

    {"model":"m","created_at":"…","message":{"role":"assistant","content":""},"done":false,"queue":{"position":2,"depth":3}}
    {"model":"m","created_at":"…","response":"","done":false,"queue":{"position":2,"depth":3}}

Ollama's own clients could do without `created_at`; typed ones in other languages refuse a part that lacks it.

An error is `{"error":"…"}` with the status of the error, in an open stream the same as its last line.
"""  # noqa: E501  a part is one line

from datetime import datetime
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from llmgate.errors import GateError
from llmgate.protocols.message import tidy
from llmgate.protocols.ndjson import NDJSON, LineWatch, is_ndjson
from llmgate.protocols.queue_field import QueueField, queue_field
from llmgate.protocols.request import read_model_request, replace_model
from llmgate.protocols.surface import ModelRequest, Opening, QueuePosition, StreamWatch
from llmgate.protocols.upstream_error import read_upstream_error

_SIGN_OF_LIFE = b" "


class _ErrorBody(msgspec.Struct):
    error: str


class _Message(msgspec.Struct):
    role: str
    content: str


class _ChatPart(msgspec.Struct):
    model: str
    created_at: datetime
    message: _Message
    done: bool
    queue: QueueField | msgspec.UnsetType


class _GeneratePart(msgspec.Struct):
    model: str
    created_at: datetime
    response: str
    done: bool
    queue: QueueField | msgspec.UnsetType


class OllamaSurface:
    """See Surface. A surface of its own adds its name, its paths and its `_part`."""

    name = ""
    paths: tuple[str, ...] = ()
    stream_type = NDJSON
    follows_keepalive = False

    def is_stream(self, content_type: bytes) -> bool:
        """See Surface."""
        return is_ndjson(content_type)

    def read_request(self, body: bytes) -> ModelRequest:
        """See Surface."""
        return read_model_request(body, streams=True)

    def with_model(self, body: bytes, model: str) -> bytes:
        """See Surface."""
        return replace_model(body, model)

    def queue_frame(self, position: QueuePosition, opening: Opening) -> bytes:
        """A part of the answer with nothing in it but the position."""
        if opening.manner == "comments":
            return _SIGN_OF_LIFE
        return msgspec.json.encode(self._part(opening, queue_field(position))) + b"\n"

    def heartbeat(self, position: QueuePosition | None, opening: Opening) -> bytes:  # noqa: ARG002  the same for all
        """One blank."""
        return _SIGN_OF_LIFE

    def error_body(self, error: GateError, request_id: str) -> bytes:  # noqa: ARG002  Ollama's shape has no place for it
        """See Surface."""
        return _encode(str(error))

    def error_frame(self, error: GateError, request_id: str) -> bytes:
        """The last line."""
        return self.error_body(error, request_id) + b"\n"

    def upstream_error_body(self, status: int, body: bytes, request_id: str) -> tuple[int, bytes]:  # noqa: ARG002
        """See Surface."""
        error = read_upstream_error(status, body)
        if error.untouched and _in_shape(error.document):
            return status, body
        return error.status, _encode(error.message)

    def upstream_error_frame(self, status: int, body: bytes, request_id: str) -> bytes:
        """See Surface."""
        return msgspec.json.format(self.upstream_error_body(status, body, request_id)[1], indent=-1) + b"\n"

    def watch(self, request_id: str = "") -> StreamWatch:
        """See Surface."""
        return LineWatch(partial(self.upstream_error_frame, request_id=request_id))

    def _part(self, opening: Opening, queue: QueueField | msgspec.UnsetType) -> msgspec.Struct:
        """An empty part of an answer that goes on."""
        return _GeneratePart(opening.model, opening.at, "", False, queue)


class OllamaChatSurface(OllamaSurface):
    """Messages in, a message out."""

    name = "ollama-chat"
    paths = ("/api/chat",)

    def _part(self, opening: Opening, queue: QueueField | msgspec.UnsetType) -> msgspec.Struct:
        return _ChatPart(opening.model, opening.at, _Message("assistant", ""), False, queue)


class OllamaGenerateSurface(OllamaSurface):
    """A prompt in, text out."""

    name = "ollama-generate"
    paths = ("/api/generate",)


class OllamaEmbedSurface(OllamaSurface):
    """Text in, vectors out."""

    name = "ollama-embed"
    paths = ("/api/embed",)

    def read_request(self, body: bytes) -> ModelRequest:
        """See Surface. Whatever the body says, there is no stream."""
        return replace(super().read_request(body), stream=False)


def _encode(message: str) -> bytes:
    return msgspec.json.encode(_ErrorBody(tidy(message)))


def _in_shape(document: Any) -> bool:
    match document:
        case {"error": str()}:
            return True
    return False
