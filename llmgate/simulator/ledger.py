"""What a simulated server saw: the account that tests and `GET /simulator/stats` hold against the gate's own."""

from collections import deque
from dataclasses import asdict, dataclass, field
from typing import Any

HISTORY = 10_000


def _history() -> deque[str]:
    return deque(maxlen=HISTORY)


@dataclass
class Ledger:
    """Counts since the start, and the newest 10,000 ids in the order in which their requests got a slot."""

    seen: int = 0
    """Model requests read whole."""
    running: int = 0
    highest: int = 0
    """Most requests in a slot at one time."""
    waiting: int = 0
    """Requests held back inside at this moment."""
    held_back: int = 0
    """Requests that had to wait inside for a slot, ever: 0 behind a gate that does its work."""
    finished: int = 0
    aborted: int = 0
    """Requests whose client closed before the answer was over, held back or running."""
    failed: int = 0
    """Requests that failed as they were told to."""
    connections: int = 0
    started: deque[str] = field(default_factory=_history)
    left: deque[str] = field(default_factory=_history)
    """Ids of the aborted ones."""

    def start(self, call_id: str) -> None:
        self.running += 1
        self.highest = max(self.highest, self.running)
        self.started.append(call_id)

    def abort(self, call_id: str) -> None:
        self.aborted += 1
        self.left.append(call_id)

    def as_plain(self) -> dict[str, Any]:
        return asdict(self) | {"started": list(self.started), "left": list(self.left)}
