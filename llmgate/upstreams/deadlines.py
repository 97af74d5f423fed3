"""The four clocks of one exchange with an upstream, as a pure decision: it is told the time and says what has run out.

connect     from dispatch until TCP and TLS stand
first byte  from dispatch until the first byte of the answer's body (llama-server sends its head long before)
idle        from one piece of the body to the next
total       from dispatch to the end

First byte and idle stand still while back-pressure keeps us from reading; total never does.
"""

import enum

from llmgate.errors import GateError, UpstreamDown, UpstreamTimeout
from llmgate.upstreams.answer import Timeouts

SLACK = 0.001
"""Seconds that a loop may fire a timer early: uvloop rounds to milliseconds."""


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

    __slots__ = ("_connecting", "_paused_at", "_since", "_started", "_streaming", "_timeouts")

    def __init__(self, timeouts: Timeouts, now: float) -> None:
        self._timeouts = timeouts
        self._started = now
        self._since = now
        """When the waiting that is measured now began: dispatch, later the last piece of the body."""
        self._connecting = True
        self._streaming = False
        self._paused_at: float | None = None

    def connected(self) -> None:
        self._connecting = False

    def received(self, now: float) -> bool:
        """A piece of the body is here. True for the first one: the next deadline may now be an earlier one."""
        self._since = now
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

    def next_deadline(self) -> float | None:
        limits = self._limits()
        return min(limits)[0] if limits else None

    def expired(self, now: float) -> Clock | None:
        """The clock that ran out first, if one has."""
        due = [limit for limit in self._limits() if limit[0] <= now + SLACK]
        return Clock(min(due)[1]) if due else None

    def _limits(self) -> list[tuple[float, str]]:
        limits = []
        if self._timeouts.total is not None:
            limits.append((self._started + self._timeouts.total, Clock.TOTAL.value))
        if self._connecting and self._timeouts.connect is not None:
            limits.append((self._started + self._timeouts.connect, Clock.CONNECT.value))
        waiting = Clock.IDLE if self._streaming else Clock.FIRST_BYTE
        seconds = self._timeouts.idle if self._streaming else self._timeouts.first_byte
        if seconds is not None and self._paused_at is None:
            limits.append((self._since + seconds, waiting.value))
        return limits
