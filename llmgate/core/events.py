"""What happened at a gate: numbered facts in the past tense, from which everybody else learns.

Log, metrics, queue frames, admin feed and TUI all feed on these and keep no second account: folding the events of a
gate with `Tally` gives its statistics (a tested property). Times are seconds on the caller's monotonic clock.
"""

import enum
from typing import ClassVar, Literal

import msgspec

from llmgate.core.caller import Caller
from llmgate.errors import Outcome


class Mode(enum.Enum):
    """What a gate does with those who come and wait."""

    OPEN = "open"
    PAUSED = "paused"
    """An operator's: queues, admits nobody."""
    HELD = "held"
    """The upstream is down: queues, admits nobody."""
    CLOSED = "draining"
    """Takes nobody new: whoever waits and runs is served to the end, or was dismissed."""


Alarm = Literal["stalled", "draining", "hidden_wait", "mismatch", "drift"]
"""stalled: at capacity, somebody waits, no slot falls free. draining: the server is still busy with a request that is
over. hidden_wait: the server makes a request wait that has a slot here. mismatch: the server has fewer slots than
max_concurrent. drift: the gate's own count and what is seen of the server go apart."""


class Limits(msgspec.Struct, frozen=True):
    """The limits of an upstream."""

    max_concurrent: int = 1
    """Requests in flight at once; 0 = not gated."""
    max_queued: int | None = None
    """Requests that may wait; None = no limit, 0 = refuse at once when busy."""
    queue_timeout: float | None = None
    """Longest wait in seconds; None = for ever."""
    stall_alarm: float | None = None
    """Seconds without a slot falling free, while somebody waits for one, after which that is alarming; None = never."""


class Event(msgspec.Struct, frozen=True):
    """Base of all: `number` counts the events of one gate from 1 without gaps."""

    number: int
    at: float
    upstream: str


class TicketEvent(Event, frozen=True):
    """Something happened to one ticket."""

    ticket: int
    caller: Caller


class Queued(TicketEvent, frozen=True):
    """It has to wait. `order` is its place in the dispatch order: the lowest is next."""

    depth: int
    order: int
    deadline: float | None


class Admitted(TicketEvent, frozen=True):
    """It has a slot. `queued` tells whether it had to wait for it, `waited` how long, in seconds."""

    queued: bool
    waited: float
    endpoint: str = ""
    """Which server takes it."""


class Drained(TicketEvent, frozen=True):
    """Its part is over for the client, the server is not known to be free of it yet."""

    outcome: Outcome
    ran: float
    by: str = ""
    """Who had it done, here and below: an operator who cancelled it."""
    reason: str = ""
    """Why it ended so, here and below, for an operator: what failed, "" where the outcome says all."""


class Released(TicketEvent, frozen=True):
    """Its slot is free again. `outcome` is None where Drained has told it already."""

    outcome: Outcome | None
    ran: float
    by: str = ""
    reason: str = ""


class Abandoned(TicketEvent, frozen=True):
    """Its client left while it waited."""

    outcome: ClassVar[Outcome] = "abandoned"
    waited: float


class Expired(TicketEvent, frozen=True):
    """It waited as long as it may."""

    outcome: ClassVar[Outcome] = "queue_timeout"
    waited: float


class Dismissed(TicketEvent, frozen=True):
    """It was sent away while it waited: by an operator, by a gate that closed, or by a fault of ours."""

    outcome: Outcome
    waited: float
    by: str = ""
    reason: str = ""


class Refused(Event, frozen=True):
    """It was not let in: outcome queue_full or refused. It never had a ticket."""

    caller: Caller
    outcome: Outcome
    depth: int
    limit: int | None
    reason: str = ""


class Moved(TicketEvent, frozen=True):
    """An operator put it in front of those who wait."""

    order: int
    by: str = ""


class Requeued(TicketEvent, frozen=True):
    """Its endpoint died before a byte was written: it stands at its old place in the line again."""

    order: int


class LimitsChanged(Event, frozen=True):
    old: Limits
    new: Limits
    by: str = ""


class ModeChanged(Event, frozen=True):
    old: Mode
    new: Mode
    by: str = ""


class EndpointChanged(Event, frozen=True):
    """A server is down or back, or its own limit is another."""

    endpoint: str
    up: bool
    max_concurrent: int
    """0 = no bound of its own."""
    old_up: bool
    old_max_concurrent: int
    reason: str = ""
    """Why it is down, for a person."""
    holding: int = 0
    """How many wait while the queue is held, as no server is up."""


class EndpointsReplaced(Event, frozen=True):
    """A reload gave it other servers. `caps` are their limits by name, `kept` the old name of those that were there
    before, `where` the endpoint of each ticket in flight; "": its server is gone from here, it runs on there."""

    caps: dict[str, int]
    kept: dict[str, str]
    holds: bool
    where: dict[int, str] = {}


class UpstreamRenamed(Event, frozen=True):
    """A reload calls it otherwise; `upstream` is the new name. Who waits and runs there stays."""

    old: str


class SettingsReloaded(Event, frozen=True):
    """The settings were read again. It belongs to no gate: `upstream` is "" and `number` 0."""

    text: str
    """For a person: how many changed, or why none did."""
    by: str = ""


class CallerRefused(Event, frozen=True):
    """Somebody was not let in, by his key or the page that asks. Of like ones only some are told, so that nobody can
    fill what is kept of events. It belongs to no gate: `upstream` is "" and `number` 0."""

    code: str
    text: str
    """For a person: who, why, and how many more."""
    key: str = ""
    """Name of the key."""


class RanEmpty(Event, frozen=True):
    """Nobody is left at an upstream that takes nobody new. It follows from the events of its gate: `number` is 0."""


class AlarmRaised(Event, frozen=True):
    """Settings and reality differ, or something does not move. It lasts until AlarmCleared."""

    alarm: Alarm
    text: str
    """For a person, without the upstream's name."""


class AlarmCleared(Event, frozen=True):
    alarm: Alarm


class GateStatistics(msgspec.Struct, frozen=True):
    """A gate at one moment. Counts are since it was made."""

    limits: Limits
    mode: Mode
    waiting: int
    running: int
    draining: int
    queued: int
    """How many had to wait, refused ones left out."""
    admitted: int
    outcomes: dict[Outcome, int]
    alarms: dict[Alarm, str] = {}
    """Those that last, with their texts."""


class Tally:
    """Folds the events of one gate into its statistics."""

    __slots__ = (
        "_admitted",
        "_draining",
        "_limits",
        "_mode",
        "_outcomes",
        "_queued",
        "_running",
        "_waiting",
        "alarms",
    )

    def __init__(self, limits: Limits) -> None:
        self._limits, self._mode = limits, Mode.OPEN
        self._waiting = self._running = self._draining = self._queued = self._admitted = 0
        self._outcomes: dict[Outcome, int] = {}
        self.alarms: dict[Alarm, str] = {}
        """Those that last; only to be looked at."""

    def apply(self, event: Event) -> None:
        """Takes in one event; they must come in the order of their numbers."""
        match event:
            case Admitted(queued=queued):
                self._waiting -= queued
                self._running += 1
                self._admitted += 1
            case Released(outcome=None):
                self._draining -= 1
            case Released(outcome=outcome) if outcome is not None:
                self._running -= 1
                self._count(outcome)
            case Queued():
                self._waiting += 1
                self._queued += 1
            case Drained(outcome=outcome):
                self._running -= 1
                self._draining += 1
                self._count(outcome)
            case Abandoned(outcome=outcome) | Expired(outcome=outcome) | Dismissed(outcome=outcome):
                self._waiting -= 1
                self._count(outcome)
            case Refused(outcome=outcome):
                self._count(outcome)
            case Requeued():
                self._running -= 1
                self._waiting += 1
                self._admitted -= 1
            case _:
                self._apply_change(event)

    def _apply_change(self, event: Event) -> None:
        match event:
            case LimitsChanged(new=limits):
                self._limits = limits
            case ModeChanged(new=mode):
                self._mode = mode
            case AlarmRaised(alarm=alarm, text=text):
                self.alarms[alarm] = text
            case AlarmCleared(alarm=alarm):
                del self.alarms[alarm]
            case _:
                pass

    def _count(self, outcome: Outcome) -> None:
        self._outcomes[outcome] = self._outcomes.get(outcome, 0) + 1

    def statistics(self) -> GateStatistics:
        """The statistics after the last event."""
        return GateStatistics(
            limits=self._limits,
            mode=self._mode,
            waiting=self._waiting,
            running=self._running,
            draining=self._draining,
            queued=self._queued,
            admitted=self._admitted,
            outcomes=dict(self._outcomes),
            alarms=dict(self.alarms),
        )
