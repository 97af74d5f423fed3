"""Reads a body in chunks (RFC 9112, 7.1) and writes it anew without what nobody needs: extensions and trailers.

Both are checked and bounded all the same. Very many very small chunks are refused: they cost time, not memory.
"""

import re

from llmgate.errors import BadRequest, HeadTooLarge
from llmgate.protocols.request_head import FIELD, FIELDS_LIMIT

EXTENSIONS_LIMIT = 16 * 1024
"""Bytes of all extensions of one body."""
LINE_LIMIT = 4 * 1024
"""Bytes of one line that gives a size, with its extensions."""
TRAILERS_LIMIT = 8 * 1024
"""Bytes of all trailers."""

FREE_CHUNKS = 4096
"""So many may be as small as they like."""
MEAN_SIZE = 16
"""Bytes that each further one must hold, on average."""

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})(;[\t -~\x80-\xff]*+)?\r\n")
_SIZE_SO_FAR = re.compile(rb"[0-9A-Fa-f]{1,16}(?:;[\t -~\x80-\xff]*+)?\r?")
_TRAILER = re.compile(FIELD)
_TRAILER_SO_FAR = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]*+|[!#$%&'*+\-.^_`|~0-9A-Za-z]++:[\t -~\x80-\xff]*+\r?")
_LAST = b"0\r\n\r\n"


class ChunkReader:
    """One body. `done` once its end came; what it says does not depend on how the bytes were cut."""

    __slots__ = ("_bytes", "_chunks", "_extensions", "_kept", "_left", "_step", "_trailers", "_trailers_size", "done")

    def __init__(self) -> None:
        self.done = False
        self._step = self._read_size
        self._kept = b""
        self._left = 0
        self._bytes = self._chunks = self._extensions = self._trailers = self._trailers_size = 0

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """The same chunks, bare; and what came behind the end. Raises BadRequest, HeadTooLarge."""
        if self._kept:
            data, self._kept = self._kept + data, b""
        out: list[bytes] = []
        at = 0
        while not self.done and at < len(data):
            then = self._step(data, at, out)
            if then == at:
                self._kept = data[at:]
                return b"".join(out), b""
            at = then
        return b"".join(out), data[at:]

    # each reads from `at` and returns how far it came; not at all where more must come first

    def _read_size(self, data: bytes, at: int, out: list[bytes]) -> int:
        line = _SIZE.match(data, at, at + LINE_LIMIT)
        if line is None:
            so_far = data[at : at + LINE_LIMIT]
            if len(so_far) == LINE_LIMIT or _SIZE_SO_FAR.fullmatch(so_far) is None:
                raise BadRequest("llmgate: a chunk of the body has no proper size (BAD_REQUEST)")
            return at
        self._extensions += len(line[2] or b"")
        if self._extensions > EXTENSIONS_LIMIT:
            raise BadRequest("llmgate: the chunks of the body have too long extensions (BAD_REQUEST)")
        size = int(line[1], 16)
        if not size:
            self._step = self._read_trailer
            return line.end()
        self._count(size)
        out.append(b"%x\r\n" % size)
        self._left, self._step = size, self._read_data
        return line.end()

    def _count(self, size: int) -> None:
        self._chunks += 1
        self._bytes += size
        if self._chunks > FREE_CHUNKS + self._bytes // MEAN_SIZE:
            raise BadRequest("llmgate: the body comes in too many too small chunks (BAD_REQUEST)")

    def _read_data(self, data: bytes, at: int, out: list[bytes]) -> int:
        piece = data[at : at + self._left]
        out.append(piece)
        self._left -= len(piece)
        if not self._left:
            self._step = self._read_end
        return at + len(piece)

    def _read_end(self, data: bytes, at: int, out: list[bytes]) -> int:
        end = data[at : at + 2]
        if end == b"\r":
            return at
        if end != b"\r\n":
            raise BadRequest("llmgate: a chunk of the body does not end where its size says (BAD_REQUEST)")
        out.append(end)
        self._step = self._read_size
        return at + 2

    def _read_trailer(self, data: bytes, at: int, out: list[bytes]) -> int:
        if data.startswith(b"\r\n", at):
            out.append(_LAST)
            self.done = True
            return at + 2
        if data[at:] == b"\r":
            return at
        rest = TRAILERS_LIMIT - self._trailers_size
        line = _TRAILER.match(data, at, at + rest)
        if line is None:
            so_far = data[at : at + rest]
            if _TRAILER_SO_FAR.fullmatch(so_far) is None:
                raise BadRequest("llmgate: a trailer of the body is not well-formed (BAD_REQUEST)")
            if len(so_far) == rest:
                raise HeadTooLarge("llmgate: the trailers of the body are too large (HEAD_TOO_LARGE)")
            return at
        self._trailers += 1
        self._trailers_size += line.end() - at
        if self._trailers > FIELDS_LIMIT:
            raise HeadTooLarge("llmgate: the body has too many trailers (HEAD_TOO_LARGE)")
        return line.end()
