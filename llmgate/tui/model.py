"""What the screen knows: a fold over the items of the feed, which never looks at a clock itself.

Invariants
- A snapshot stands for all that was before it: any prefix and then a snapshot gives the same view as all items.
  Only the history of WAITING and the requests that ended are the viewer's own and are kept over a lost connection.
- Ages are counted by the daemon's clock. `at` is the viewer's monotonic clock in seconds, given by the caller; it only
  carries the daemon's clock on from the last item, for SILENT_SECONDS at most: who hears nothing knows nothing of ages.
- One event costs O(log n) comparisons among n requests. The mutable indexes stay in here; what leaves is a frozen View.
- Item types, event kinds, states and fields that are not known are passed over.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import compress
from operator import attrgetter, indexOf
from typing import Literal

import msgspec

from llmgate.adminapi import SCHEMA, EventView, FeedItem, RequestView, Status, UpstreamView

EVENTS = 200
RECENT = 500
"""As many requests that ended are kept."""
BUCKET_MS = 20_000
BUCKETS = 15
"""The history of WAITING: 15 peaks over 20 s each are five minutes."""
JITTER_MS = 1_000
SILENT_SECONDS = 2.5
"""The feed says something once a second: after so long without a word that is told, and no age counts on."""
_ID = attrgetter("id")


@dataclass(frozen=True, slots=True)
class Link:
    """The connection to the daemon. `since` and `retry_at` are on the viewer's monotonic clock, in seconds."""

    state: Literal["connecting", "live", "lost"] = "connecting"
    error: str = ""
    attempt: int = 0
    since: float = 0.0
    retry_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Lane:
    """One upstream with its requests: the waiting in dispatch order, the others oldest first."""

    upstream: UpstreamView
    waiting: tuple[RequestView, ...] = ()
    running: tuple[RequestView, ...] = ()
    draining: tuple[RequestView, ...] = ()
    history: tuple[int, ...] = ()
    """The most that waited in each of the last BUCKETS spans of BUCKET_MS, oldest first."""

    def position(self, request_id: str) -> int | None:
        """1 = next to run; None where it does not wait here."""
        try:
            return indexOf(map(_ID, self.waiting), request_id) + 1
        except ValueError:
            return None

    def request(self, request_id: str) -> RequestView | None:
        return _find((*self.waiting, *self.running, *self.draining), request_id)


@dataclass(frozen=True, slots=True)
class View:
    """All that a picture is drawn from, at one moment. `now_ms` stands still while nothing is heard."""

    link: Link
    at: float
    status: Status | None = None
    """The last that was told, without its upstreams: those are in `lanes`."""
    lanes: tuple[Lane, ...] = ()
    recent: tuple[RequestView, ...] = ()
    """Requests that ended, the newest first."""
    events: tuple[EventView, ...] = ()
    """Oldest first."""
    number: int = 0
    now_ms: int = 0
    counted_ms: int = 0
    """The daemon's clock when tokens were last counted."""
    schema: int = SCHEMA
    heard_at: float = 0.0
    """When the last item came, as `at`."""
    stood_for: float = 0.0
    """Seconds for which `now_ms` has been standing still."""

    @property
    def silent_for(self) -> int:
        """Whole seconds since anything was heard; 0 while that is not too long, and where no connection is believed."""
        return int(self.at - self.heard_at) if self.link.state == "live" and self.stood_for > 0 else 0

    @property
    def clock(self) -> datetime | None:
        """The daemon's time of day at `now_ms`."""
        if self.status is None:
            return None
        try:
            told = datetime.fromisoformat(self.status.now_at)
        except ValueError:
            return None
        return told + timedelta(milliseconds=self.now_ms - self.status.now_ms)

    def requests(self) -> Iterator[RequestView]:
        """All that are known: live ones by upstream, then those that ended."""
        for lane in self.lanes:
            yield from lane.waiting
            yield from lane.running
            yield from lane.draining
        yield from self.recent

    def eta_ms(self, request: RequestView) -> int | None:
        """The time from now on until a waiting one gets a slot, by the daemon's estimate for its place."""
        lane = self.lane(request.upstream)
        position = lane.position(request.id) if lane is not None and lane.upstream.starts_ms else None
        return None if lane is None or position is None else lane.upstream.eta_ms(position, self.now_ms)

    def request(self, request_id: str) -> RequestView | None:
        if not request_id:
            return None
        live = (lane.request(request_id) for lane in self.lanes)
        return next(filter(None, live), None) or _find(self.recent, request_id)

    def lane(self, name: str) -> Lane | None:
        return next((lane for lane in self.lanes if lane.upstream.name == name), None)


def _find(requests: Sequence[RequestView], request_id: str) -> RequestView | None:
    """By its id, without a call of Python for each of ten thousand."""
    return next(compress(requests, map(request_id.__eq__, map(_ID, requests))), None)


class Ordered:
    """Requests sorted by a key, found by their id: O(log n) comparisons and one memmove for each change."""

    def __init__(self, key: Callable[[RequestView], int]) -> None:
        self._key = key
        self._key_of: dict[str, tuple[int, str]] = {}
        self._keys: list[tuple[int, str]] = []
        self._requests: list[RequestView] = []

    def __iter__(self) -> Iterator[RequestView]:
        return iter(self._requests)

    def __reversed__(self) -> Iterator[RequestView]:
        return reversed(self._requests)

    def __len__(self) -> int:
        return len(self._requests)

    def put(self, request: RequestView) -> None:
        key = (self._key(request), request.id)
        if self._key_of.get(request.id) == key:
            self._requests[bisect_left(self._keys, key)] = request
            return
        self.drop(request.id)
        index = bisect_left(self._keys, key)
        self._keys.insert(index, key)
        self._requests.insert(index, request)
        self._key_of[request.id] = key

    def drop(self, request_id: str) -> None:
        key = self._key_of.pop(request_id, None)
        if key is not None:
            index = bisect_left(self._keys, key)
            del self._keys[index]
            del self._requests[index]

    def drop_first(self) -> None:
        self.drop(self._keys[0][1])


class History:
    """The peaks of one number over spans of time."""

    def __init__(self) -> None:
        self._peaks: deque[int] = deque(maxlen=BUCKETS)
        self._bucket: int | None = None
        self._last = 0

    def observe(self, now_ms: int, number: int) -> None:
        self._advance(now_ms)
        self._peaks[-1] = max(self._peaks[-1], number)
        self._last = number

    def peaks(self, now_ms: int) -> tuple[int, ...]:
        if self._bucket is not None:
            self._advance(now_ms)
        return tuple(self._peaks)

    def _advance(self, now_ms: int) -> None:
        bucket = now_ms // BUCKET_MS
        spans = 1 if self._bucket is None else min(bucket - self._bucket, BUCKETS)
        self._peaks.extend([self._last] * spans)
        self._bucket = bucket if self._bucket is None else max(bucket, self._bucket)


class _Lane:
    """One upstream while it is being folded."""

    def __init__(self, upstream: UpstreamView) -> None:
        self.upstream = upstream
        self.by_state = {
            "waiting": Ordered(lambda request: request.order),
            "running": Ordered(_dispatched),
            "draining": Ordered(_dispatched),
        }

    def frozen(self, history: tuple[int, ...]) -> Lane:
        waiting, running, draining = (tuple(ordered) for ordered in self.by_state.values())
        return Lane(self.upstream, waiting, running, draining, history)


def _dispatched(request: RequestView) -> int:
    return request.dispatched_ms or 0


class Model:
    """The fold. `apply` takes one item, `view` gives the frozen picture of what is known."""

    def __init__(self) -> None:
        self._link = Link()
        self._status: Status | None = None
        self._lanes: dict[str, _Lane] = {}
        self._where: dict[str, Ordered] = {}
        self._histories: dict[str, History] = {}
        self._ended = Ordered(lambda request: request.ended_ms or 0)
        self._events: deque[EventView] = deque(maxlen=EVENTS)
        self._number = 0
        self._offset_ms: int | None = None
        self._heard_at = 0.0
        self._counted_ms = 0
        self._schema = SCHEMA
        self._before_stop: View | None = None
        """What was known when the daemon was told to stop: from then on every upstream drains, whatever it was."""

    def apply(self, item: FeedItem, at: float) -> None:
        """Takes the next item of the feed, which was read at `at`."""
        if self._link.state != "live":
            self._link = Link("live", since=at)
        if item.type == "snapshot" and item.status is not None:
            self._keep_before_stop(item.status, at)
        self._set_clock(item.now_ms, at)
        self._heard_at = at
        self._schema = max(self._schema, item.schema)
        if item.type == "snapshot" and item.status is not None:
            self._start_again(item, item.status)
            return
        if item.status is not None:
            self._status = msgspec.structs.replace(item.status, upstreams=[])
        if item.type == "event" and item.number > self._number:
            self._happened(item)
        elif item.type == "progress":
            self._progressed(item)

    def _keep_before_stop(self, status: Status, at: float) -> None:
        if status.state == "running":
            self._before_stop = None
        elif self._status is not None and self._status.state == "running":
            self._before_stop = self.view(at)

    def remember(self, requests: Iterable[RequestView]) -> None:
        """Takes in requests that ended before this viewer came, or while it was away."""
        for request in requests:
            if request.state == "done" and request.id not in self._where:
                self._put_ended(request)

    def lost(self, error: str, attempt: int, at: float, retry_at: float) -> None:
        """The connection is gone, or attempt number `attempt` to get one failed; the next is at `retry_at`."""
        since = self._link.since if self._link.state == "lost" else at
        self._link = Link("lost", error, attempt, since, retry_at)

    def view(self, at: float) -> View:
        """Once the connection to a daemon that stopped is lost: what was known before it did."""
        seen, before = self._newest(at), self._before_stop
        if before is None or self._link.state != "lost":
            return seen
        return replace(
            before, link=self._link, at=at, events=seen.events, recent=seen.recent, number=seen.number,
            heard_at=seen.heard_at, stood_for=at - before.at,
        )  # fmt: skip

    def _newest(self, at: float) -> View:
        until = min(at, self._link.since if self._link.state == "lost" else at, self._heard_at + SILENT_SECONDS)
        now_ms = self._now_ms(until)
        return View(
            link=self._link,
            at=at,
            status=self._status,
            lanes=tuple(lane.frozen(self._histories[name].peaks(now_ms)) for name, lane in self._lanes.items()),
            recent=tuple(reversed(self._ended)),
            events=tuple(self._events),
            number=self._number,
            now_ms=now_ms,
            counted_ms=self._counted_ms,
            schema=self._schema,
            heard_at=self._heard_at,
            stood_for=at - until if self._offset_ms is not None else 0.0,
        )

    def _now_ms(self, at: float) -> int:
        return 0 if self._offset_ms is None else self._offset_ms + round(at * 1000)

    def _set_clock(self, now_ms: int, at: float) -> None:
        """An item may come late but never early, so of two offsets the larger is nearer to the truth."""
        offset = now_ms - round(at * 1000)
        if self._offset_ms is None or not self._offset_ms - JITTER_MS < offset <= self._offset_ms:
            self._offset_ms = offset

    def _start_again(self, item: FeedItem, status: Status) -> None:
        before = self._status
        if before is not None and (before.pid, before.started_at) != (status.pid, status.started_at):
            self._histories.clear()
            self._ended = Ordered(lambda request: request.ended_ms or 0)
        self._rename(status)
        self._status = msgspec.structs.replace(status, upstreams=[])
        self._schema = max(item.schema, status.schema)
        self._number = item.number
        self._counted_ms = item.now_ms
        self._lanes.clear()
        self._where.clear()
        self._events.clear()
        for upstream in status.upstreams:
            self._put_upstream(upstream, item.now_ms)
        for request in item.requests:
            self._put_request(request)
        for event in item.events:
            self._note(event)

    def _happened(self, item: FeedItem) -> None:
        self._number = item.number
        if item.upstream is not None:
            self._put_upstream(item.upstream, item.now_ms)
        if item.request is not None:
            self._put_request(item.request)
        if item.event is not None:
            self._note(item.event)

    def _progressed(self, item: FeedItem) -> None:
        self._counted_ms = item.now_ms
        for upstream in item.upstreams:
            self._put_upstream(upstream, item.now_ms)
        for request in item.requests:
            self._put_request(request)

    def _rename(self, status: Status) -> None:
        """What waited under an upstream's old name goes on under its new one."""
        names = {upstream.name for upstream in status.upstreams}
        for old in self._histories.keys() & status.renamed.keys() - names:
            self._histories[status.renamed[old]] = self._histories.pop(old)

    def _note(self, event: EventView) -> None:
        """Keeps what is worth a line: the daemon has no words for what happens to every request."""
        if event.text:
            self._events.append(event)

    def _put_upstream(self, upstream: UpstreamView, now_ms: int) -> None:
        lane = self._lanes.get(upstream.name)
        if lane is None:
            self._lanes[upstream.name] = _Lane(upstream)
        else:
            lane.upstream = upstream
        self._histories.setdefault(upstream.name, History()).observe(now_ms, upstream.waiting)

    def _put_request(self, request: RequestView) -> None:
        lane = self._lanes.get(request.upstream)
        place = lane.by_state.get(request.state) if lane is not None else None
        before = self._where.pop(request.id, None)
        if before is not None and before is not place:
            before.drop(request.id)
        if place is not None:
            place.put(request)
            self._where[request.id] = place
        elif request.state == "done":
            self._put_ended(request)

    def _put_ended(self, request: RequestView) -> None:
        self._ended.put(request)
        if len(self._ended) > RECENT:
            self._ended.drop_first()
