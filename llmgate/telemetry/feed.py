"""The live feed: numbered events to bounded watchers, each begun with a snapshot.

An event is rendered once, and only when somebody takes it: its upstream, which is the dearest part, comes with the
last of the events that are taken together. A watcher that does not keep up is cut, never waited for: it comes back,
says which event it had last, and gets those that it missed, or a new snapshot where that is too long ago. Once a
second, while somebody watches, what changed without an event (tokens, figures) follows as one `progress` item; where
nothing did it is empty, and shows that the daemon still turns.
"""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from llmgate.adminapi import EVENTS_IN_SNAPSHOT, EventView, FeedItem, RequestView, Status, Step, UpstreamView, encode
from llmgate.core.events import Event, Refused, TicketEvent
from llmgate.telemetry.journal import describe, kind_of, word_of
from llmgate.telemetry.journey import trace
from llmgate.telemetry.ledger import Ledger, Record, rfc3339, view_request

_EVENTS_RESUMED = 500
"""One that missed more is better off with a snapshot."""
_MOST_PENDING = 100
"""Events that nobody has taken yet; then they are rendered all the same, so that a mailbox knows what it holds."""
_PROGRESS_SECONDS = 1.0


class Watcher:
    """One who follows: a mailbox of encoded items, bounded in bytes (the snapshot that opens it is not counted)."""

    def __init__(
        self, limit: int, on_cut: Callable[[], object], render: Callable[[], object], *, may_act: bool = True
    ) -> None:
        """`render` puts what has not been rendered yet into this and other mailboxes."""
        self.may_act = may_act
        """What its snapshots say of it."""
        self._limit = limit
        self._render = render
        self._on_cut = on_cut
        self._items: deque[tuple[int, bytes, int]] = deque()
        """Number, JSON, and what it counts against the bound."""
        self._held = 0
        self._look: asyncio.Future[None] | None = None
        self.cut = False

    @property
    def waiting(self) -> int:
        """Items that it can take."""
        self._render()
        return len(self._items)

    def put(self, number: int, item: bytes) -> None:
        """Never waits: beyond the bound the watcher is cut and its mailbox emptied."""
        if self.cut:
            return
        self._held += len(item)
        if self._held > self._limit:
            self.end()
            return
        self._items.append((number, item, len(item)))
        self.wake()

    def put_snapshot(self, number: int, item: bytes) -> None:
        """All there is: outside the bound, since a watcher cannot do with less. There is one such at most: whoever has
        not read the one before gets this one instead of all that waits."""
        if any(weight == 0 for _, _, weight in self._items):
            self._items.clear()
            self._held = 0
        self.put_missed(number, item)

    def put_missed(self, number: int, item: bytes) -> None:
        """One of those that it begins with, when it comes back: outside the bound, too."""
        if self.cut:
            return
        self._items.append((number, item, 0))
        self.wake()

    def end(self) -> None:
        """Cuts it: nothing is kept for it any more."""
        self.cut = True
        self._items.clear()
        self._on_cut()

    async def wait_next(self) -> tuple[int, bytes]:
        """The next item with its number."""
        while not self.waiting:
            self._look = asyncio.get_running_loop().create_future()
            try:
                await self._look
            finally:
                self._look = None
        number, item, weight = self._items.popleft()
        self._held -= weight
        return number, item

    def wake(self) -> None:
        """There is something to render."""
        if self._look is not None and not self._look.done():
            self._look.set_result(None)


class Feed:
    """Numbers what happens, keeps the newest, tells those who watch."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        status: Callable[[], Status],
        upstream: Callable[[str], UpstreamView | None],
        history: int,
        clock: Callable[[], float] = time.monotonic,
        watcher_limit: int = 4 * 1024 * 1024,
    ) -> None:
        """`upstream` gives None where there is none of that name any more."""
        self._ledger = ledger
        self._status = status
        self._upstream = upstream
        self._clock = clock
        self._watcher_limit = watcher_limit
        self._number = 0
        self._run = secrets.token_hex(4)
        """Tells the numbers of this daemon from those of an earlier one."""
        self._recent: deque[tuple[int, Event]] = deque(maxlen=history)
        self._announced = -1
        """The newest number at the last `announce`: what changed then is in no event."""
        self._pending: list[FeedItem] = []
        """Events that nobody has taken yet, without their upstreams."""
        self._watchers: set[Watcher] = set()
        self._tick: asyncio.TimerHandle | None = None
        self._told_tokens: dict[str, int] = {}
        self._told_upstreams: dict[str, UpstreamView] = {}

    @property
    def watchers(self) -> int:
        return len(self._watchers)

    def apply(self, event: Event, record: Record | None) -> None:
        """One change at a gate, after the ledger took it in."""
        self._number += 1
        self._recent.append((self._number, event))
        if not self._watchers:
            return
        now, wall = self._clock(), datetime.now(UTC)
        item = FeedItem(
            type="event",
            number=self._number,
            now_ms=round(now * 1000),
            event=self._view_event(self._number, event),
            request=view_request(record, now, wall) if record else None,
        )
        self._pending.append(item)
        if len(self._pending) >= _MOST_PENDING:
            self._render()
        for watcher in self._watchers:
            watcher.wake()

    def announce(self) -> None:
        """Something about the daemon itself changed: a fresh snapshot for everybody, and for who was away meanwhile."""
        self._announced = self._number
        self._render()
        for may_act in {watcher.may_act for watcher in self._watchers}:
            snapshot = encode(self.snapshot(may_act=may_act))
            for watcher in self._watchers:
                if watcher.may_act is may_act:
                    watcher.put_snapshot(self._number, snapshot)

    def id_of(self, number: int) -> str:
        """The id of an item, with which a watcher may come back."""
        return f"{self._run}-{number}"

    def watch(
        self, on_cut: Callable[[], object], *, may_act: bool = True, after: str = "", events: int = EVENTS_IN_SNAPSHOT
    ) -> Watcher:
        """A new watcher. What comes first is what it missed after the item of the id `after`, or else a snapshot, with
        so many of the newest `events`, if they are kept."""
        self._render()
        watcher = Watcher(self._watcher_limit, on_cut, self._render, may_act=may_act)
        missed = self._missed(after)
        if missed is None:
            watcher.put_snapshot(self._number, encode(self.snapshot(may_act=may_act, events=events)))
        else:
            for item in self._view_missed(missed):
                watcher.put_missed(item.number, encode(item))
        self._watchers.add(watcher)
        if self._tick is None:
            self._tick = asyncio.get_running_loop().call_later(_PROGRESS_SECONDS, self._progress)
        return watcher

    def leave(self, watcher: Watcher) -> None:
        """It watches no more."""
        self._watchers.discard(watcher)
        if not self._watchers:
            self.stop()

    def close(self) -> None:
        """Cuts every watcher."""
        for watcher in list(self._watchers):
            watcher.end()

    def stop(self) -> None:
        """No timer of it fires any more, and nothing is kept for anybody."""
        self._pending.clear()
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None

    def journey(self, record: Record) -> list[Step]:
        """What happened to a request, as far as it is kept."""
        return trace(self._recent, record)

    def _missed(self, after: str) -> list[tuple[int, Event]] | None:
        """The events after that id; None where they are not known any more, too many, or not all that changed. An id
        as new as the last `announce` may be that of an event before it."""
        run, _, number = after.partition("-")
        if run != self._run or not (number.isascii() and number.isdecimal() and len(number) < len(str(1 << 63))):
            return None
        count = self._number - int(number)
        if int(number) <= self._announced or not 0 <= count <= min(len(self._recent), _EVENTS_RESUMED):
            return None
        return list(self._recent)[len(self._recent) - count :]

    def _view_missed(self, missed: list[tuple[int, Event]]) -> Iterator[FeedItem]:
        """The events, and after them how all is now: requests may have moved on without one, and so may upstreams."""
        now, wall = self._clock(), datetime.now(UTC)
        now_ms = round(now * 1000)
        records = {record.caller.id: record for record in (*self._ledger.recent(), *self._ledger.live())}
        for number, event in missed:
            about = records.get(event.caller.id) if isinstance(event, (TicketEvent, Refused)) else None
            yield FeedItem(
                type="event",
                number=number,
                now_ms=now_ms,
                event=self._view_event(number, event),
                request=view_request(about, now, wall) if about is not None else None,
            )
        requests = [view_request(record, now, wall) for record in self._ledger.live()]
        upstreams = self._status().upstreams
        yield FeedItem(type="progress", number=self._number, now_ms=now_ms, requests=requests, upstreams=upstreams)

    def snapshot(self, *, may_act: bool = True, events: int = EVENTS_IN_SNAPSHOT) -> FeedItem:
        """All there is, now, with the newest `events`."""
        now, wall = self._clock(), datetime.now(UTC)
        newest = list(self._recent)[max(0, len(self._recent) - events) :]
        return FeedItem(
            type="snapshot",
            number=self._number,
            now_ms=round(now * 1000),
            status=msgspec.structs.replace(self._status(), may_act=may_act),
            requests=[view_request(record, now, wall) for record in self._ledger.live()],
            events=[self._view_event(*entry) for entry in newest],
        )

    def _render(self) -> None:
        """Everybody gets what is pending."""
        pending, self._pending = self._pending, []
        newest = {item.event.upstream: item for item in pending if item.event is not None and item.event.upstream}
        for item in pending:
            name = item.event.upstream if item.event is not None else ""
            last = name and newest[name] is item
            self._send(msgspec.structs.replace(item, upstream=self._upstream(name)) if last else item)

    def _send(self, item: FeedItem) -> None:
        data = encode(item)
        for watcher in list(self._watchers):  # one that is cut may leave at once
            watcher.put(item.number, data)

    def _progress(self) -> None:
        self._tick = asyncio.get_running_loop().call_later(_PROGRESS_SECONDS, self._progress)
        self._render()
        requests, upstreams = self._changed_requests(), self._changed_upstreams()
        now_ms = round(self._clock() * 1000)
        self._send(
            FeedItem(type="progress", number=self._number, now_ms=now_ms, requests=requests, upstreams=upstreams)
        )

    def _changed_requests(self) -> list[RequestView]:
        now, wall = self._clock(), datetime.now(UTC)
        running = self._ledger.running()
        changed = [record for record in running if self._told_tokens.get(record.caller.id, 0) != record.output_tokens]
        self._told_tokens = {record.caller.id: record.output_tokens for record in running}
        return [view_request(record, now, wall) for record in changed]

    def _changed_upstreams(self) -> list[UpstreamView]:
        upstreams = {view.name: view for view in self._status().upstreams}
        changed = [view for name, view in upstreams.items() if self._told_upstreams.get(name) != view]
        self._told_upstreams = upstreams
        return changed

    def _view_event(self, number: int, event: Event) -> EventView:
        about = event if isinstance(event, (TicketEvent, Refused)) else None
        return EventView(
            number=number,
            at=rfc3339(datetime.now(UTC) - timedelta(seconds=self._clock() - event.at)),
            now_ms=round(event.at * 1000),
            kind=kind_of(event),
            word=word_of(event),
            upstream=event.upstream,
            text=describe(event),
            request_id=about.caller.id if about else "",
            outcome=outcome_of(event),
            reason=getattr(event, "reason", ""),
            client=about.caller.client if about else "",
            session=about.caller.session if about else "",
            purpose=about.caller.purpose if about else "",
            key=about.caller.key if about else getattr(event, "key", ""),
            by=getattr(event, "by", ""),
        )


def outcome_of(event: Event) -> str | None:
    """How the request ended, where this event is its end."""
    return getattr(event, "outcome", None) if isinstance(event, (TicketEvent, Refused)) else None
