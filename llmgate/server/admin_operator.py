"""What the routes of the admin API do: looking at the daemon, and acting on upstreams and requests."""

import asyncio
import contextlib
import dataclasses
import heapq
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec

from llmgate import adminapi
from llmgate.adminapi import (
    Config,
    Health,
    LimitsAnswer,
    LimitsChange,
    LimitsView,
    Readiness,
    Reloaded,
    RequestDetail,
    Requests,
    RequestsQuery,
    RequestView,
    Status,
    UpstreamAnswer,
    Upstreams,
    UpstreamView,
)
from llmgate.admission.local import LocalAdmission
from llmgate.core.events import GateStatistics, Limits
from llmgate.errors import Cancelled
from llmgate.names import no_upstream
from llmgate.server.admin_route import Answer, Call, Conflict, UnknownRequest, UnknownUpstream
from llmgate.server.readiness import readiness
from llmgate.server.services import Running
from llmgate.telemetry.feed import Feed
from llmgate.telemetry.ledger import Ledger, Record, view_request

logger = logging.getLogger("llmgate")

CANCEL_SECONDS = 5.0
"""How long a cancel waits for the request to be over: longer than that only where its server's connection hangs."""
_OF_SESSION = 20


@dataclasses.dataclass(frozen=True)
class Sight:
    """What is seen of the daemon, as functions of now."""

    status: Callable[[], Status]
    requests: Callable[[bool], list[RequestView]]
    """The live ones in dispatch order, with True also those that ended, the newest first."""
    now_ms: Callable[[], int]
    config: Callable[[], Config]
    metrics: Callable[[], tuple[str, bytes]]
    """Content type and text."""
    leaving: Callable[[], frozenset[str]]
    """Upstreams that a reload took out of the settings, and that have somebody left."""


class SlotCounts(Protocol):
    """What servers tell of their slots, for the max_concurrent "auto"."""

    def follows(self, upstream: str) -> bool:
        """Whether its max_concurrent is what its server tells."""
        ...

    async def follow_slots(self, upstream: str) -> int:
        """From now on it is; how many these are now."""
        ...

    def pin(self, upstream: str) -> None:
        """It is a number from now on."""
        ...


class Operator:
    """One daemon as an operator sees and changes it. `reload(by)` reads the settings again; `note_written(name, keys)`
    learns that these of that upstream were written there."""

    def __init__(
        self,
        sight: Sight,
        *,
        admission: LocalAdmission,
        running: Running,
        ledger: Ledger,
        feed: Feed,
        slots: SlotCounts,
        reload: Callable[[str], Awaitable[Reloaded]],
        note_written: Callable[[str, Collection[str]], Awaitable[None]],
    ) -> None:
        self.sight = sight
        self._admission = admission
        self._running = running
        self._ledger = ledger
        self._feed = feed
        self._slots = slots
        self._reload = reload
        self._note_written = note_written

    # ---- looking

    async def get_status(self, call: Call) -> Status:
        return msgspec.structs.replace(self.sight.status(), may_act=call.may_act)

    async def get_upstreams(self, _: Call) -> Upstreams:
        return Upstreams(now_ms=self.sight.now_ms(), upstreams=self.sight.status().upstreams)

    async def get_upstream(self, call: Call) -> UpstreamAnswer:
        return self._upstream_answer(self._upstream(call.target))

    async def get_requests(self, call: Call) -> Requests:
        query: RequestsQuery = call.query
        if query.upstream is not msgspec.UNSET:
            self._upstream(query.upstream)
        views = self.sight.requests(query.state in ("all", "done"))
        found = [view for view in views if _is_wanted(view, query)]
        if query.limit is not msgspec.UNSET:
            del found[query.limit :]
        return Requests(now_ms=self.sight.now_ms(), requests=found)

    async def get_request(self, call: Call) -> RequestDetail:
        return self._detail(self._record(call.target))

    async def get_config(self, _: Call) -> Config:
        return self.sight.config()

    async def get_metrics(self, _: Call) -> Answer:
        content_type, text = self.sight.metrics()
        return Answer(text, content_type=content_type)

    async def get_health(self, _: Call) -> Health:
        """The process lives and its loop turns."""
        return Health()

    async def get_ready(self, call: Call) -> Readiness | Answer:
        """Whether it takes requests, or that upstream does."""
        asked = call.query.upstream
        name = None if asked is msgspec.UNSET else self._upstream(asked).name
        view = readiness(self._admission, name, stopping=self.sight.status().state != "running")
        return view if view.ready else Answer(adminapi.encode(view), 503)

    # ---- acting on an upstream

    async def pause(self, call: Call) -> UpstreamAnswer:
        return self._change_mode(call, self._admission.pause)

    async def resume(self, call: Call) -> UpstreamAnswer:
        return self._change_mode(call, self._admission.resume)

    async def drain(self, call: Call) -> UpstreamAnswer:
        return self._change_mode(call, self._admission.drain)

    def _change_mode(self, call: Call, change: Callable[..., None]) -> UpstreamAnswer:
        name = self._find_changeable(call.target)
        before = self._admission.gate(name).mode
        change(name, by=call.by)
        return self._upstream_answer(self._upstream(name), changed=self._admission.gate(name).mode is not before)

    async def set_limits(self, call: Call) -> LimitsAnswer:
        name, change = self._find_changeable(call.target), call.body
        was_auto = self._slots.follows(name)
        if change.persisted is True:
            await self._note_written(name, _named(change))
        else:
            change = await self._with_slots(name, change)
        gate = self._admission.gate(self._find_changeable(name))  # a reload may have come meanwhile
        old = new = gate.limits
        if change.persisted is not True:
            new = _changed(old, change)
            self._admission.set_limits(name, new, by=call.by)
        return LimitsAnswer(
            now_ms=self.sight.now_ms(),
            upstream=name,
            old=_view_limits(old),
            new=_view_limits(new),
            was_auto=was_auto,
            is_auto=self._slots.follows(name),
            note=_note(old, new, gate.statistics(), endpoints=len(gate.endpoints())),
        )

    async def _with_slots(self, name: str, change: LimitsChange) -> LimitsChange:
        """The same with a number for "auto"."""
        if change.max_concurrent == "auto":
            return msgspec.structs.replace(change, max_concurrent=await self._slots.follow_slots(name))
        if change.max_concurrent is not msgspec.UNSET:
            self._slots.pin(name)
        return change

    async def reload(self, call: Call) -> Reloaded:
        self._check_runs()
        logger.info("reload asked for by %s", call.by)
        return await self._reload(call.by)

    def _find_changeable(self, name: str) -> str:
        """The name of an upstream that goes on."""
        self._check_runs()
        name = self._upstream(name).name
        if name in self.sight.leaving():
            raise Conflict(
                f"upstream {name} is no longer in the settings, and goes when its last request is over; "
                "to keep it put it back there, then: llmgate reload"
            )
        return name

    def _check_runs(self) -> None:
        if self.sight.status().state != "running":
            raise Conflict("llmgate is stopping: nothing can be changed any more")

    def _upstream(self, name: str) -> UpstreamView:
        status = self.sight.status()
        views = {view.name: view for view in status.upstreams}
        if name not in views:
            raise UnknownUpstream(no_upstream(name, views, status.renamed))
        return views[name]

    def _upstream_answer(self, view: UpstreamView, *, changed: bool = False) -> UpstreamAnswer:
        return UpstreamAnswer(now_ms=self.sight.now_ms(), upstream=view, changed=changed)

    # ---- acting on a request

    async def cancel(self, call: Call) -> RequestDetail:
        """Ends it, whether it waits or runs; its client gets an error that says so."""
        record = self._record(call.target)
        if record.state in ("done", "draining"):
            raise Conflict(f"request {call.target} is over: {record.outcome}")
        if not self._admission.dismiss(record.upstream, call.target, by=call.by):
            await self._cut(record, call.by)
        return self._detail(record)

    async def _cut(self, record: Record, by: str) -> None:
        """One that has a slot: whoever holds its client and its server's answer ends it."""
        member = self._running.find(record.caller.id)
        if member is None:
            raise Conflict(f"request {record.caller.id} is just about to end")
        over = self._admission.note_cancel(record.upstream, record.caller.id, by=by)
        member.stop(Cancelled(f"llmgate: an operator cancelled this request at upstream {record.upstream} (CANCELLED)"))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CANCEL_SECONDS):
                await asyncio.wait([over])

    async def move(self, call: Call) -> RequestDetail:
        """Makes one that waits the next to run."""
        record = self._record(call.target)
        if not self._admission.move_to_front(record.upstream, call.target, by=call.by):
            raise Conflict(f"request {call.target} does not wait, so it can not be moved: it is {record.state}")
        return self._detail(record)

    def _record(self, request_id: str) -> Record:
        record = self._ledger.record(request_id) or next(
            (record for record in self._ledger.recent() if record.caller.id == request_id), None
        )
        if record is None:
            raise UnknownRequest(
                f"there is no request {request_id!r}, or it ended too long ago; llmgate ps --all lists what is known"
            )
        return record

    def _detail(self, record: Record) -> RequestDetail:
        """Of this one and its session only: thousands may be there."""
        now, wall = time.monotonic(), datetime.now(UTC)
        position = self._admission.position(record.upstream, record.caller.id)
        eta_ms = position.eta_ms if position is not None else None
        return RequestDetail(
            now_ms=self.sight.now_ms(),
            request=msgspec.structs.replace(view_request(record, now, wall), eta_ms=eta_ms),
            position=position.position if position is not None else None,
            depth=self._admission.gate(record.upstream).depth if record.upstream in self._admission.upstreams() else 0,
            eta_ms=eta_ms,
            journey=self._feed.journey(record),
            of_session=[view_request(other, now, wall) for other in self._others_of_session(record)],
        )

    def _others_of_session(self, record: Record) -> list[Record]:
        """The newest, the newest first."""
        session = record.caller.session
        known = itertools.chain(self._ledger.live(), self._ledger.recent()) if session else ()
        others = (other for other in known if other.caller.session == session and other is not record)
        return heapq.nlargest(_OF_SESSION, others, key=lambda other: other.arrived_at)


def _is_wanted(view: RequestView, query: RequestsQuery) -> bool:
    session = query.session
    return (
        (query.state in ("all", view.state) or (query.state == "live" and view.state != "done"))
        and all(_is_unset_or(getattr(query, name), getattr(view, name)) for name in ("upstream", "client", "model"))
        and (session is msgspec.UNSET or view.session.startswith(session))
    )


def _is_unset_or(wanted: str | msgspec.UnsetType, value: str) -> bool:
    return wanted is msgspec.UNSET or wanted == value


def _changed(limits: Limits, change: LimitsChange) -> Limits:
    """0 seconds are "for ever", as in the settings."""
    named = _named(change)
    if "queue_timeout" in named:
        named["queue_timeout"] = named["queue_timeout"] or None
    return msgspec.structs.replace(limits, **named)


def _named(change: LimitsChange) -> dict[str, Any]:
    """The limits that it names."""
    there = {name: getattr(change, name) for name in LimitsView.__struct_fields__}
    return {name: value for name, value in there.items() if value is not msgspec.UNSET}


def _view_limits(limits: Limits) -> LimitsView:
    return LimitsView(
        max_concurrent=limits.max_concurrent, max_queued=limits.max_queued, queue_timeout=limits.queue_timeout
    )


def _note(old: Limits, new: Limits, gate: GateStatistics, *, endpoints: int) -> str:
    """What does not follow from the numbers."""
    return "; ".join(_remarks(old, new, gate, endpoints))


def _remarks(old: Limits, new: Limits, gate: GateStatistics, endpoints: int) -> Iterable[str]:
    if new.max_concurrent != old.max_concurrent and endpoints > 1:
        yield f"max_concurrent bounds all {endpoints} endpoints together, each of which keeps its own limit"
    if new.max_concurrent and gate.running + gate.draining > new.max_concurrent:
        yield f"{gate.running + gate.draining} run on; nobody is sent until fewer do"
    if new.max_queued is not None and gate.waiting > new.max_queued:
        yield f"{gate.waiting} wait and keep their places; nobody may join them until fewer do"
    if new.queue_timeout != old.queue_timeout and gate.waiting:
        yield "who waits already keeps the queue_timeout with which it came"
