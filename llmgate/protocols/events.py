"""Cuts an event stream into the name and the data of its events.

The grammar is that of server-sent events (WHATWG HTML, 9.2), as in `protocols.sse`, which passes whole events on; here
nothing passes, so no bytes are kept but the unfinished line and the event's data. The result depends on the bytes
alone, never on how they were cut into pieces, and the work is linear in them.
"""

from collections.abc import Iterator

from llmgate.protocols.budget import Budget
from llmgate.protocols.document import read_object

_LINE_COST = 64
"""Bytes that a kept line costs beyond its own."""

DONE = b"[DONE]"
"""The data that ends a stream of OpenAI's."""

Event = tuple[bytes, bytes]
"""Name and data, b"" where there is none; the lines of data joined by LF."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventCutter:
    """Feed it the bytes as they come."""

    __slots__ = ("_after_cr", "_at_start", "_budget", "_data", "_held", "_name", "_size")

    def __init__(self, budget: Budget) -> None:
        """`budget` bounds what is kept of one event; others may take from it as well."""
        self._budget = budget
        self._at_start = True
        self._after_cr = False
        """The last line ended with CR: an LF that comes next belongs to it."""
        self._held = bytearray()
        """The unfinished line."""
        self._name = b""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[Event]:
        """The events that ended, one by one; UpstreamFailed where one is too long, after those before it."""
        if self._after_cr and data:
            self._after_cr = False
            data = data.removeprefix(b"\n")
        self._held += data
        if b"\n" not in data and b"\r" not in data:
            self._budget.require(len(self._held))
            return
        lines = bytes(self._held).splitlines(keepends=True)
        self._held.clear()
        self._after_cr = lines[-1].endswith(b"\r")
        if not lines[-1].endswith((b"\n", b"\r")):
            self._held += lines.pop()
        for line in lines:
            if event := self._read(line.rstrip(b"\r\n")):
                yield event
        self._budget.require(len(self._held))

    def end(self) -> Iterator[Event]:
        """The last event where the server left out its end; it may be cut anywhere."""
        for line in (bytes(self._held), b""):
            if event := self._read(line):
                yield event
        self._held.clear()

    def _read(self, line: bytes) -> Event | None:
        """Takes a line without its end."""
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            return self._dispatch()
        self._budget.require(len(line))
        field, _, value = line.partition(b":")
        if field == b"data":
            self._keep(len(line) + _LINE_COST)
            self._data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
            self._keep(len(name) - len(self._name))
            self._name = name
        return None

    def _keep(self, size: int) -> None:
        self._budget.take(size)
        self._size += size

    def _dispatch(self) -> Event | None:
        event = (self._name, b"\n".join(self._data))
        self._budget.give_back(self._size)
        self._name, self._size = b"", 0
        self._data.clear()
        return event if any(event) else None


def without_half_a_line(event: Event) -> Event:
    """The last event of a stream, whose last line may be cut anywhere."""
    name, data = event
    whole_line = data.strip() == DONE or read_object(data) is not None
    return event if whole_line else (name, data.rpartition(b"\n")[0])
