"""What an operator sees of upstreams and requests at this moment: gates, ledger and lookout put together."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from llmgate.adminapi import RequestView, UpstreamView
from llmgate.core.eta import SHOWN, Schedule
from llmgate.roster import Roster
from llmgate.telemetry.ledger import Ledger, Record, view_request, view_upstream

if TYPE_CHECKING:
    from llmgate.config.settings import UpstreamSettings


class Views:
    """Makes the views of the admin API, and of the feed."""

    def __init__(self, roster: Roster, ledger: Ledger) -> None:
        self._roster = roster
        self._ledger = ledger
        self._urls: dict[str, tuple[UpstreamSettings, str]] = {}
        """What each upstream is shown at, made once: a view is made for every event."""

    def upstreams(self) -> list[UpstreamView]:
        """In the order of the settings."""
        return [self.upstream(name) for name in self._roster.settings.upstreams]

    def find_upstream(self, name: str) -> UpstreamView | None:
        """None where there is none of that name, or no more, or, while a reload is put in force, not yet: what happens
        then may be told at once."""
        is_there = name in self._roster.settings.upstreams and name in self._roster.admission.upstreams()
        return self.upstream(name) if is_there else None

    def upstream(self, name: str) -> UpstreamView:
        gate = self._roster.admission.gate(name)
        oldest = gate.head()
        view = view_upstream(
            name,
            self._url(name),
            gate.statistics(),
            gate.endpoints(),
            self._ledger.figures(name),
            oldest.entered_at if oldest is not None else None,
            time.monotonic(),
        )
        schedule = self._roster.admission.schedule(name) if gate.depth else None
        if schedule is not None:
            starts = [round(schedule.start(position) * 1000) for position in range(1, min(SHOWN, gate.depth) + 1)]
            view = msgspec.structs.replace(view, starts_ms=starts, pace_us=round(schedule.pace * 1_000_000))
        told = self._roster.lookout.detail(name) or view.detail
        holds = self._roster.settings.upstreams[name].on_down == "hold"
        return msgspec.structs.replace(view, detail=told, leaving=self._roster.is_leaving(name), holds=holds)

    def _url(self, name: str) -> str:
        settings = self._roster.settings.upstreams[name]
        known = self._urls.get(name)
        if known is None or known[0] is not settings:
            known = self._urls[name] = settings, settings.display_url
        return known[1]

    def requests(self, recent: bool) -> list[RequestView]:
        """Those that wait in dispatch order, upstream by upstream, then the other live ones; with `recent` also those
        that ended, newest first."""
        records = sorted(
            self._ledger.live(), key=lambda record: (record.state != "waiting", record.upstream, record.order)
        )
        views = list(self._live(records))
        if recent:
            now, wall = time.monotonic(), datetime.now(UTC)
            views += [view_request(record, now, wall) for record in self._ledger.recent()]
        return views

    def _live(self, records: list[Record]) -> Iterator[RequestView]:
        now, wall = time.monotonic(), datetime.now(UTC)
        schedules: dict[str, Schedule | None] = {}
        positions: dict[str, int] = {}
        for record in records:
            view = view_request(record, now, wall)
            if record.state == "waiting":
                name = record.upstream
                if name not in schedules:
                    schedules[name] = self._roster.admission.schedule(name)
                positions[name] = positions.get(name, 0) + 1
                schedule = schedules[name]
                if schedule is not None:
                    view = msgspec.structs.replace(view, eta_ms=schedule.eta_ms(positions[name], now))
            yield view
