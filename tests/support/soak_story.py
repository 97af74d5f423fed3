"""What one soak left behind: the accounts of its clients, of its servers and of the daemon, and their figures."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Told:
    """One request as its client saw it."""

    tag: str
    upstream: str
    sent: str
    """Surface and manner, for people."""
    end: str = "nothing"
    """"whole", "left" (it left by itself), "cut" (the connection ended before the answer did), or the code or status of
    its error."""
    request_id: str = ""
    """As the answer's head told it."""


@dataclass
class Known:
    """One request as the daemon's events tell it."""

    request_id: str
    tag: str
    upstream: str
    kinds: list[str] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Figures:
    """The daemon's process at one moment."""

    at: float
    """Seconds since the soak began."""
    memory: int
    """Bytes resident."""
    files: int
    threads: int


@dataclass
class Story:
    """All of it."""

    caps: dict[str, int]
    """The highest max_concurrent that each upstream had."""
    told: list[Told] = field(default_factory=list)
    known: dict[str, Known] = field(default_factory=dict)
    """By request id."""
    started: dict[str, list[str]] = field(default_factory=dict)
    """By upstream: ids in the order in which it gave them a slot. Upstreams that write no ledger are not in it."""
    most_running: dict[str, int] = field(default_factory=dict)
    """By upstream, as it counted itself."""
    missed_events: int = 0
    """Numbers that the feed of events left out."""
    figures: list[Figures] = field(default_factory=list)
    deeds: Counter[str] = field(default_factory=Counter)
    """What was done to servers and daemon, how often."""
    end: dict[str, Any] = field(default_factory=dict)
    """Waiting, running and draining, and open files, when all clients had gone."""
    start_files: int = 0
    start_threads: int = 0
    start_tasks: Counter[str] = field(default_factory=Counter)
    end_tasks: Counter[str] = field(default_factory=Counter)
    """The daemon's asyncio tasks by what they do."""
    log_errors: list[str] = field(default_factory=list)

    def note_event(self, event: dict[str, Any]) -> None:
        """One `event` of the feed."""
        request_id = event["request_id"]
        if not request_id:
            return
        known = self.known.setdefault(request_id, Known(request_id, event.get("session", ""), event["upstream"]))
        known.kinds.append(event["kind"])
        if event.get("outcome"):
            known.outcomes.append(event["outcome"])

    def read_ledger(self, upstream: str, text: str) -> None:
        """What a server wrote down."""
        lines = [line.split() for line in text.splitlines()]
        starts = [words for words in lines if words[0] == "start"]
        self.started[upstream] = [words[1] for words in starts]
        self.most_running[upstream] = max((int(words[2]) for words in starts), default=0)
