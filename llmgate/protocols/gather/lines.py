"""Cuts a stream of JSON lines (Ollama's NDJSON) into the data of nameless events.

The result depends on the bytes alone, never on how they were cut into pieces, and the work is linear in them.
"""

from collections.abc import Iterator

from llmgate.protocols.budget import Budget
from llmgate.protocols.events import Event


class LineCutter:
    """Feed it the bytes as they come."""

    __slots__ = ("_budget", "_held")

    def __init__(self, budget: Budget) -> None:
        """`budget` bounds a line; others may take from it as well."""
        self._budget = budget
        self._held = bytearray()
        """The unfinished line."""

    def feed(self, data: bytes) -> Iterator[Event]:
        """The lines that ended, one by one; UpstreamFailed where one is too long, after those before it."""
        *ended, rest = data.split(b"\n")
        for end in ended:
            self._held += end
            self._budget.require(len(self._held))
            line = bytes(self._held)
            self._held.clear()
            yield b"", line
        self._held += rest
        self._budget.require(len(self._held))

    def end(self) -> Iterator[Event]:
        """The last line where the server left out its end; it may be cut anywhere."""
        line = bytes(self._held)
        self._held.clear()
        yield b"", line
