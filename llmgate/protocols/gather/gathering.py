"""What the server needs of an answer that is put together from a stream, and the part that is the same for each."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar

from llmgate.errors import UpstreamFailed
from llmgate.protocols.budget import Budget
from llmgate.protocols.document import read_object
from llmgate.protocols.events import DONE, Event, EventCutter, without_half_a_line
from llmgate.protocols.fault import fault_status, is_fault
from llmgate.protocols.upstream_error import UpstreamTold

LIMIT = 64 << 20
"""Bytes of JSON that are kept of one answer, an unfinished event included."""

NO_END = "llmgate: the upstream ended its stream before the answer was complete (UPSTREAM_ERROR)"
UNREADABLE = "llmgate: the upstream sent a part of its answer that cannot be read (UPSTREAM_ERROR)"
TOO_DEEP = "llmgate: the upstream's answer is nested too deeply (UPSTREAM_ERROR)"

_MOST_TOKENS = 2**53
_T = TypeVar("_T")


class Gathering(Protocol):
    """Made for one answer. All methods are pure."""

    @property
    def started(self) -> bool:
        """A real event, not a comment, has come."""
        ...

    @property
    def complete(self) -> bool:
        """The stream's own end has come; whatever follows it is ignored."""
        ...

    @property
    def failed(self) -> bool:
        """`end` will raise, whatever may follow: the stream need not be read any further."""
        ...

    @property
    def output_tokens(self) -> int:
        """As in StreamWatch; so is the next."""
        ...

    @property
    def input_tokens(self) -> int | None: ...

    def feed(self, data: bytes) -> None:
        """The next bytes of the stream, however they are cut. Never raises."""
        ...

    def end(self) -> bytes:
        """At the regular end of the stream's bytes: the JSON document that the server would have answered itself.

        UpstreamFailed where the stream broke off without its own end, cannot be read or is too long; UpstreamTold where
        it told an error.
        """
        ...


class Cutter(Protocol):
    """Cuts a stream into events."""

    def feed(self, data: bytes) -> Iterator[Event]:
        """The events that ended; UpstreamFailed where one is too long."""
        ...

    def end(self) -> Iterator[Event]:
        """The last event where the server left out its end; it may be cut anywhere."""
        ...


class StreamGathering:
    """See Gathering. A surface adds `_read` and `_assemble`, and where its stream ends."""

    __slots__ = ("_budget", "_counting", "_cutter", "_fault", "complete", "input_tokens", "output_tokens", "started")

    def __init__(self, limit: int = LIMIT) -> None:
        self._budget = Budget(limit)
        self._cutter: Cutter = EventCutter(self._budget)
        self._fault: UpstreamFailed | None = None
        """What `end` raises."""
        self.complete = self.started = False
        self.output_tokens = 0
        self.input_tokens: int | None = None
        self._counting = True
        """Until the server tells its own number of tokens."""

    @property
    def failed(self) -> bool:
        """See Gathering."""
        return self._fault is not None

    def feed(self, data: bytes) -> None:
        """See Gathering."""
        if not (self.complete or self._fault):
            self._take_all(self._cutter.feed(data))

    def end(self) -> bytes:
        """See Gathering."""
        if not (self.complete or self._fault):
            self._take_all(map(without_half_a_line, self._cutter.end()))
        if not (self._fault or self.complete or self._may_end()):
            self._fault = UpstreamFailed(NO_END)
        if self._fault is not None:
            raise self._fault
        try:
            return self._assemble()
        except RecursionError:
            raise UpstreamFailed(TOO_DEEP) from None

    def _read(self, name: bytes, document: dict[str, Any]) -> None:
        """Takes one event's data; UpstreamFailed where it makes no sense."""
        raise NotImplementedError

    def _assemble(self) -> bytes:
        """The document, of a stream that has ended; UpstreamFailed where there is none."""
        raise NotImplementedError

    def _may_end(self) -> bool:
        """Whether the end of the bytes is as good as the stream's own end, which did not come."""
        return False

    def _close(self) -> None:
        """[DONE] has come."""

    def _take_all(self, events: Iterable[Event]) -> None:
        try:
            for name, data in events:
                self._take(name, data.strip())
                if self.complete:
                    return
        except UpstreamFailed as error:
            self._fault = error
        except RecursionError:
            self._fault = UpstreamFailed(TOO_DEEP)

    def _take(self, name: bytes, data: bytes) -> None:
        if not data and name != b"error":
            return
        self.started = True
        document = read_object(data)
        if data == DONE:
            self._close()
        elif name == b"error" or (document is not None and is_fault(document)):
            raise UpstreamTold(fault_status(document or {}), data)
        elif document is not None:
            self._read(name, document)
        elif b"\n" in data:  # several events without a blank line between them
            for line in data.split(b"\n"):
                self._take(name, line.strip())
        elif data != b"null":  # llama-server sends it for a token that has no text yet
            raise UpstreamFailed(UNREADABLE)

    def _count_output(self, told: Any) -> None:
        """The server's own number, where it is one."""
        if (tokens := token_count(told, None)) is not None:
            self.output_tokens = tokens
            self._counting = False


def token_count(told: Any, known: _T) -> int | _T:
    """What was told, where it is a number of tokens; else what is known."""
    if isinstance(told, int) and not isinstance(told, bool) and 0 <= told <= _MOST_TOKENS:
        return told
    return known
