"""The feed as a viewer gets it: a snapshot, then every change; and what a viewer that does not keep up costs."""

import asyncio
import tracemalloc
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_loop import run, this_loop, turns

from llmgate.adminapi import EventView, FeedItem, RequestView, UpstreamView
from llmgate.core.caller import Caller
from llmgate.core.events import (
    Abandoned,
    Admitted,
    AlarmCleared,
    AlarmRaised,
    CallerRefused,
    Dismissed,
    Drained,
    EndpointChanged,
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
)
from llmgate.telemetry import feed as feed_module
from llmgate.telemetry.feed import Watcher, outcome_of
from llmgate.telemetry.journal import kind_of
from tests.telemetry.samples import UPSTREAM, Counter, Follower
from tests.telemetry.test_ledger import play, steps


def nothing() -> None:
    """Nobody wants to know."""


async def take_all(watcher: Watcher) -> list[FeedItem]:
    """What lies in its mailbox."""
    items = []
    while watcher.waiting:
        number, item = await watcher.wait_next()
        items.append(msgspec.json.decode(item, type=FeedItem))
        assert items[-1].number == number
    return items


def held(watcher: Watcher) -> int:
    return sum(len(item) for _, item, _ in watcher._items)


# ---- what comes


def test_first_all_there_is_then_each_change() -> None:
    async def main() -> None:
        counter = Counter(queue_timeout=9.0)
        first = counter.enter("a", session="s")
        counter.now += 1
        counter.enter("b")
        watcher = counter.feed.watch(nothing)
        counter.now += 2
        counter.leave(first)
        opening, released, admitted = await take_all(watcher)
        assert (opening.type, opening.number, opening.now_ms) == ("snapshot", 2, 101_000)
        assert opening.status is not None
        assert opening.status.upstreams[0].waiting == 1
        assert [(view.id, view.state) for view in opening.requests] == [("a", "running"), ("b", "waiting")]
        assert [(view.number, view.kind, view.text) for view in opening.events] == [
            (1, "admitted", ""),
            (2, "queued", "queued (depth 1)"),
        ]
        assert [view.now_ms for view in opening.events] == [100_000, 101_000]
        assert (released.type, released.number) == ("event", 3)
        assert released.event is not None
        assert (released.event.kind, released.event.text, released.event.outcome) == ("released", "", "completed")
        assert released.event.request_id == "a"
        assert released.request is not None
        assert (released.request.state, released.request.outcome) == ("done", "completed")
        assert admitted.event is not None
        assert (admitted.number, admitted.event.text) == (4, "dispatched after 2000ms")
        assert admitted.upstream is not None
        assert (admitted.upstream.running, admitted.upstream.waiting) == (1, 0)
        counter.feed.stop()

    run(main())


def test_what_is_about_no_request_has_none() -> None:
    async def main() -> None:
        counter = Counter()
        watcher = counter.feed.watch(nothing)
        counter.gate.set_limits(Limits(4), counter.now)
        counter.pump()
        _, changed = await take_all(watcher)
        assert (changed.event and changed.event.kind, changed.request) == ("limits_changed", None)
        assert changed.event is not None
        assert (changed.event.request_id, changed.event.outcome) == ("", None)
        assert changed.upstream is not None
        assert changed.upstream.max_concurrent == 4
        counter.feed.stop()

    run(main())


def test_an_alarm_and_an_endpoint_that_is_down_come_with_the_upstream_as_it_is_then() -> None:
    async def main() -> None:
        counter = Counter(endpoints={"gpu1": 1, "gpu2": 1})
        watcher = counter.feed.watch(nothing)
        counter.gate.set_endpoint("gpu2", counter.now, up=False, reason="it takes no connection")
        counter.pump()
        _, changed = await take_all(watcher)
        counter.gate.raise_alarm("mismatch", "mismatch: the server has 1 slot", counter.now)
        counter.pump()
        (raised,) = await take_all(watcher)
        counter.gate.clear_alarm("mismatch", counter.now)
        counter.pump()
        (cleared,) = await take_all(watcher)
        told = [item.event for item in (changed, raised, cleared) if item.event is not None]
        assert [(event.kind, event.text) for event in told] == [
            ("endpoint_changed", "down gpu2: it takes no connection"),
            ("alarm_raised", "alarm mismatch: the server has 1 slot"),
            ("alarm_cleared", "alarm mismatch no more"),
        ]
        assert changed.upstream is not None
        assert [(it.name, it.up) for it in changed.upstream.endpoints] == [("gpu1", True), ("gpu2", False)]
        assert raised.upstream is not None
        assert raised.upstream.alarms == ["mismatch: the server has 1 slot"]
        assert cleared.upstream is not None
        assert (cleared.upstream.alarms, cleared.request) == ([], None)
        counter.feed.stop()

    run(main())


def test_a_snapshot_has_the_newest_200_events() -> None:
    async def main() -> None:
        counter = Counter(history=1000)
        for number in range(150):
            counter.leave(counter.enter(str(number)))
        assert [event.number for event in counter.feed.snapshot().events] == list(range(101, 301))

    run(main())


@pytest.mark.parametrize(("wanted", "first"), [(0, 301), (1, 300), (250, 51), (300, 1), (9999, 1)])
def test_or_as_many_as_a_watcher_asks_for(wanted: int, first: int) -> None:
    async def main() -> None:
        counter = Counter(history=1000)
        for number in range(150):
            counter.leave(counter.enter(str(number)))
        watcher = counter.feed.watch(lambda: None, events=wanted)
        item = msgspec.json.decode((await watcher.wait_next())[1], type=FeedItem)
        assert [event.number for event in item.events] == list(range(first, 301))
        counter.feed.stop()

    run(main())


def test_without_history_there_are_no_old_events() -> None:
    async def main() -> None:
        counter = Counter(history=0)
        counter.leave(counter.enter("a"))
        counter.enter("b")
        snapshot = counter.feed.snapshot()
        assert (snapshot.events, snapshot.number) == ([], 3)
        assert [view.id for view in snapshot.requests] == ["b"]

    run(main())


def test_times_of_day_lie_as_far_back_as_the_clock_says() -> None:
    async def main() -> None:
        counter = Counter()
        counter.enter("a")
        counter.now += 60
        counter.enter("b")
        first, second = counter.feed.snapshot().events
        apart = msgspec.convert(second.at, datetime) - msgspec.convert(first.at, datetime)
        assert apart.total_seconds() == pytest.approx(60, abs=1)

    run(main())


def plain(view: RequestView | UpstreamView) -> RequestView | UpstreamView:
    """Without what depends on the moment in which it is looked at."""
    if isinstance(view, UpstreamView):
        return msgspec.structs.replace(view, rate=0.0)
    return msgspec.structs.replace(view, arrived_at="")


def plain_event(view: EventView) -> EventView:
    return msgspec.structs.replace(view, at="")


@given(steps)
def test_snapshot_and_events_give_what_a_later_snapshot_gives(schedule: list[tuple[str, Any]]) -> None:
    async def main() -> None:
        counter = Counter(2, endpoints={"one": 1, "two": 2}, max_queued=4, queue_timeout=8.0, stall_alarm=2.0)
        follower, late = Follower(), Follower()
        tickets: list[Any] = []
        watchers = [counter.feed.watch(nothing)]
        for number, step in enumerate(schedule):
            play(counter, step, tickets, number)
            for record in counter.ledger.live():
                record.output_tokens += record.state == "running"
            if number % 7 == 3:
                await asyncio.sleep(0.3)
            if number == 10:
                watchers.append(counter.feed.watch(nothing))
        await asyncio.sleep(1.1)
        for watcher, viewer in zip(watchers, (follower, late), strict=False):
            for item in await take_all(watcher):
                viewer.apply(item)
            check_same(viewer, counter)
        counter.feed.stop()

    def check_same(viewer: Follower, counter: Counter) -> None:
        now = Follower()
        now.apply(counter.feed.snapshot())
        assert viewer.number == now.number
        assert {name: plain(view) for name, view in viewer.requests.items()} == {
            name: plain(view) for name, view in now.requests.items()
        }
        assert {name: plain(view) for name, view in viewer.upstreams.items()} == {
            name: plain(view) for name, view in now.upstreams.items()
        }
        assert [plain_event(event) for event in viewer.events][-len(now.events) :] == [
            plain_event(event) for event in now.events
        ]

    run(main())


# ---- progress


def test_what_changes_without_an_event_comes_once_a_second() -> None:
    async def main() -> None:
        counter = Counter(2)
        counter.enter("a")
        counter.enter("b")
        watcher = counter.feed.watch(nothing)
        await asyncio.sleep(1.01)
        await take_all(watcher)
        record = counter.ledger.record("a")
        assert record is not None
        for tokens in (5, 6, 7):
            record.output_tokens = tokens
            await asyncio.sleep(0.1)
        assert await take_all(watcher) == []
        await asyncio.sleep(1.0)
        (progress,) = await take_all(watcher)
        assert (progress.type, progress.number) == ("progress", 2)
        assert [(view.id, view.output_tokens) for view in progress.requests] == [("a", 7)]
        assert progress.upstreams == []
        await asyncio.sleep(5)
        quiet = await take_all(watcher)
        assert len(quiet) == 5, "one shows that the daemon turns"
        assert [(item.type, item.number, item.requests, item.upstreams) for item in quiet] == [
            ("progress", 2, [], [])
        ] * 5
        counter.feed.stop()

    run(main())


def test_figures_that_fall_with_time_are_progress() -> None:
    async def main() -> None:
        counter = Counter()
        watcher = counter.feed.watch(nothing)
        counter.leave(counter.enter("a"))
        await asyncio.sleep(1.01)
        assert [item.type for item in await take_all(watcher)] == ["snapshot", "event", "event", "progress"]
        counter.now += 61
        await asyncio.sleep(1)
        (progress,) = await take_all(watcher)
        assert [(view.name, view.rate) for view in progress.upstreams] == [(UPSTREAM, 0.0)]
        assert progress.now_ms == 161_000
        counter.feed.stop()

    run(main())


def test_nothing_is_rendered_while_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        counter, encoded = Counter(), []
        monkeypatch.setattr(feed_module, "encode", lambda item: encoded.append(item) or b"{}")
        for number in range(100):
            counter.leave(counter.enter(str(number)))
        await asyncio.sleep(5)
        assert (counter.rendered, encoded) == (0, [])
        watcher = counter.feed.watch(nothing)
        counter.feed.leave(watcher)
        rendered = counter.rendered
        assert (rendered, len(encoded)) == (1, 1)
        counter.leave(counter.enter("z"))
        await asyncio.sleep(5)
        assert (counter.rendered, len(encoded)) == (rendered, 1)
        assert this_loop().timers == []

    run(main())


def test_an_event_is_rendered_once_for_all() -> None:
    async def main() -> None:
        counter = Counter()
        watchers = [counter.feed.watch(nothing) for _ in range(5)]
        before = counter.rendered
        counter.enter("a")
        assert [watcher.waiting for watcher in watchers] == [2] * 5, "with the snapshot"
        assert counter.rendered == before + 1
        assert len({watcher._items[-1][1] for watcher in watchers}) == 1
        assert counter.feed.watchers == 5
        counter.feed.stop()

    run(main())


def test_of_events_taken_together_the_last_of_each_upstream_shows_it() -> None:
    async def main() -> None:
        counter = Counter()
        watcher = counter.feed.watch(nothing)
        await take_all(watcher)
        before = counter.rendered
        counter.enter("a")
        for name in "bcd":
            counter.enter(name)
        counter.feed.apply(CallerRefused(0, 5.0, "", "KEY_LIMIT", "refused", "laptop"), None)
        items = await take_all(watcher)
        assert counter.rendered == before + 1
        assert [item.upstream is not None for item in items] == [False, False, False, True, False]
        assert items[3].upstream is not None
        assert (items[3].upstream.running, items[3].upstream.waiting) == (1, 3)
        assert [item.request.id for item in items if item.request is not None] == ["a", "b", "c", "d"]
        counter.enter("e")
        (alone,) = await take_all(watcher)
        assert alone.upstream is not None
        counter.feed.stop()

    run(main())


def test_an_upstream_that_is_gone_when_its_events_are_taken_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        counter = Counter()
        watcher = counter.feed.watch(nothing)
        counter.enter("a")
        monkeypatch.setattr(counter.feed, "_upstream", lambda name: None)
        _, event = await take_all(watcher)
        assert (event.type, event.upstream) == ("event", None)
        counter.feed.stop()

    run(main())


def test_an_event_wakes_whoever_waits_for_it() -> None:
    async def main() -> None:
        counter = Counter()
        watcher = counter.feed.watch(nothing)
        await take_all(watcher)
        waiting = asyncio.ensure_future(watcher.wait_next())
        await turns()
        counter.enter("a")
        assert (await waiting)[0] == 1
        counter.feed.stop()

    run(main())


def test_what_nobody_takes_is_bounded_all_the_same() -> None:
    async def main() -> None:
        counter, cut = Counter(watcher_limit=20_000), []
        counter.feed.watch(lambda: cut.append("it"))
        for number in range(100):
            counter.leave(counter.enter(str(number)))
            assert len(counter.feed._pending) < 100
        assert cut == ["it"], "it reads nothing, and nobody else does"
        counter.feed.stop()

    run(main())


def test_what_was_pending_for_those_who_left_is_not_for_the_next() -> None:
    async def main() -> None:
        counter = Counter()
        gone = counter.feed.watch(nothing)
        counter.enter("a")
        counter.feed.leave(gone)
        (snapshot,) = await take_all(counter.feed.watch(nothing))
        assert (snapshot.type, snapshot.number) == ("snapshot", 1)
        counter.feed.stop()

    run(main())


def test_the_timer_lives_as_long_as_somebody_watches() -> None:
    async def main() -> None:
        counter = Counter()
        first, second = counter.feed.watch(nothing), counter.feed.watch(nothing)
        assert len(this_loop().timers) == 1
        await asyncio.sleep(3)
        counter.feed.leave(first)
        assert len(this_loop().timers) == 1
        counter.feed.leave(second)
        counter.feed.leave(second)
        assert this_loop().timers == []
        counter.feed.stop()
        counter.feed.watch(nothing)
        assert len(this_loop().timers) == 1
        counter.feed.stop()
        assert this_loop().timers == []

    run(main())


# ---- those who do not keep up


def test_a_slow_watcher_is_cut_and_the_others_miss_nothing() -> None:
    async def main() -> None:
        counter = Counter(watcher_limit=20_000)
        cut: list[str] = []
        slow = counter.feed.watch(lambda: cut.append("slow"))
        others = [counter.feed.watch(lambda: cut.append("other")) for _ in range(5)]
        followers = [Follower() for _ in others]
        for number in range(200):
            counter.leave(counter.enter(str(number)))
            for watcher, follower in zip(others, followers, strict=True):
                for item in await take_all(watcher):
                    follower.apply(item)
        assert cut == ["slow"]
        assert (slow.cut, len(slow._items)) == (True, 0)
        assert [follower.number for follower in followers] == [400] * 5
        counter.feed.stop()

    run(main())


def test_one_that_is_cut_may_leave_at_once() -> None:
    async def main() -> None:
        counter = Counter(watcher_limit=10)
        watchers: list[Watcher] = []
        for number in range(3):
            watchers.append(counter.feed.watch(lambda number=number: counter.feed.leave(watchers[number])))
        counter.enter("a")
        assert watchers[2].waiting == 0
        assert [watcher.cut for watcher in watchers] == [True] * 3
        assert counter.feed.watchers == 0
        assert this_loop().timers == []

    run(main())


def test_memory_stays_flat_over_10000_changes() -> None:
    """F73 in small: one watcher reads nothing, another all; the second half of the changes takes no more memory."""

    async def main() -> None:
        counter = Counter(history=100, watcher_limit=200_000)
        stopped, live = counter.feed.watch(nothing), counter.feed.watch(nothing)

        async def change(times: int) -> int:
            for number in range(times):
                counter.leave(counter.enter(str(number % 100)))
                await take_all(live)
                counter.events.clear()
                assert held(stopped) <= 200_000 + 10_000, "its snapshot comes on top"
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            before = await change(2500)
            assert await change(2500) < before + 50_000
        finally:
            tracemalloc.stop()
        assert stopped.cut
        assert not live.cut
        assert len(counter.feed._recent) == 100
        counter.feed.stop()

    run(main())


def test_the_opening_snapshot_does_not_count_against_the_bound() -> None:
    async def main() -> None:
        counter = Counter(watcher_limit=3000)
        for number in range(50):
            counter.leave(counter.enter(str(number)))
        watcher = counter.feed.watch(nothing)
        assert held(watcher) > 3000
        counter.enter("a")
        assert not watcher.cut
        assert [item.type for item in await take_all(watcher)] == ["snapshot", "event"]
        for _ in range(20):
            counter.leave(counter.enter("b"))
            await take_all(watcher)
        assert not watcher.cut, "what was taken out makes room"
        counter.feed.stop()

    run(main())


@pytest.mark.parametrize("put", [Watcher.put, Watcher.put_snapshot])
def test_nothing_is_kept_for_one_that_is_cut(put: Callable[[Watcher, int, bytes], None]) -> None:
    watcher = Watcher(10, nothing, nothing)
    watcher.put(1, b"12345")
    watcher.end()
    put(watcher, 2, b"1")
    assert len(watcher._items) == 0


def test_exactly_the_bound_is_still_taken() -> None:
    watcher = Watcher(10, nothing, nothing)
    watcher.put(1, b"12345")
    watcher.put(2, b"67890")
    assert not watcher.cut
    watcher.put(3, b"1")
    assert watcher.cut


def test_close_cuts_everybody() -> None:
    async def main() -> None:
        counter, cut = Counter(), []
        for number in range(3):
            counter.feed.watch(lambda number=number: cut.append(number))
        counter.feed.close()
        assert sorted(cut) == [0, 1, 2]
        counter.feed.stop()

    run(main())


def test_announce_gives_everybody_a_fresh_snapshot() -> None:
    async def main() -> None:
        counter = Counter()
        watchers = [counter.feed.watch(nothing) for _ in range(2)]
        counter.enter("a")
        counter.feed.announce()
        for watcher in watchers:
            (item,) = await take_all(watcher)
            assert (item.type, item.number) == ("snapshot", 1), "it stands for all before it"
            assert [view.id for view in item.requests] == ["a"]
        counter.feed.stop()

    run(main())


# ---- one mailbox


def test_waiting_ends_with_the_item() -> None:
    async def main() -> None:
        watcher = Watcher(100, nothing, nothing)
        waiting = asyncio.ensure_future(watcher.wait_next())
        await turns()
        assert not waiting.done()
        watcher.put(7, b"x")
        watcher.put(8, b"y")
        assert await waiting == (7, b"x")
        assert await watcher.wait_next() == (8, b"y")
        assert this_loop().timers == []

    run(main())


def test_a_snapshot_that_takes_the_place_of_another_is_waited_for() -> None:
    async def main() -> None:
        watcher = Watcher(100, nothing, nothing)
        waiting = asyncio.ensure_future(watcher.wait_next())
        await turns()
        watcher.put_snapshot(7, b"x")
        watcher.put_snapshot(8, b"y")
        assert await waiting == (8, b"y")

    run(main())


def test_a_watcher_that_is_cancelled_leaves_no_timer() -> None:
    async def main() -> None:
        watcher = Watcher(10, nothing, nothing)
        waiting = asyncio.ensure_future(watcher.wait_next())
        watcher._on_cut = waiting.cancel
        await turns()
        watcher.put(1, b"far more than it may hold")
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert this_loop().timers == []

    run(main())


# ---- words

WHO = Caller(id="r1")
ABOUT: tuple[Any, ...] = (1, 5.0, UPSTREAM, 1, WHO)
KINDS = [
    (Queued(*ABOUT, 1, 1, None), "queued", None),
    (Admitted(*ABOUT, True, 0.0), "admitted", None),
    (Drained(*ABOUT, "client_gone", 1.0), "drained", "client_gone"),
    (Released(*ABOUT, "completed", 1.0), "released", "completed"),
    (Released(*ABOUT, None, 1.0), "released", None),
    (Abandoned(*ABOUT, 1.0), "abandoned", "abandoned"),
    (Expired(*ABOUT, 1.0), "expired", "queue_timeout"),
    (Dismissed(*ABOUT, "cancelled", 1.0), "dismissed", "cancelled"),
    (Refused(1, 5.0, UPSTREAM, WHO, "queue_full", 1, 1), "refused", "queue_full"),
    (Moved(*ABOUT, 0), "moved", None),
    (Requeued(*ABOUT, 1), "requeued", None),
    (LimitsChanged(1, 5.0, UPSTREAM, Limits(), Limits(2)), "limits_changed", None),
    (ModeChanged(1, 5.0, UPSTREAM, Mode.OPEN, Mode.HELD), "mode_changed", None),
    (EndpointChanged(1, 5.0, UPSTREAM, "gpu2", False, 1, True, 1, "gone"), "endpoint_changed", None),
    (AlarmRaised(1, 5.0, UPSTREAM, "stalled", "stalled: it is"), "alarm_raised", None),
    (AlarmCleared(1, 5.0, UPSTREAM, "stalled"), "alarm_cleared", None),
    (CallerRefused(0, 5.0, "", "KEY_LIMIT", "refused a request", "laptop"), "caller_refused", None),
]


@pytest.mark.parametrize(("event", "kind", "outcome"), KINDS)
def test_kind_and_outcome(event: Event, kind: str, outcome: str | None) -> None:
    assert (kind_of(event), outcome_of(event)) == (kind, outcome)


async def test_an_event_of_nobody_in_particular_names_its_key() -> None:
    counter = Counter(1)
    counter.feed.apply(CallerRefused(0, 5.0, "", "KEY_LIMIT", "refused a request (KEY_LIMIT)", "laptop"), None)
    event = counter.feed.snapshot().events[-1]
    assert (event.key, event.upstream, event.text) == ("laptop", "", "refused a request (KEY_LIMIT)")


# ---- coming back


async def resumed(counter: Counter, after: int) -> list[FeedItem]:
    watcher = counter.feed.watch(nothing, after=counter.feed.id_of(after))
    items = await take_all(watcher)
    counter.feed.leave(watcher)
    return items


@given(steps, st.integers(0, 30))
def test_what_was_missed_brings_a_viewer_to_where_a_snapshot_does(schedule: list[tuple[str, Any]], away: int) -> None:
    async def main() -> None:
        counter = Counter(2, endpoints={"one": 1, "two": 2}, max_queued=4, queue_timeout=8.0, stall_alarm=2.0)
        tickets: list[Any] = []
        viewer = Follower()
        viewer.apply(counter.feed.snapshot())
        for number, step in enumerate(schedule):
            if number == away:
                viewer.apply(counter.feed.snapshot())
            play(counter, step, tickets, number)
            for record in counter.ledger.live():
                record.output_tokens += record.state == "running"
        for item in await resumed(counter, viewer.number):
            viewer.apply(item)
        now = Follower()
        now.apply(counter.feed.snapshot())
        assert viewer.number == now.number
        for mine, right in ((viewer.requests, now.requests), (viewer.upstreams, now.upstreams)):
            assert {name: plain(view) for name, view in mine.items()} == {
                name: plain(view) for name, view in right.items()
            }

    run(main())


def test_what_is_too_long_ago_is_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        counter = Counter(history=8)
        for number in range(5):
            counter.leave(counter.enter(str(number)))
        assert [item.type for item in await resumed(counter, 2)] == ["event"] * 8 + ["progress"]
        assert [item.type for item in await resumed(counter, 1)] == ["snapshot"]
        assert [item.type for item in await resumed(counter, 10)] == ["progress"]
        assert [item.type for item in await resumed(counter, 11)] == ["snapshot"]
        monkeypatch.setattr(feed_module, "_EVENTS_RESUMED", 3)
        assert [item.type for item in await resumed(counter, 7)] == ["event"] * 3 + ["progress"]
        assert [item.type for item in await resumed(counter, 6)] == ["snapshot"]

    run(main())


def test_the_id_of_another_run_is_a_snapshot() -> None:
    async def main() -> None:
        counter, earlier = Counter(), Counter()
        counter.enter("a")
        watcher = counter.feed.watch(nothing, after=earlier.feed.id_of(0))
        (item,) = await take_all(watcher)
        assert item.type == "snapshot"
        counter.feed.stop()

    run(main())


def test_what_one_missed_does_not_count_against_the_bound() -> None:
    async def main() -> None:
        counter = Counter(watcher_limit=3000)
        for number in range(20):
            counter.leave(counter.enter(str(number)))
        watcher = counter.feed.watch(nothing, after=counter.feed.id_of(0))
        assert held(watcher) > 3000
        assert not watcher.cut
        counter.feed.stop()

    run(main())


def test_announcing_again_and_again_takes_no_memory_of_one_that_does_not_read() -> None:
    async def main() -> None:
        counter = Counter()
        watcher = counter.feed.watch(nothing)
        for _ in range(100):
            counter.feed.announce()
        assert len(watcher._items) == 1
        assert not watcher.cut
        counter.feed.stop()

    run(main())


def test_one_that_keeps_up_misses_no_event_by_a_snapshot() -> None:
    async def main() -> None:
        counter = Counter()
        watcher = counter.feed.watch(nothing)
        await take_all(watcher)
        counter.enter("a")
        counter.feed.announce()
        assert [item.type for item in await take_all(watcher)] == ["event", "snapshot"]
        counter.feed.stop()

    run(main())


def test_each_is_told_whether_it_may_act() -> None:
    async def main() -> None:
        counter = Counter()
        watchers = [counter.feed.watch(nothing, may_act=may_act) for may_act in (True, False)]
        for _ in range(2):
            told = [(await take_all(watcher))[0].status for watcher in watchers]
            assert [status.may_act for status in told if status is not None] == [True, False]
            counter.feed.announce()
        counter.feed.stop()

    run(main())


def test_who_had_it_done_is_in_the_view() -> None:
    async def main() -> None:
        counter = Counter()
        counter.gate.set_paused(True, counter.now, by="uid 7 (eve)")
        counter.pump()
        (view,) = counter.feed.snapshot().events
        assert (view.kind, view.by) == ("mode_changed", "uid 7 (eve)")

    run(main())


def test_who_comes_back_hears_of_what_changed_without_an_event() -> None:
    async def main() -> None:
        counter = Counter(2)
        counter.enter("a")
        record = counter.ledger.record("a")
        assert record is not None
        record.output_tokens = 7
        (progress,) = await resumed(counter, 1)
        assert [(view.id, view.output_tokens) for view in progress.requests] == [("a", 7)]
        assert [view.name for view in progress.upstreams] == [UPSTREAM]

    run(main())


def test_who_was_away_when_something_was_announced_gets_a_snapshot() -> None:
    async def main() -> None:
        counter = Counter()
        counter.enter("a")
        counter.feed.announce()
        assert [item.type for item in await resumed(counter, 0)] == ["snapshot"]
        assert [item.type for item in await resumed(counter, 1)] == ["snapshot"], (
            "the event, perhaps, not what followed"
        )
        counter.enter("b")
        counter.enter("c")
        assert [item.type for item in await resumed(counter, 1)] == ["snapshot"]
        assert [item.type for item in await resumed(counter, 2)] == ["event", "progress"]

    run(main())
