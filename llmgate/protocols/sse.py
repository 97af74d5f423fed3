"""Cuts an upstream's event stream into whole events, on its way to the client, and reads them on the side.

The grammar is that of server-sent events (WHATWG HTML, 9.2): lines end with LF, CR or CRLF, a blank line ends an event.

- What `feed` and `finish` return, joined, and what is counted depend on the bytes of the stream alone, never on how
  they were cut into pieces.
- Events pass byte for byte, but for errors of a foreign shape or with a secret: see FaultWatch. A block without a field
  line, that is, comments alone or a surplus blank line, is swallowed: openai-python takes a blank line after an event
  with an `id:` for an event of its own, and breaks. Until the first event the gate sends its own signs of life. A
  comment line inside an event passes with it.
- An unfinished event is held back, up to LIMIT bytes. One that is longer passes as it comes and is not read.
- An event ends with the CR of its blank line. An LF that follows belongs to it and passes as soon as it comes.
- Nothing passes behind the stream's own end: clients stop reading there, or are confused.
- A byte order mark passes where it still stands at the start of what the client gets, else it is swallowed.
- The work is linear in the bytes, the memory bounded by LIMIT and one piece: `_scanned` remembers how far the held
  bytes were searched.
"""

import re
from typing import Any

import msgspec

from llmgate.protocols.decoding import decoded
from llmgate.protocols.fault import ErrorFrame, FaultWatch
from llmgate.protocols.surface import QueuePosition

EVENT_STREAM = b"text/event-stream; charset=utf-8"

LIMIT = 1 << 20
"""Bytes of one event that are held back."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANK_LINES = re.compile(rb"[\r\n]*")
_END = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")
_FIELD_AFTER_COMMENT = re.compile(rb"[\r\n][^:\r\n]")
_TAIL = 1
"""Bytes that may hold the beginning of an event's end: the end of its last line."""


class _Object(msgspec.Struct):
    """Any JSON object."""


_OBJECT = msgspec.json.Decoder(_Object)


def is_event_stream(content_type: bytes) -> bool:
    """Whether an answer of this Content-Type consists of server-sent events."""
    return content_type.lower().startswith(b"text/event-stream")


def fields(event: bytes) -> tuple[bytes, bytes]:
    """The name and the data of one event, b"" where it has none; the lines of data joined by LF."""
    name, data = b"", []
    for line in event.splitlines():
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    return name, b"\n".join(data)


def kind_of(document: dict[str, Any]) -> bytes:
    """The name of an event that only its data tells, b"" where that has none."""
    kind = document.get("type")
    return kind.encode("utf-8", "replace") if isinstance(kind, str) else b""


def comment(position: QueuePosition | None) -> bytes:
    """A sign of life that every client skips; never a bare colon, and never one that begins with ": ping"."""
    return f": queue {position.position}/{position.depth}\n\n".encode() if position else b": working\n\n"


class EventWatch(FaultWatch):
    """The part of a StreamWatch that is the same on every surface; a surface adds `_read` and a short cut in `feed`."""

    __slots__ = (
        "_at_start",
        "_between",
        "_counting",
        "_has_cr",
        "_held",
        "_lf_belongs",
        "_scanned",
        "_sent",
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
        self._counting = True
        """Until the server tells its own number of tokens."""
        self._between = False
        """Nothing is held and the next byte begins an event: a short cut may be tried. False before the first byte."""
        self._held = bytearray()
        """The unfinished event; while `inside_event` the last bytes of it, `_sent` of which are out already."""
        self._sent = self._scanned = 0
        self._at_start = True
        self._lf_belongs = False
        """The last event that was passed ended with CR, at the end of a piece."""
        self._has_cr = False
        """The newest piece holds a CR: else an event that ends in it ends with two LF."""

    def feed(self, data: bytes) -> bytes:
        """See StreamWatch."""
        if not data:
            return b""
        if self._is_over:
            return self._end(data)
        self._held += data
        self._has_cr = b"\r" in data
        out: list[bytes] = []
        if self._begin(out):
            self._pass_events(out)
        self._between = not (self._held or self._at_start or self._lf_belongs or self.inside_event or self._is_over)
        return b"".join(out)

    def _end(self, data: bytes) -> bytes:
        """What of it still belongs to the last event."""
        belongs, self._lf_belongs = self._lf_belongs and self.complete, False
        return b"\n" if belongs and data.startswith(b"\n") else b""

    def finish(self) -> bytes:
        """See StreamWatch. Some servers leave out the last blank line: it is added if the data is whole."""
        if self.inside_event or not self._held:
            return b""
        event = bytes(self._held) + (b"\n" if self._held.endswith(b"\n") else b"\n\n")
        self._held.clear()
        _, data = fields(event)
        whole = data.strip() == b"[DONE]" or decoded(_OBJECT, data) is not None
        return self._take(event) if whole else b""

    def _read(self, event: bytes) -> None:
        """Takes from one whole event what is to be known of it; calls `_fail` where it tells an error."""
        raise NotImplementedError

    def _begin(self, out: list[bytes]) -> bool:
        """Passes what comes before the first event in the held bytes; False: there is none yet."""
        if self._at_start:
            return self._begin_stream(out)
        if self._lf_belongs:
            self._lf_belongs = False
            if self._held.startswith(b"\n"):
                out.append(b"\n")
                del self._held[:1]
        return not self.inside_event or self._leave_event(out)

    def _begin_stream(self, out: list[bytes]) -> bool:
        if len(self._held) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(self._held):
            return False
        self._at_start = False
        if self._held.startswith(_BYTE_ORDER_MARK):
            del self._held[: len(_BYTE_ORDER_MARK)]
            if not self.opened:
                out.append(_BYTE_ORDER_MARK)
        return True

    def _leave_event(self, out: list[bytes]) -> bool:
        """Goes on passing an event that is too long to be held; True: it has ended."""
        end = self._find_end(0)
        self.inside_event = end < 0
        if self.inside_event:
            self._pass_unfinished(out, self._sent)
            return False
        out.append(bytes(self._held[self._sent : end]))
        self._lf_belongs = end == len(self._held) and self._held.endswith(b"\r")
        del self._held[:end]
        return True

    def _pass_events(self, out: list[bytes]) -> None:
        held, start, scan = self._held, 0, self._scanned
        while True:
            start = self._skip_blank_lines(start)
            end = self._find_end(max(start, scan))
            if end < 0:
                break
            event = self._take(bytes(held[start:end]))
            out.append(event)
            self._lf_belongs = end == len(held) and event.endswith(b"\r")
            if self._is_over:
                held.clear()
                return
            start = scan = end
        if len(held) - start > LIMIT:
            self.inside_event = self.started = True
            self._pass_unfinished(out, start)
            return
        del held[:start]
        self._scanned = max(len(held) - _TAIL, 0)

    def _skip_blank_lines(self, start: int) -> int:
        found = _BLANK_LINES.match(self._held, start)
        return found.end() if found else start

    def _find_end(self, scan: int) -> int:
        """Where the first event ends that ends behind `scan`, or a negative number."""
        if not self._has_cr:
            found = self._held.find(b"\n\n", scan)
            return found + 2 if found >= 0 else -1
        end = _END.search(self._held, scan)
        return end.end() if end else -1

    def _pass_unfinished(self, out: list[bytes], start: int) -> None:
        out.append(bytes(self._held[start:]))
        del self._held[:-_TAIL]
        self._sent = len(self._held)
        self._scanned = 0

    def _take(self, event: bytes) -> bytes:
        """What passes of one whole block: all of it, or nothing, or what stands for its error."""
        if len(event) - event.endswith(b"\r\n") > LIMIT:  # without an LF that might have come later
            self.started = True
            return event
        if event.startswith(b":") and not _FIELD_AFTER_COMMENT.search(event):
            return b""
        self.started = True
        self._read(event)
        return self._passed(event)
