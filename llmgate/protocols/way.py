"""How one request is put to a server, and how what the server answers becomes an answer of the client's surface."""

from collections.abc import Callable, Mapping
from typing import Protocol

from llmgate.errors import UpstreamFailed
from llmgate.protocols.decoding import is_json
from llmgate.protocols.surface import ModelRequest, StreamWatch, Surface


class Way(Protocol):
    """Made for one request; `watch`, `whole` and `as_stream` are for its one answer. All methods are pure."""

    @property
    def path(self) -> str:
        """Of the server, without query."""
        ...

    @property
    def body(self) -> bytes: ...

    @property
    def keeps_query(self) -> bool:
        """Whether the query of the client's request means something to the server."""
        ...

    def headers(self, headers: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
        """The client's headers (names in lower case) as they are meant for this server."""
        ...

    def is_stream(self, content_type: bytes) -> bool:
        """Whether an answer of this Content-Type is a stream that `watch` can follow."""
        ...

    def watch(self) -> StreamWatch:
        """For an answer that is a stream."""
        ...

    def whole(self, body: bytes) -> bytes:
        """An answer that is no stream, for its client; UpstreamFailed where it is none of the surface."""
        ...

    @property
    def as_stream(self) -> Callable[[bytes], bytes] | None:
        """The same for a client that asked for a stream: all of the stream; None where nobody can make one of it."""
        ...


class Direct:
    """To a server that speaks the surface: bytes go through as they are, but for errors of a foreign shape."""

    __slots__ = ("_model", "_request", "_request_id", "_surface", "path")

    keeps_query = True
    as_stream = None

    def __init__(self, surface: Surface, path: str, request: ModelRequest, model: str, request_id: str = "") -> None:
        """`model` is the one to ask for."""
        self._surface = surface
        self.path = path
        self._request = request
        self._model = model
        self._request_id = request_id

    @property
    def body(self) -> bytes:
        """Made when it is wanted: one that waits keeps one body."""
        request = self._request
        return request.body if self._model == request.model else self._surface.with_model(request.body, self._model)

    def headers(self, headers: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
        """See Way."""
        return headers

    def is_stream(self, content_type: bytes) -> bool:
        """See Way."""
        return self._surface.is_stream(content_type)

    def watch(self) -> StreamWatch:
        """See Way."""
        return self._surface.watch(self._request_id)

    def whole(self, body: bytes) -> bytes:
        """See Way."""
        if is_json(body):
            return body
        raise UpstreamFailed("llmgate: the upstream's answer is no JSON document (UPSTREAM_ERROR)")
