"""Tells when an upstream that takes nobody new has run empty: the moment for which `drain` is done."""

from collections import Counter

from llmgate.core.events import (
    Abandoned,
    Admitted,
    Dismissed,
    Event,
    Expired,
    Mode,
    ModeChanged,
    Queued,
    RanEmpty,
    Released,
    UpstreamRenamed,
)


class Emptied:
    """A fold over the events of all gates. Each is closed and emptied once, until it is opened again."""

    def __init__(self) -> None:
        self._inside: Counter[str] = Counter()
        """Who waits, runs or drains, by upstream."""
        self._closed: set[str] = set()

    def apply(self, event: Event) -> RanEmpty | None:
        """Takes in one event; what follows from it, if anything does."""
        name = event.upstream
        if event.number == 1:  # a new gate, perhaps under the name of one that is gone
            self._closed.discard(name)
            self._inside.pop(name, None)
        match event:
            case UpstreamRenamed(old=old):
                self._rename(old, name)
                return None
            case Queued() | Admitted(queued=False):
                self._inside[name] += 1
                return None
            case ModeChanged(new=Mode.CLOSED):
                self._closed.add(name)
            case ModeChanged():
                self._closed.discard(name)
            case Abandoned() | Expired() | Dismissed() | Released():
                self._inside[name] -= 1
            case _:
                return None
        return RanEmpty(0, event.at, name) if name in self._closed and not self._inside[name] else None

    def _rename(self, old: str, new: str) -> None:
        """Whoever is there stays, and so does that it is closed. What was called `new` before is gone."""
        self._inside[new] = self._inside.pop(old, 0)
        self._closed = {new if name == old else name for name in self._closed if name != new}
