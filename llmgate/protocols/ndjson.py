"""Cuts an upstream's stream of JSON lines (Ollama's NDJSON) into whole lines, and reads them on the side.

- What `feed` and `finish` return, joined, and what is counted depend on the bytes of the stream alone, never on how
  they were cut into pieces.
- A line ends with LF and passes byte for byte, but for errors of a foreign shape or with a secret: see FaultWatch. One
  of nothing but blanks is swallowed: Ollama's clients take every line for JSON. So is what comes behind the last line.
- An unfinished line is held back, up to LIMIT bytes. One that is longer passes as it comes and is not read.
- The work is linear in the bytes, the memory bounded by LIMIT and one piece.
"""

from typing import Annotated

import msgspec

from llmgate.protocols.decoding import NULL, decoded
from llmgate.protocols.document import read_object
from llmgate.protocols.fault import ErrorFrame, FaultWatch, is_fault

NDJSON = b"application/x-ndjson"
_TYPES = (NDJSON, b"application/ndjson")

LIMIT = 1 << 20
"""Bytes of one line that are held back."""

_BLANKS = b" \t\r\n"
_START = b'{"model":'
_NEXT_START = b"\n" + _START
_TRUE = msgspec.Raw(b"true")

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _Part(msgspec.Struct):
    done: msgspec.Raw = NULL


class _Counts(msgspec.Struct):
    prompt_eval_count: _Count | None = None
    eval_count: _Count | None = None


_PART = msgspec.json.Decoder(_Part)
_COUNTS = msgspec.json.Decoder(_Counts)


def is_ndjson(content_type: bytes) -> bool:
    """Whether an answer of this Content-Type consists of lines of JSON."""
    return content_type.lower().startswith(_TYPES)


class LineWatch(FaultWatch):
    """See StreamWatch. `opened` means nothing here: JSON has no byte order mark."""

    __slots__ = (
        "_held",
        "input_tokens",
        "inside_event",
        "opened",
        "output_tokens",
        "started",
    )

    def __init__(self, error_frame: ErrorFrame) -> None:
        super().__init__(error_frame)
        self.started = self.inside_event = self.opened = False
        self.output_tokens = 0
        self.input_tokens: int | None = None
        self._held = bytearray()
        """The unfinished line; empty while it is `inside_event`."""

    def feed(self, data: bytes) -> bytes:
        """See StreamWatch. The short cut: nothing but whole parts of an answer that goes on."""
        if self._is_over:
            return b""
        if not self._held and not self.inside_event and _is_regular(data):
            self.started = True
            self.output_tokens += data.count(b"\n")
            return data
        return b"".join(self._pass(data))

    def finish(self) -> bytes:
        """See StreamWatch."""
        line = bytes(self._held)
        self._held.clear()
        return self._take(line + b"\n") if decoded(_PART, line) is not None else b""

    def _pass(self, data: bytes) -> list[bytes]:
        out: list[bytes] = []
        if self.inside_event:
            end = data.find(b"\n") + 1 or len(data)
            self.inside_event = not data.endswith(b"\n", 0, end)
            out.append(data[:end])
            data = data[end:]
        *ended, rest = data.split(b"\n")
        for line in ended:
            self._held += line + b"\n"
            out.append(self._take(bytes(self._held)))
            self._held.clear()
            if self._is_over:
                return out
        self._held += rest
        if len(self._held) > LIMIT:
            self.inside_event = self.started = True
            out.append(bytes(self._held))
            self._held.clear()
        return out

    def _take(self, line: bytes) -> bytes:
        """What passes of one whole line: all of it, or nothing, or what stands for its error."""
        if len(line) > LIMIT + 1:  # more than LIMIT bytes before its end
            self.started = True
            return line
        if not line.strip(_BLANKS):
            return b""
        self.started = True
        self._read(line)
        return self._passed(line)

    def _read(self, line: bytes) -> None:
        if (b"error" in line or b"\\u" in line) and is_fault(document := read_object(line) or {}):
            error = document.get("error")
            self._fail(document, line, is_own=isinstance(error, str) and error != "")
        elif (decoded(_PART, line) or _Part()).done == _TRUE:
            self.complete = True
            self._read_counts(decoded(_COUNTS, line) or _Counts())
        else:
            self.output_tokens += 1

    def _read_counts(self, counts: _Counts) -> None:
        if counts.prompt_eval_count is not None:
            self.input_tokens = counts.prompt_eval_count
        if counts.eval_count is not None:
            self.output_tokens = counts.eval_count


def _is_regular(data: bytes) -> bool:
    """Whole lines, each of which begins as Ollama's do, and none of which says that it is the last or an error.

    Without an escaped letter, a key `done` or `error` cannot be written otherwise.
    """
    return (
        data.startswith(_START)
        and data.endswith(b"\n")
        and data.count(b"\n") == data.count(_NEXT_START) + 1
        and data.count(b'"done"') == data.count(b'"done":false')
        and b'"error"' not in data
        and b"\\u" not in data
        and len(data) <= LIMIT
    )
