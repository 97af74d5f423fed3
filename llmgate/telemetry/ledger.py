"""Every request that lives and the newest that ended, and each upstream's figures: the gates' events, folded.

An event costs a few assignments, and a place in the order of `_KEPT` numbers where it ends a wait or a run.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

from llmgate.adminapi import EndpointView, RequestView, UpstreamView
from llmgate.core.caller import Caller
from llmgate.core.endpoints import EndpointStatistics
from llmgate.core.events import (
    Abandoned,
    Admitted,
    Dismissed,
    Drained,
    Event,
    Expired,
    GateStatistics,
    Mode,
    Moved,
    Queued,
    Refused,
    Released,
    Requeued,
    TicketEvent,
    UpstreamRenamed,
)
from llmgate.errors import Outcome
from llmgate.telemetry.journal import FAILURES

_KEPT = 500
_RATE_SECONDS = 60


class Record:
    """One request. Times are monotonic seconds. The exchange writes `first_byte_at`, tokens and `queue_frames`."""

    __slots__ = (
        "arrived_at",
        "caller",
        "deadline",
        "dispatched_at",
        "ended_at",
        "endpoint",
        "first_byte_at",
        "input_tokens",
        "order",
        "outcome",
        "output_tokens",
        "queue_frames",
        "reason",
        "state",
        "upstream",
    )

    def __init__(self, upstream: str, caller: Caller, arrived_at: float) -> None:
        self.upstream = upstream
        self.caller = caller
        self.arrived_at = arrived_at
        self.state = "running"
        self.order = 0
        self.deadline: float | None = None
        self.dispatched_at: float | None = None
        self.first_byte_at: float | None = None
        self.ended_at: float | None = None
        self.output_tokens = 0
        self.input_tokens = 0
        """As the answer tells them at its end; 0 where it does not."""
        self.outcome: Outcome | None = None
        self.reason = ""
        """What failed, where its outcome does not say all."""
        self.endpoint = ""
        self.queue_frames = 0

    def end(self, now: float, outcome: Outcome, state: str = "done", reason: str = "") -> None:
        self.ended_at, self.outcome, self.state, self.reason = now, outcome, state, reason


class Recent:
    """The newest _KEPT of some numbers. They are kept in order as well: a view is made for every event that somebody
    watches, and must not sort."""

    __slots__ = ("_by_age", "_in_order")

    def __init__(self) -> None:
        self._by_age: deque[float] = deque()
        self._in_order: list[float] = []

    def __len__(self) -> int:
        return len(self._by_age)

    def extend(self, numbers: Iterable[float]) -> None:
        for number in numbers:
            self.append(number)

    def append(self, number: float) -> None:
        if len(self._by_age) == _KEPT:
            del self._in_order[bisect_left(self._in_order, self._by_age.popleft())]
        self._by_age.append(number)
        insort(self._in_order, number)

    def percentile(self, percent: int) -> float | None:
        """By nearest rank; None of nothing."""
        numbers = self._in_order
        return numbers[-(-len(numbers) * percent // 100) - 1] if numbers else None


class Figures:
    """One upstream's recent waits, runs and failures, in seconds."""

    def __init__(self) -> None:
        self.waits = Recent()
        self.runs = Recent()
        self.first_bytes = Recent()
        self.outcomes: dict[Outcome, int] = {}
        self._ended: deque[tuple[int, int]] = deque(maxlen=_RATE_SECONDS + 1)

    def count(self, outcome: Outcome, now: float) -> None:
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        second = int(now)
        if self._ended and self._ended[-1][0] == second:
            self._ended[-1] = (second, self._ended[-1][1] + 1)
        else:
            self._ended.append((second, 1))

    def median_run(self) -> float:
        """Seconds; 0.0 where nothing has run yet."""
        return self.runs.percentile(50) or 0.0

    def rate(self, now: float) -> float:
        """Requests ended per second over the last minute."""
        return sum(count for second, count in self._ended if second > now - _RATE_SECONDS) / _RATE_SECONDS


class Ledger:
    """Live and recent requests, and the figures of each upstream."""

    def __init__(self, history: int) -> None:
        self._live: dict[tuple[str, int], Record] = {}
        self._by_id: dict[str, Record] = {}
        self._running: dict[str, Record] = {}
        self._recent: deque[Record] = deque(maxlen=history)
        self._figures: dict[str, Figures] = {}

    def apply(self, event: Event) -> Record | None:
        """Takes in one event; the record that it is about, if any."""
        if isinstance(event, TicketEvent):
            return self._apply_to_ticket(event)
        if isinstance(event, Refused):
            record = Record(event.upstream, event.caller, event.at)
            record.end(event.at, event.outcome, reason=event.reason)
            self._recent.append(record)
            self.figures(event.upstream).count(event.outcome, event.at)
            return record
        if isinstance(event, UpstreamRenamed):
            self._rename(event.old, event.upstream)
        return None

    def _rename(self, old: str, new: str) -> None:
        """Who lives there, and who ended there, goes on under the new name, with the figures."""
        self._figures[new] = self.figures(old)
        del self._figures[old]
        for key in [key for key in self._live if key[0] == old]:
            record = self._live.pop(key)
            record.upstream = new
            self._live[new, key[1]] = record
        for ended in self._recent:
            if ended.upstream == old:
                ended.upstream = new

    def record(self, request_id: str) -> Record | None:
        """A live request by its id."""
        return self._by_id.get(request_id)

    def live(self) -> Iterable[Record]:
        return self._live.values()

    def running(self) -> list[Record]:
        """Those that have a slot and an answer to come: far fewer than all that live."""
        return list(self._running.values())

    def recent(self) -> Iterator[Record]:
        """Those that ended, newest first."""
        return reversed(self._recent)

    def figures(self, upstream: str) -> Figures:
        figures = self._figures.get(upstream)
        if figures is None:
            figures = self._figures[upstream] = Figures()
        return figures

    def forget_figures(self, upstreams: Container[str]) -> None:
        """Of all but these: the others are gone."""
        self._figures = {name: figures for name, figures in self._figures.items() if name in upstreams}

    def _apply_to_ticket(self, event: TicketEvent) -> Record:
        key = (event.upstream, event.ticket)
        record = self._live.get(key)
        if record is None:
            record = self._live[key] = self._by_id[event.caller.id] = Record(event.upstream, event.caller, event.at)
        figures = self.figures(event.upstream)
        match event:
            case Queued(order=order, deadline=deadline):
                record.state, record.order, record.deadline = "waiting", order, deadline
            case Moved(order=order):
                record.order = order
            case Requeued(order=order):
                record.state, record.order, record.dispatched_at = "waiting", order, None
                self._running.pop(event.caller.id, None)
            case Admitted(waited=waited, endpoint=endpoint):
                record.state, record.dispatched_at = "running", event.at
                self._running[event.caller.id] = record
                record.endpoint = endpoint if endpoint != event.upstream else ""
                figures.waits.append(waited)
            case Drained(outcome=outcome, reason=reason):
                record.end(event.at, outcome, "draining", reason)
                self._running.pop(event.caller.id, None)
                figures.count(outcome, event.at)
            case Released():
                self._release(event, record, figures)
                self._forget(key, record)
            case Abandoned(outcome=outcome) | Expired(outcome=outcome) | Dismissed(outcome=outcome):
                record.end(event.at, outcome, reason=getattr(event, "reason", ""))
                figures.count(outcome, event.at)
                self._forget(key, record)
        return record

    def _release(self, event: Released, record: Record, figures: Figures) -> None:
        if event.outcome is None:
            record.state = "done"
            return
        record.end(event.at, event.outcome, reason=event.reason)
        figures.count(event.outcome, event.at)
        if event.outcome == "completed":
            figures.runs.append(event.ran)
            if record.first_byte_at is not None and record.dispatched_at is not None:
                figures.first_bytes.append(record.first_byte_at - record.dispatched_at)

    def _forget(self, key: tuple[str, int], record: Record) -> None:
        del self._live[key]
        self._by_id.pop(record.caller.id, None)
        self._running.pop(record.caller.id, None)
        self._recent.append(record)


def view_request(record: Record, now: float, wall: datetime) -> RequestView:
    """A record as the admin API shows it; `wall` is the time of day at `now`."""
    caller = record.caller
    return RequestView(
        id=caller.id,
        upstream=record.upstream,
        state=record.state,
        order=record.order,
        model=caller.model,
        api=caller.api,
        path=caller.path,
        stream=caller.stream,
        client=caller.client,
        client_version=caller.client_version,
        session=caller.session,
        session_from=caller.session_from,
        purpose=caller.purpose,
        key=caller.key,
        peer=caller.peer,
        body_bytes=caller.body_bytes,
        arrived_at=rfc3339(wall - timedelta(seconds=now - record.arrived_at)),
        arrived_ms=_ms(record.arrived_at),
        dispatched_ms=_ms_or_none(record.dispatched_at),
        first_byte_ms=_ms_or_none(record.first_byte_at),
        ended_ms=_ms_or_none(record.ended_at),
        deadline_ms=_ms_or_none(record.deadline),
        output_tokens=record.output_tokens,
        queue_frames=record.queue_frames,
        outcome=record.outcome,
        reason=record.reason,
        endpoint=record.endpoint,
    )


def view_upstream(
    name: str,
    url: str,
    gate: GateStatistics,
    endpoints: Mapping[str, EndpointStatistics],
    figures: Figures,
    oldest_arrived_at: float | None,
    now: float,
) -> UpstreamView:
    """An upstream as the admin API shows it."""
    limits, outcomes = gate.limits, figures.outcomes
    return UpstreamView(
        name=name,
        state=upstream_state(gate, endpoints),
        up=any(endpoint.up for endpoint in endpoints.values()),
        url=url,
        max_concurrent=limits.max_concurrent or _sum_of_caps(endpoints),
        max_queued=limits.max_queued,
        queue_timeout_ms=_ms_or_none(limits.queue_timeout),
        running=gate.running,
        waiting=gate.waiting,
        draining=gate.draining,
        oldest_arrived_ms=_ms_or_none(oldest_arrived_at),
        p50_wait_ms=_ms_or_none(figures.waits.percentile(50)),
        p95_wait_ms=_ms_or_none(figures.waits.percentile(95)),
        ttft_ms=_ms_or_none(figures.first_bytes.percentile(50)),
        p50_run_ms=_ms_or_none(figures.runs.percentile(50)),
        served=outcomes.get("completed", 0),
        queue_full=outcomes.get("queue_full", 0),
        queue_timeout=outcomes.get("queue_timeout", 0),
        refused=outcomes.get("refused", 0),
        failed=sum(outcomes.get(outcome, 0) for outcome in FAILURES),
        rate=round(figures.rate(now), 3),
        detail=_why_down(endpoints),
        alarms=list(gate.alarms.values()),
        endpoints=_view_endpoints(endpoints) if len(endpoints) > 1 else [],
    )


def upstream_state(gate: GateStatistics, endpoints: Mapping[str, EndpointStatistics]) -> str:
    """One word of adminapi.UPSTREAM_STATES."""
    if gate.mode is Mode.CLOSED:
        return "draining" if gate.waiting or gate.running or gate.draining else "drained"
    if gate.mode is Mode.PAUSED:
        return "paused"
    those_up = [endpoint for endpoint in endpoints.values() if endpoint.up]
    if not those_up:
        return "down"
    cap, in_flight = gate.limits.max_concurrent, gate.running + gate.draining
    if (cap and in_flight >= cap) or all(0 < it.max_concurrent <= it.in_flight for it in those_up):
        return "full"
    return "ok" if in_flight else "idle"


def _why_down(endpoints: Mapping[str, EndpointStatistics]) -> str:
    if len(endpoints) == 1:
        return "".join(endpoint.reason for endpoint in endpoints.values())
    down = {name: endpoint.reason for name, endpoint in endpoints.items() if not endpoint.up}
    return "; ".join(f"{name} is down" + (f": {reason}" if reason else "") for name, reason in down.items())


def _sum_of_caps(endpoints: Mapping[str, EndpointStatistics]) -> int:
    """0 where one of them has no bound."""
    caps = [it.max_concurrent for it in endpoints.values()]
    return sum(caps) if all(caps) else 0


def _view_endpoints(endpoints: Mapping[str, EndpointStatistics]) -> list[EndpointView]:
    return [
        EndpointView(name=name, up=it.up, in_flight=it.in_flight, max_concurrent=it.max_concurrent, reason=it.reason)
        for name, it in endpoints.items()
    ]


def rfc3339(moment: datetime) -> str:
    """In UTC with milliseconds, such as 2026-11-30T14:02:31.402Z."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _ms_or_none(seconds: float | None) -> int | None:
    return None if seconds is None else _ms(seconds)
