"""What happened at one gate: each event is made, numbered and counted here, in order, and kept until it is fetched."""

from collections.abc import Mapping

from llmgate.core.caller import Caller
from llmgate.core.endpoints import EndpointStatistics
from llmgate.core.events import (
    Abandoned,
    Admitted,
    Alarm,
    AlarmCleared,
    AlarmRaised,
    Dismissed,
    Drained,
    EndpointChanged,
    EndpointsReplaced,
    Event,
    Expired,
    Limits,
    LimitsChanged,
    Mode,
    ModeChanged,
    Moved,
    Queued,
    Refused,
    Released,
    Requeued,
    Tally,
    UpstreamRenamed,
)
from llmgate.core.ticket import Ticket
from llmgate.errors import Outcome


class Chronicle:
    """Of one gate, which alone writes it. The methods are named as the events are; see there."""

    __slots__ = ("_count", "_events", "tally", "upstream")

    def __init__(self, upstream: str, limits: Limits) -> None:
        self.upstream = upstream
        self.tally = Tally(limits)
        """All of it, folded; only to be looked at."""
        self._events: list[Event] = []
        self._count = 0

    def take(self) -> list[Event]:
        """What is new since the last call, in order."""
        events, self._events = self._events, []
        return events

    # ---- one request

    def queued(self, ticket: Ticket, now: float, depth: int) -> None:
        self._note(Queued(*self._about(ticket, now), depth, ticket.order, ticket.deadline))

    def admitted(self, ticket: Ticket, now: float, *, queued: bool) -> None:
        self._note(Admitted(*self._about(ticket, now), queued, now - ticket.entered_at, ticket.endpoint))

    def drained(self, ticket: Ticket, now: float, outcome: Outcome, by: str, reason: str = "") -> None:
        self._note(Drained(*self._about(ticket, now), outcome, _ran(ticket, now), by, reason))

    def released(self, ticket: Ticket, now: float, outcome: Outcome | None, by: str, reason: str = "") -> None:
        self._note(Released(*self._about(ticket, now), outcome, _ran(ticket, now), by, reason))

    def left_line(self, ticket: Ticket, now: float, outcome: Outcome, by: str, reason: str = "") -> None:
        """Abandoned, expired or dismissed, as the outcome says."""
        about, waited = self._about(ticket, now), now - ticket.entered_at
        if outcome == "abandoned":
            self._note(Abandoned(*about, waited))
        elif outcome == "queue_timeout":
            self._note(Expired(*about, waited))
        else:
            self._note(Dismissed(*about, outcome, waited, by, reason))

    def refused(
        self, caller: Caller, now: float, outcome: Outcome, depth: int, limit: int | None, reason: str = ""
    ) -> None:
        self._note(Refused(*self._at(now), caller, outcome, depth, limit, reason))

    def moved(self, ticket: Ticket, now: float, by: str) -> None:
        self._note(Moved(*self._about(ticket, now), ticket.order, by))

    def requeued(self, ticket: Ticket, now: float) -> None:
        self._note(Requeued(*self._about(ticket, now), ticket.order))

    # ---- the whole gate

    def limits_changed(self, now: float, old: Limits, new: Limits, by: str) -> None:
        self._note(LimitsChanged(*self._at(now), old, new, by))

    def mode_changed(self, now: float, old: Mode, new: Mode, by: str) -> None:
        self._note(ModeChanged(*self._at(now), old, new, by))

    def endpoint_changed(
        self, now: float, name: str, old: EndpointStatistics, new: EndpointStatistics, holding: int = 0
    ) -> None:
        was = old.up, old.max_concurrent
        self._note(EndpointChanged(*self._at(now), name, new.up, new.max_concurrent, *was, new.reason, holding))

    def endpoints_replaced(
        self, now: float, caps: Mapping[str, int], kept: Mapping[str, str], where: dict[int, str], *, holds: bool
    ) -> None:
        self._note(EndpointsReplaced(*self._at(now), dict(caps), dict(kept), holds, where))

    def renamed(self, now: float, upstream: str) -> None:
        old, self.upstream = self.upstream, upstream
        self._note(UpstreamRenamed(*self._at(now), old))

    def alarm_raised(self, now: float, alarm: Alarm, text: str) -> None:
        self._note(AlarmRaised(*self._at(now), alarm, text))

    def alarm_cleared(self, now: float, alarm: Alarm) -> None:
        self._note(AlarmCleared(*self._at(now), alarm))

    # ---- inside

    def _at(self, now: float) -> tuple[int, float, str]:
        self._count += 1
        return self._count, now, self.upstream

    def _about(self, ticket: Ticket, now: float) -> tuple[int, float, str, int, Caller]:
        self._count += 1
        return self._count, now, self.upstream, ticket.number, ticket.caller

    def _note(self, event: Event) -> None:
        self.tally.apply(event)
        self._events.append(event)


def _ran(ticket: Ticket, now: float) -> float:
    return now - ticket.admitted_at if ticket.admitted_at is not None else 0.0
