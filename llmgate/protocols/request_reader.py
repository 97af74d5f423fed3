"""Cuts the bytes of one client's connection into requests: heads that are checked, bodies that are framed one way only.

What `feed` gives is for the parser, and is always part of one request: what follows its end is told apart, so that a
request that comes too early never reaches the parser.
"""

from llmgate.protocols.chunks import ChunkReader
from llmgate.protocols.request_head import CHUNKED, HeadReader


class RequestReader:
    """One request after the other; `next` goes on to the next one."""

    __slots__ = ("_chunks", "_head", "_left", "is_in_head")

    def __init__(self) -> None:
        self._head = HeadReader()
        self.is_in_head = True
        """No head is whole since the last request."""
        self._left = 0
        """Bytes of a body of known length that are to come."""
        self._chunks: ChunkReader | None = None

    @property
    def has_half_a_head(self) -> bool:
        """A head has begun and is not whole."""
        return self.is_in_head and self._head.has_begun

    @property
    def is_complete(self) -> bool:
        """The request is here to its end."""
        return not self.is_in_head and not self._left and self._chunks is None

    def next(self) -> None:
        """The request is answered: what comes now is the next one."""
        self.is_in_head = True

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """What of it belongs to the request, for the parser; and what comes behind its end.

        Raises BadRequest and HeadTooLarge, with the status of the answer; nothing may be fed afterwards.
        """
        if not self.is_in_head:
            return self._read_body(data)
        head, rest = self._head.feed(data)
        if head is None:
            return b"", b""
        self.is_in_head = False
        if head.length == CHUNKED:
            self._chunks = ChunkReader()
        else:
            self._left = head.length
        if not rest:
            return head.raw, b""
        body, rest = self._read_body(rest)
        return head.raw + body, rest

    def _read_body(self, data: bytes) -> tuple[bytes, bytes]:
        if self._chunks is not None:
            found = self._chunks.feed(data)
            if self._chunks.done:
                self._chunks = None
            return found
        left = self._left
        if len(data) <= left:
            self._left -= len(data)
            return data, b""
        self._left = 0
        return data[:left], data[left:]
