"""The four clocks of one exchange with an upstream, as a pure decision: it is told the time and says what has run out.

connect     from dispatch until TCP and TLS stand
first byte  from dispatch until the first byte of the answer's body (llama-server sends its head long before)
idle        from one piece of the body to the next
total       from dispatch to the end

First byte and idle stand still while back-pressure keeps us from reading; total never does.

Where the server can be asked what it does (`Timeouts.pulse`), these two do not run out while it works: a first look is
taken soon after it fell silent, the next ones when the clock is due, and as long as they show that it came on between
them, the clock begins anew. So such a clock must be longer than what the server does in one go, which it shows only
when it is done: a llama-server's batch.
"""

import enum
import math

from llmgate.core.lateness import is_late
from llmgate.core.work import Look, is_at_work
from llmgate.errors import GateError, UpstreamDown, UpstreamTimeout
from llmgate.upstreams.answer import Timeouts

SLACK = 0.001
"""Seconds that a loop may fire a timer early: uvloop rounds to milliseconds."""

FIRST_LOOK_SECONDS = 1.0
FIRST_LOOK_SHARE = 0.25
"""When the first look is due: so long after the last sign of life, or that share of the clock, if that is less."""

LOOK_SECONDS = 5.0
"""After so long nobody will tell any more what was seen."""


class Clock(enum.Enum):
    CONNECT = "connect"
    FIRST_BYTE = "first_byte"
    IDLE = "idle"
    TOTAL = "total"


_MESSAGES = {
    Clock.FIRST_BYTE: "llmgate: the upstream did not begin its answer in time (UPSTREAM_TIMEOUT)",
    Clock.IDLE: "llmgate: the upstream stopped in the middle of its answer (UPSTREAM_TIMEOUT)",
    Clock.TOTAL: "llmgate: the upstream did not finish its answer in time (UPSTREAM_TIMEOUT)",
}


def timeout_error(clock: Clock) -> GateError:
    """The error of a request whose `clock` ran out."""
    if clock is Clock.CONNECT:
        return UpstreamDown("llmgate: no connection to the upstream in time (UPSTREAM_DOWN)")
    return UpstreamTimeout(_MESSAGES[clock])


class Deadlines:
    """Times are those of one monotonic clock, in seconds."""

    __slots__ = (
        "_asked_at",
        "_connecting",
        "_heard_at",
        "_look",
        "_looked_at",
        "_paused_at",
        "_reread_at",
        "_resumed_at",
        "_since",
        "_started",
        "_streaming",
        "_timeouts",
    )

    def __init__(self, timeouts: Timeouts, now: float) -> None:
        self._timeouts = timeouts
        self._started = now
        self._since = now
        """When the waiting that is measured now began: dispatch, later the last piece of the body, or of other life."""
        self._connecting = True
        self._streaming = False
        self._heard_at = self._resumed_at = self._reread_at = -math.inf
        self._paused_at: float | None = None
        self._asked_at: float | None = None
        """A look is being taken."""
        self._looked_at = -math.inf
        self._look: Look | None = None

    def connected(self) -> None:
        self._connecting = False

    def received(self, now: float) -> bool:
        """A piece of the body is here. True for the first one: the next deadline may now be an earlier one."""
        self._since = self._heard_at = now
        if self._paused_at is not None:
            self._paused_at = now
        first = not self._streaming
        self._streaming = True
        return first

    def pause(self, now: float) -> None:
        if self._paused_at is None:
            self._paused_at = now

    def resume(self, now: float) -> None:
        if self._paused_at is not None:
            self._since += now - self._paused_at
            self._paused_at = None
            self._resumed_at = now

    def heard_since(self, then: float) -> bool:
        """Whether a piece came since then, and whatever the server sent was read: what came was made meanwhile."""
        return self._heard_at >= then and self._paused_at is None and self._resumed_at < then

    def next_deadline(self) -> float | None:
        """When to ask `wants_look` and `expired`."""
        looks = () if (look_at := self._look_at()) is None else (look_at,)
        return min((*looks, *(limit for limit, _ in self._limits())), default=None)

    def expired(self, now: float) -> Clock | None:
        """The clock that ran out first, if one has; `wants_look` goes before."""
        due = [limit for limit in self._limits() if limit[0] <= now + SLACK]
        return Clock(min(due)[1]) if due else None

    def wants_reread(self, now: float) -> bool:
        """Whether what has run out is noticed so late that it is to be asked again in REREAD_SECONDS; true once."""
        due = min(limit for limit, _ in self._limits())
        if not is_late(now, due) or self._reread_at >= due:
            return False
        self._reread_at = now
        return True

    # a look at the server

    def wants_look(self, now: float) -> bool:
        """Whether the server is to be looked at, before the clock that waits for it is judged."""
        look_at = self._look_at()
        if look_at is None or look_at > now + SLACK:
            return False
        return self.expired(now) in (None, self._waiting)

    def begin_look(self, now: float) -> None:
        """`end_look` follows; until then what waits for the server does not run out."""
        self._asked_at = now

    @property
    def look_at(self) -> float:
        """When the look was taken that the next one is compared with."""
        return -math.inf if self._look is None else self._look.at

    def end_look(self, look: Look | None, heard: int, now: float) -> None:
        """What was seen, None where nothing could be; `heard` as in `is_at_work`, since `look_at`."""
        before = self._look if self._looked_at >= self._since else None
        self._asked_at, self._looked_at, self._look = None, now, look
        deadline = self._waiting_until()
        if look is None or deadline is None or deadline > now + SLACK:
            return
        if before is None or is_at_work(before, look, heard):
            self._since = now

    def _look_at(self) -> float | None:
        deadline = self._waiting_until()
        if self._timeouts.pulse is None or self._connecting or self._asked_at is not None or deadline is None:
            return None
        if self._looked_at >= self._since:
            return deadline
        return self._since + min(FIRST_LOOK_SECONDS, (deadline - self._since) * FIRST_LOOK_SHARE)

    # own

    @property
    def _waiting(self) -> Clock:
        return Clock.IDLE if self._streaming else Clock.FIRST_BYTE

    def _waiting_until(self) -> float | None:
        seconds = self._timeouts.idle if self._streaming else self._timeouts.first_byte
        return None if seconds is None or self._paused_at is not None else self._since + seconds

    def _limits(self) -> list[tuple[float, str]]:
        limits = []
        if self._timeouts.total is not None:
            limits.append((self._started + self._timeouts.total, Clock.TOTAL.value))
        if self._connecting and self._timeouts.connect is not None:
            limits.append((self._started + self._timeouts.connect, Clock.CONNECT.value))
        if (until := self._waiting_until()) is not None:
            looking = -math.inf if self._asked_at is None else self._asked_at + LOOK_SECONDS
            limits.append((max(until, looking), self._waiting.value))
        return limits
