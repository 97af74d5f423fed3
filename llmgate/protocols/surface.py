"""What the server needs of one client-facing protocol: the Protocols that every surface fulfils.

A surface only turns values into bytes and bytes into values; who waits, who is asked and when bytes go out is decided
elsewhere.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Literal, Protocol

import msgspec

from llmgate.errors import GateError


class QueuePosition(Protocol):
    """What a queue frame tells of a waiter; `llmgate.core.line.Position` fits (siblings do not import each other)."""

    @property
    def position(self) -> int: ...
    @property
    def depth(self) -> int: ...
    @property
    def waited_ms(self) -> int: ...
    @property
    def eta_ms(self) -> int | None: ...
    @property
    def state(self) -> str:
        """ "upstream_down" while nobody moves because the server is not there, else ""."""
        ...


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a request's body says to the gate. Texts are printable, on one line and at most 256 characters."""

    model: str
    """Not empty."""
    stream: bool
    body: bytes
    """As it was received."""
    session: str = ""
    """From `prompt_cache_key`, `metadata.user_id` or `user`; "" where the body tells none. Headers go before it."""
    purpose: str = ""
    """"" on every surface that exists: only headers tell it."""


Manner = Literal["frames", "comments", "chunks"]
"""How a stream is told of its wait. frames: as is usual on its surface; comments: by nothing but what every reader
skips; chunks: by empty parts of an answer, where the surface has a form for them that its clients take."""


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """A stream that llmgate may have to begin before the upstream does: what its frames there say of themselves."""

    request_id: str
    model: str
    """As the client named it."""
    at: datetime
    """When the request came, in UTC."""
    manner: Manner = "frames"


class StreamWatch(Protocol):
    """Follows one answer's stream on its way to the client, however it is cut into pieces.

    An event is what the surface's stream consists of: a server-sent event, or a line of JSON.
    """

    @property
    def complete(self) -> bool:
        """The surface's own end was passed on: `message_stop`, `data: [DONE]`, `"done":true`."""
        ...

    @property
    def failed(self) -> bool:
        """An error of the upstream itself was passed on: as it came where it has the surface's own shape, else put into
        it, and then nothing more of the stream passes."""
        ...

    @property
    def started(self) -> bool:
        """A real event, not a comment, was passed on: from here on no heartbeat and no queue frame may be sent."""
        ...

    @property
    def inside_event(self) -> bool:
        """What was passed on ends inside an event, because that event is larger than the bound: a frame of our own
        would become part of it, so an end now can only be told by aborting the connection."""
        ...

    @property
    def output_tokens(self) -> int:
        """Content events so far; the server's own number as soon as its usage told one."""
        ...

    @property
    def input_tokens(self) -> int | None:
        """Tokens of the prompt, those read from a cache included; None until the server told it."""
        ...

    opened: bool
    """Set it to True when bytes of ours went out before the upstream's: its byte order mark is then swallowed, since it
    would no longer stand at the start."""

    hides: Callable[[bytes], bytes]
    """Set it to what takes the server's own secrets out of an error that it tells in its stream."""

    def feed(self, data: bytes) -> bytes:
        """What may be passed on now: whole events, byte for byte but for errors of a foreign shape or with a secret;
        b"" while one is unfinished. Never raises."""
        ...

    def finish(self) -> bytes:
        """At the regular end of the answer: the last event where the server left out what ends it, else b""."""
        ...


class Surface(Protocol):
    """One client-facing protocol. All methods are pure; all bytes are complete frames or complete bodies."""

    @property
    def name(self) -> str:
        """The `api` of log, feed and metrics: "messages", "chat", "ollama-chat"."""
        ...

    @property
    def paths(self) -> tuple[str, ...]:
        """Without prefix: ("/v1/messages",)."""
        ...

    @property
    def stream_type(self) -> bytes:
        """The Content-Type of a stream that llmgate begins."""
        ...

    @property
    def follows_keepalive(self) -> bool:
        """Whether the setting `openai_keepalive` says how a stream of this surface is told of its wait."""
        ...

    def is_stream(self, content_type: bytes) -> bool:
        """Whether an answer of this Content-Type is a stream of this surface, which `watch` can follow."""
        ...

    def read_request(self, body: bytes) -> ModelRequest:
        """The request in a body; raises BadRequest and nothing else."""
        ...

    def with_model(self, body: bytes, model: str) -> bytes:
        """A body that `read_request` took, asking for another model; every other byte stays as it was."""
        ...

    def queue_frame(self, position: QueuePosition, opening: Opening) -> bytes:
        """Tells a waiting client its position on its open stream."""
        ...

    def heartbeat(self, position: QueuePosition | None, opening: Opening) -> bytes:
        """A sign of life before the first real event; the position is None once the request has its slot."""
        ...

    def error_body(self, error: GateError, request_id: str) -> bytes:
        """JSON, to be sent with `error.status`."""
        ...

    def error_frame(self, error: GateError, request_id: str) -> bytes:
        """The last frames of an open stream."""
        ...

    def upstream_error_body(self, status: int, body: bytes, request_id: str) -> tuple[int, bytes]:
        """An upstream's error, before the stream is open, in the surface's shape: (status, JSON)."""
        ...

    def upstream_error_frame(self, status: int, body: bytes, request_id: str) -> bytes:
        """The same error as the last frames of a stream that is open already."""
        ...

    def watch(self, request_id: str = "") -> StreamWatch:
        """For one answer's stream; `request_id` is for an error in it."""
        ...
