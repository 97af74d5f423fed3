"""A gate whose events are folded by a ledger and shown by a feed, as the daemon puts them together."""

from datetime import UTC, datetime, timedelta
from typing import Any

from llmgate.adminapi import EventView, FeedItem, RequestView, Status, UpstreamView
from llmgate.core.caller import Caller
from llmgate.core.events import Event, Limits
from llmgate.core.gate import Gate, Ticket
from llmgate.telemetry.feed import Feed
from llmgate.telemetry.ledger import Ledger, view_upstream

WALL = datetime(2026, 11, 30, 14, 2, 31, tzinfo=UTC)
UPSTREAM = "reasoning"


class Counter:
    """One gate, its ledger and its feed, on a clock that is a number."""

    def __init__(
        self,
        cap: int = 1,
        *,
        history: int = 50,
        watcher_limit: int = 1 << 20,
        endpoints: dict[str, int] | None = None,
        holds: bool = True,
        **limits: Any,
    ) -> None:
        self.now = 100.0
        self.gate = Gate(UPSTREAM, Limits(cap, **limits), endpoints, holds=holds)
        self.ledger = Ledger(history)
        self.feed = Feed(
            self.ledger,
            status=self.status,
            upstream=self.upstream,
            history=history,
            clock=lambda: self.now,
            watcher_limit=watcher_limit,
        )
        self.rendered = 0
        self.events: list[Event] = []

    def enter(self, name: str, **caller: Any) -> Ticket:
        try:
            return self.gate.enter(self.now, Caller(id=name, **caller))
        finally:
            self.pump()

    def leave(self, ticket: Ticket, outcome: Any = "completed") -> None:
        self.gate.leave(ticket, self.now, outcome)
        self.pump()

    def drain(self, ticket: Ticket, outcome: Any = "client_gone", seconds: float | None = None) -> None:
        release_at = None if seconds is None else self.now + seconds
        self.gate.drain(ticket, self.now, outcome, release_at=release_at)
        self.pump()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.gate.handle_timer(self.now)
        self.pump()

    def pump(self) -> None:
        for event in self.gate.take_events():
            self.events.append(event)
            self.feed.apply(event, self.ledger.apply(event))

    def upstream(self, name: str) -> UpstreamView:
        self.rendered += 1
        oldest = next(self.gate.waiting(), None)
        figures = self.ledger.figures(name)
        arrived = oldest.entered_at if oldest else None
        gate = self.gate
        return view_upstream(name, "http://u", gate.statistics(), gate.endpoints(), figures, arrived, self.now)

    def status(self) -> Status:
        return Status(
            version="0.1.0",
            pid=7,
            started_at="",
            uptime_ms=0,
            now_at=(WALL + timedelta(seconds=self.now)).isoformat(),
            now_ms=round(self.now * 1000),
            state="running",
            listen=[],
            config="",
            socket="",
            upstreams=[self.upstream(UPSTREAM)],
        )


class Follower:
    """What a viewer knows who takes items as adminapi.FeedItem says."""

    def __init__(self) -> None:
        self.number = 0
        self.requests: dict[str, RequestView] = {}
        self.upstreams: dict[str, UpstreamView] = {}
        self.events: list[EventView] = []

    def apply(self, item: FeedItem) -> None:
        if item.type == "snapshot":
            assert item.status is not None
            self.requests = {view.id: view for view in item.requests}
            self.upstreams = {view.name: view for view in item.status.upstreams}
            self.events = list(item.events)
        elif item.type == "event":
            assert item.number == self.number + 1, "numbered without gaps"
            assert item.event is not None
            assert item.event.number == item.number
            self.events.append(item.event)
        self.number = item.number
        for upstream in [*item.upstreams, *([item.upstream] if item.upstream else [])]:
            self.upstreams[upstream.name] = upstream
        for request in [*item.requests, *([item.request] if item.request else [])]:
            self.requests[request.id] = request
            if request.state == "done":
                del self.requests[request.id]
