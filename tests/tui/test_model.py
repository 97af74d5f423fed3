"""The fold of the feed: snapshots, order, unknown things, clocks, cost."""

import time
from dataclasses import replace
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.adminapi import EventView, FeedItem, RequestView, Status, UpstreamView, encode
from llmgate.tui.model import BUCKET_MS, BUCKETS, EVENTS, RECENT, History, Model, Ordered, View

UPSTREAMS = ("a", "b")
TEXTS = {"queued": "queued (depth 1)", "admitted": "dispatched after 1ms", "moved": "moved to the front"}


class Daemon:
    """A small model of the daemon: takes steps, tells what the feed would tell, and can make a snapshot at any time."""

    def __init__(self) -> None:
        self.now = 5_000
        self.number = 0
        self.requests: dict[str, RequestView] = {}
        self.ended: list[RequestView] = []
        self.events: list[EventView] = []
        self.stopping = False
        self.front = 0
        self.born = 0

    def upstream(self, name: str) -> UpstreamView:
        count = {state: len(self.of(name, state)) for state in ("waiting", "running", "draining")}
        state = "full" if count["running"] else "idle"
        return UpstreamView(name=name, state=state, url="http://x", max_concurrent=2, **count)

    def of(self, name: str, state: str) -> list[RequestView]:
        found = [one for one in self.requests.values() if (one.upstream, one.state) == (name, state)]
        return sorted(found, key=lambda one: one.order)

    def snapshot(self) -> FeedItem:
        return FeedItem(
            type="snapshot",
            number=self.number,
            now_ms=self.now,
            status=Status(
                version="1", pid=1, started_at="", uptime_ms=0, now_at="2026-01-01T00:00:00Z", now_ms=self.now,
                state="stopping" if self.stopping else "running", listen=[], config="", socket="",
                upstreams=[self.upstream(name) for name in UPSTREAMS],
            ),
            requests=list(self.requests.values()),
            events=list(self.events),
        )  # fmt: skip

    def told(self, kind: str, name: str, request: RequestView | None = None) -> FeedItem:
        self.number += 1
        event = EventView(
            number=self.number, at="", now_ms=self.now, kind=kind, upstream=name, text=TEXTS.get(kind, "")
        )
        self.events.append(event)
        upstream = self.upstream(name)
        return FeedItem(
            type="event", number=self.number, now_ms=self.now, event=event, upstream=upstream, request=request
        )

    def step(self, action: str, name: str, pick: int) -> list[FeedItem]:
        self.now += pick * 37
        return getattr(self, action)(name, pick)

    def arrive(self, name: str, pick: int) -> list[FeedItem]:
        self.born += 1
        request = RequestView(
            id=f"q-{self.born}", upstream=name, state="waiting", order=self.born, model="m", api="messages", path="/",
            stream=True, arrived_ms=self.now,
        )  # fmt: skip
        self.requests[request.id] = request
        return [self.told("queued", name, request)]

    def change(self, name: str, before: str, kind: str, pick: int, **fields: Any) -> list[FeedItem]:
        found = self.of(name, before)
        if not found:
            return []
        request = msgspec.structs.replace(found[pick % len(found)], **fields)
        self.requests[request.id] = request
        if request.state == "done":
            request = msgspec.structs.replace(request, ended_ms=self.now)
            self.ended.append(request)
            del self.requests[request.id]
        return [self.told(kind, name, request)]

    def admit(self, name: str, pick: int) -> list[FeedItem]:
        return self.change(name, "waiting", "admitted", 0, state="running", dispatched_ms=self.now)

    def drain(self, name: str, pick: int) -> list[FeedItem]:
        return self.change(name, "running", "drained", pick, state="draining", outcome="client_gone")

    def release(self, name: str, pick: int) -> list[FeedItem]:
        return self.change(name, ("running", "draining")[pick % 2], "released", pick, state="done")

    def abandon(self, name: str, pick: int) -> list[FeedItem]:
        return self.change(name, "waiting", "abandoned", pick, state="done", outcome="abandoned")

    def move(self, name: str, pick: int) -> list[FeedItem]:
        self.front -= 1
        return self.change(name, "waiting", "moved", pick, order=self.front)

    def progress(self, name: str, pick: int) -> list[FeedItem]:
        running = self.of(name, "running")
        for request in running:
            self.requests[request.id] = msgspec.structs.replace(request, output_tokens=request.output_tokens + pick)
        return [
            FeedItem(
                type="progress", number=self.number, now_ms=self.now, upstreams=[self.upstream(name)],
                requests=self.of(name, "running"),
            )
        ]  # fmt: skip

    def stop(self, name: str, pick: int) -> list[FeedItem]:
        self.stopping = True
        told = self.snapshot().status
        return [FeedItem(type="progress", number=self.number, now_ms=self.now, status=told)]

    def unknown(self, name: str, pick: int) -> list[FeedItem]:
        return [FeedItem(type="horoscope", number=self.number, now_ms=self.now)]


ACTIONS = ("arrive", "arrive", "admit", "drain", "release", "abandon", "move", "progress", "unknown", "stop")
STEPS = st.lists(st.tuples(st.sampled_from(ACTIONS), st.sampled_from(UPSTREAMS), st.integers(0, 9)), max_size=60)


@given(STEPS, st.integers(0, 60))
def test_what_ended_is_the_same_whenever_one_comes_and_however_often_it_is_told(
    steps: list[tuple[str, str, int]], cut: int
) -> None:
    daemon = Daemon()
    whole, late = fold(daemon.snapshot()), Model()
    for index, step in enumerate(steps):
        if index == cut:
            late.apply(daemon.snapshot(), daemon.now / 1000)
            late.remember(daemon.ended)
        for item in daemon.step(*step):
            whole.apply(item, item.now_ms / 1000)
            if index >= cut:
                late.apply(item, item.now_ms / 1000)
    if cut >= len(steps):
        late.apply(daemon.snapshot(), daemon.now / 1000)
    late.remember(daemon.ended)
    seen = whole.view(daemon.now / 1000).recent
    assert seen == late.view(daemon.now / 1000).recent
    assert {one.id for one in seen} == {one.id for one in daemon.ended}
    assert [one.ended_ms for one in seen] == sorted((one.ended_ms for one in seen), reverse=True)


def test_of_what_ended_the_newest_are_kept_and_a_live_request_is_not_among_them(sample: Any) -> None:
    model = Model()
    model.apply(sample.snapshot([sample.upstream("a")], [sample.request("q-0", "a")]), 1.0)
    model.remember([sample.request(f"q-{n}", "a", state="done", ended_ms=n) for n in range(RECENT + 50)])
    model.remember([sample.request("r-1", "a", state="running", ended_ms=10**9)])
    model.remember([sample.request("q-0", "a", state="done", ended_ms=10**9)])
    recent = model.view(1.0).recent
    assert [one.id for one in recent] == [f"q-{n}" for n in range(RECENT + 49, 49, -1)]
    model.apply(sample.snapshot([sample.upstream("a")], pid=99), 1.0)
    assert model.view(1.0).recent == ()


def test_a_request_is_found_wherever_it_is(sample: Any) -> None:
    model = Model()
    model.apply(sample.documented(), 1.0)
    model.remember([sample.request("q-old", "ha-llm", state="done", ended_ms=5)])
    view = model.view(1.0)
    found = [view.request(wanted) for wanted in ("q-7f3a24", "q-7f3a1c", "q-old", "q-none")]
    assert [one and one.state for one in found] == ["waiting", "running", "done", None]
    assert view.lane("ollama") is view.lanes[2]
    assert view.lane("nobody") is None
    assert view.request("") is None
    assert [view.lanes[0].position(wanted) for wanted in ("q-7f3a21", "q-7f3a27", "q-7f3a1c")] == [1, 3, None]


def fold(*items: FeedItem) -> Model:
    model = Model()
    for item in items:
        model.apply(item, item.now_ms / 1000)
    return model


def essence(view: View) -> View:
    """The view without what only this viewer has seen."""
    lanes = tuple(replace(lane, history=()) for lane in view.lanes)
    status = view.status and msgspec.structs.replace(view.status, now_ms=0)
    link = replace(view.link, since=0.0)
    return replace(view, lanes=lanes, status=status, counted_ms=0, recent=(), link=link, heard_at=0.0)


@given(STEPS, st.integers(0, 60))
def test_a_snapshot_stands_for_all_before_it(steps: list[tuple[str, str, int]], cut: int) -> None:
    daemon = Daemon()
    whole = fold(daemon.snapshot())
    late = Model()
    for index, step in enumerate(steps):
        if index == cut:
            late.apply(daemon.snapshot(), daemon.now / 1000)
        for item in daemon.step(*step):
            whole.apply(item, item.now_ms / 1000)
            if index >= cut:
                late.apply(item, item.now_ms / 1000)
    at = daemon.now / 1000
    again = fold(daemon.snapshot())
    assert essence(whole.view(at)) == essence(again.view(at))
    if cut < len(steps):
        assert essence(late.view(at)) == essence(again.view(at))
    whole.apply(daemon.snapshot(), at)
    assert essence(whole.view(at)) == essence(again.view(at))


def batched(items: list[FeedItem]) -> list[FeedItem]:
    """As the feed tells events that come together: the last of each upstream alone has its view."""
    last = {item.event.upstream: item.number for item in items if item.event is not None}
    return [
        msgspec.structs.replace(item, upstream=None)
        if item.event is not None and last[item.event.upstream] != item.number
        else item
        for item in items
    ]


@given(st.lists(STEPS, max_size=5))
def test_events_that_come_together_give_the_same_view(batches: list[list[tuple[str, str, int]]]) -> None:
    daemon = Daemon()
    whole, brief = fold(daemon.snapshot()), fold(daemon.snapshot())
    for steps in batches:
        items = [item for step in steps for item in daemon.step(*step)]
        for told, model in ((items, whole), (batched(items), brief)):
            for item in told:
                model.apply(item, item.now_ms / 1000)
        at = daemon.now / 1000
        assert essence(whole.view(at)) == essence(brief.view(at))
        assert [lane.upstream for lane in brief.view(at).lanes] == [daemon.upstream(name) for name in UPSTREAMS]


@given(STEPS)
def test_the_view_is_what_the_daemon_has(steps: list[tuple[str, str, int]]) -> None:
    daemon = Daemon()
    model = fold(daemon.snapshot(), *(item for step in steps for item in daemon.step(*step)))
    view = model.view(daemon.now / 1000)
    assert [lane.upstream for lane in view.lanes] == [daemon.upstream(name) for name in UPSTREAMS]
    for lane in view.lanes:
        name = lane.upstream.name
        assert list(lane.waiting) == daemon.of(name, "waiting")
        assert {one.id: one for one in lane.running} == {one.id: one for one in daemon.of(name, "running")}
        assert {one.id: one for one in lane.draining} == {one.id: one for one in daemon.of(name, "draining")}
    assert view.number == daemon.number
    assert view.status is not None
    assert view.status.state == ("stopping" if daemon.stopping else "running")


@given(STEPS)
def test_unknown_fields_and_states_are_passed_over(steps: list[tuple[str, str, int]]) -> None:
    daemon = Daemon()
    items = [daemon.snapshot(), *(item for step in steps for item in daemon.step(*step))]
    newer = [msgspec.json.decode(_with_new_fields(item), type=FeedItem) for item in items]
    at = daemon.now / 1000
    assert fold(*newer).view(at) == fold(*items).view(at)


def _with_new_fields(item: FeedItem) -> bytes:
    plain = msgspec.json.decode(encode(item))
    for part in (plain, plain["status"], plain["event"], plain["upstream"], plain["request"], *plain["requests"]):
        if part is not None:
            part["aura"] = {"colour": ["blue"]}
    return msgspec.json.encode(plain)


def test_a_request_in_an_unknown_state_is_not_shown(sample: Any) -> None:
    model = Model()
    waiting = sample.request("q-1", "a")
    model.apply(sample.snapshot([sample.upstream("a")], [waiting]), 1.0)
    odd = msgspec.structs.replace(waiting, state="dreaming")
    model.apply(FeedItem(type="progress", number=100, now_ms=sample.NOW, requests=[odd]), 1.0)
    assert model.view(1.0).lanes[0].waiting == ()


def test_an_event_that_the_snapshot_includes_is_not_taken_twice(sample: Any) -> None:
    model = Model()
    model.apply(sample.snapshot([sample.upstream("a", served=5)], number=10), 1.0)
    old = FeedItem(type="event", number=10, now_ms=sample.NOW, upstream=sample.upstream("a", served=4))
    model.apply(old, 1.0)
    assert model.view(1.0).lanes[0].upstream.served == 5


def test_a_new_upstream_is_put_at_the_end_and_one_of_nobody_is_ignored(sample: Any) -> None:
    model = Model()
    model.apply(sample.snapshot([sample.upstream("a")]), 1.0)
    stray = sample.request("q-1", "nowhere")
    model.apply(
        FeedItem(type="event", number=101, now_ms=sample.NOW, upstream=sample.upstream("b"), request=stray), 1.0
    )
    assert [lane.upstream.name for lane in model.view(1.0).lanes] == ["a", "b"]


def test_events_are_bounded_and_leave_out_what_has_no_words(sample: Any) -> None:
    model = Model()
    model.apply(sample.snapshot([sample.upstream("a")], number=0), 1.0)
    for number in range(1, EVENTS * 3):
        event = sample.event(number, "released", "a", "queued (depth 1)" if number % 2 else "")
        model.apply(FeedItem(type="event", number=number, now_ms=sample.NOW, event=event), 1.0)
    events = model.view(1.0).events
    assert len(events) == EVENTS
    assert {event.number % 2 for event in events} == {1}
    assert events[-1].number == EVENTS * 3 - 1


class TestClock:
    def test_ages_follow_the_daemon_and_the_viewers_monotonic_clock(self, sample: Any) -> None:
        model = Model()
        model.apply(sample.snapshot([sample.upstream("a")]), 50.0)
        assert model.view(50.0).now_ms == sample.NOW
        assert model.view(52.5).now_ms == sample.NOW + 2_500
        model.apply(sample.quiet(sample.NOW + 10_000), 60.0)
        assert model.view(61.5).now_ms == sample.NOW + 11_500

    def test_ages_stand_still_while_nothing_is_heard(self, sample: Any) -> None:
        model = Model()
        model.apply(sample.snapshot([sample.upstream("a")]), 50.0)
        seen = {at: model.view(at) for at in (50.0, 52.5, 53.0, 57.9)}
        assert [view.silent_for for view in seen.values()] == [0, 0, 3, 7]
        assert [view.now_ms - sample.NOW for view in seen.values()] == [0, 2500, 2500, 2500]
        assert [view.stood_for for view in seen.values()] == pytest.approx([0, 0, 0.5, 5.4])
        model.apply(sample.quiet(sample.NOW + 8000), 58.0)
        assert (model.view(58.5).silent_for, model.view(58.5).now_ms) == (0, sample.NOW + 8500)

    def test_a_silence_that_ends_in_a_loss_is_one_standstill(self, sample: Any) -> None:
        model = Model()
        assert model.view(99.0).silent_for == 0
        model.apply(sample.snapshot([sample.upstream("a")]), 50.0)
        model.lost("silent", 1, 65.0, 66.0)
        view = model.view(66.0)
        assert (view.now_ms, view.stood_for, view.silent_for) == (sample.NOW + 2500, 13.5, 0)

    def test_a_late_item_does_not_turn_the_clock_back(self, sample: Any) -> None:
        model = Model()
        model.apply(sample.snapshot([sample.upstream("a")]), 50.0)
        model.apply(FeedItem(type="progress", number=100, now_ms=sample.NOW + 1000), 51.7)
        assert model.view(52.0).now_ms == sample.NOW + 2000

    @pytest.mark.parametrize("jump", [-900_000, 900_000])
    def test_a_jump_is_followed(self, sample: Any, jump: int) -> None:
        model = Model()
        model.apply(sample.snapshot([sample.upstream("a")]), 50.0)
        model.apply(FeedItem(type="progress", number=100, now_ms=sample.NOW + jump), 50.0)
        assert model.view(50.0).now_ms == sample.NOW + jump

    def test_it_stands_still_while_the_connection_is_lost(self, sample: Any) -> None:
        model = Model()
        model.apply(sample.snapshot([sample.upstream("a")]), 50.0)
        model.lost("gone", 1, 52.0, 56.0)
        model.lost("still gone", 2, 70.0, 72.0)
        view = model.view(80.0)
        assert view.now_ms == sample.NOW + 2000
        assert view.stood_for == 28.0
        assert (view.link.error, view.link.attempt, view.link.retry_at) == ("still gone", 2, 72.0)

    def test_any_item_makes_the_link_live_again(self, sample: Any) -> None:
        model = Model()
        model.lost("gone", 1, 55.0, 56.0)
        model.apply(sample.snapshot([sample.upstream("a")]), 57.0)
        assert model.view(57.0).link.state == "live"
        assert model.view(59.0).stood_for == 0.0

    def test_the_time_of_day_is_the_daemons(self, sample: Any) -> None:
        model = Model()
        assert model.view(1.0).clock is None
        model.apply(sample.snapshot([sample.upstream("a")]), 1.0)
        model.apply(sample.quiet(sample.NOW + 29_000), 30.0)
        clock = model.view(30.0).clock
        assert clock is not None
        assert clock.isoformat() == "2026-11-30T14:03:00+00:00"
        model.apply(sample.snapshot([], now_at="teatime"), 1.0)
        assert model.view(1.0).clock is None


class TestEta:
    def test_it_is_that_of_the_place_in_the_line(self, sample: Any) -> None:
        model = Model()
        told = sample.upstream("a", starts_ms=[sample.NOW + 12_000], pace_us=6_000_000)
        first, second = (sample.request(f"q-{order}", "a", order=order) for order in (1, 2))
        model.apply(sample.snapshot([told], [second, first]), 50.0)
        assert [model.view(50.0).eta_ms(request) for request in (first, second)] == [12_000, 18_000]
        model.apply(sample.quiet(sample.NOW + 4_500), 54.5)
        assert [model.view(54.5).eta_ms(request) for request in (first, second)] == [7_500, 13_500]
        model.apply(sample.quiet(sample.NOW + 49_000), 99.0)
        assert model.view(99.0).eta_ms(first) == 0
        running = msgspec.structs.replace(first, state="running")
        model.apply(FeedItem(type="progress", number=100, now_ms=sample.NOW, requests=[running]), 50.0)
        assert [model.view(50.0).eta_ms(request) for request in (first, second)] == [None, 12_000]

    def test_there_is_none_where_the_daemon_says_none(self, sample: Any) -> None:
        model = Model()
        waiting = sample.request("q-1", "a")
        model.apply(sample.snapshot([sample.upstream("a")], [waiting]), 50.0)
        assert model.view(50.0).eta_ms(waiting) is None
        assert model.view(50.0).eta_ms(sample.request("q-1", "nowhere")) is None


class TestHistory:
    def test_the_peak_of_each_span_is_kept(self) -> None:
        history = History()
        for now, waiting in ((0, 1), (1, 7), (2, 0), (BUCKET_MS, 2), (BUCKET_MS * 3, 0)):
            history.observe(now, waiting)
        assert history.peaks(BUCKET_MS * 4) == (7, 2, 2, 2, 0)

    def test_it_is_bounded_and_a_clock_that_goes_back_does_no_harm(self) -> None:
        history = History()
        history.observe(BUCKET_MS * 10**9, 3)
        history.observe(0, 4)
        assert history.peaks(0) == (4,)
        assert history.peaks(BUCKET_MS * 2 * 10**9) == (4,) * BUCKETS

    def test_nothing_before_the_first_number(self) -> None:
        assert History().peaks(10**9) == ()

    def test_it_lives_through_a_lost_connection_but_not_through_a_restart(self, sample: Any) -> None:
        model = Model()
        model.apply(sample.snapshot([sample.upstream("a", waiting=9)]), 1.0)
        later = FeedItem(type="progress", number=100, now_ms=sample.NOW + BUCKET_MS, upstreams=[sample.upstream("a")])
        model.apply(later, 21.0)
        model.lost("gone", 1, 21.0, 22.0)
        model.apply(sample.snapshot([sample.upstream("a")], now_ms=sample.NOW + BUCKET_MS), 21.0)
        assert max(model.view(21.0).lanes[0].history) == 9
        model.apply(sample.snapshot([sample.upstream("a")], now_ms=sample.NOW + BUCKET_MS, pid=8), 21.0)
        assert max(model.view(21.0).lanes[0].history) == 0

    @pytest.mark.parametrize("is_seen", [True, False], ids=["as it happens", "away meanwhile"])
    def test_it_goes_on_under_the_new_name_of_an_upstream(self, sample: Any, is_seen: bool) -> None:
        model = Model()
        model.apply(sample.snapshot([sample.upstream("a", waiting=9)]), 1.0)
        later = sample.NOW + BUCKET_MS
        if is_seen:
            told = sample.event(101, "renamed", "b", "renamed by a reload")
            model.apply(FeedItem(type="event", number=101, now_ms=later, event=told, upstream=sample.upstream("b")), 21)
        else:
            model.lost("gone", 1, 20.0, 21.0)
        names = {"renamed": {"a": "b", "old": "older"}}
        model.apply(sample.snapshot([sample.upstream("b")], number=101, now_ms=later, **names), 21.0)
        (lane,) = model.view(21.0).lanes
        assert (lane.upstream.name, max(lane.history)) == ("b", 9)
        model.apply(sample.snapshot([sample.upstream("b")], number=102, now_ms=later, **names), 21.0)
        assert max(model.view(21.0).lanes[0].history) == 9

    def test_another_that_gets_the_old_name_begins_anew(self, sample: Any) -> None:
        model = Model()
        model.apply(sample.snapshot([sample.upstream("a", waiting=9)]), 1.0)
        model.apply(sample.snapshot([sample.upstream("b")], number=101, renamed={"a": "b"}), 1.0)
        both = [sample.upstream("b"), sample.upstream("a")]
        model.apply(sample.snapshot(both, number=102, renamed={"a": "b"}), 1.0)
        assert [max(lane.history) for lane in model.view(1.0).lanes] == [9, 0]


class Counted(int):
    """An order that counts how often it is compared."""

    compared: ClassVar[int] = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return int(self) == other

    def __lt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) < int(other)

    __hash__ = int.__hash__


def test_ten_thousand_waiters_cost_a_logarithm_each(sample: Any) -> None:
    """15,000 changes among up to 10,000 requests: a linear search would need some 10,000 comparisons for each."""
    Counted.compared = 0
    waiting = [sample.request(f"q-{n}", "a", order=Counted(n * 7919 % 10_007)) for n in range(10_000)]
    model = Model()
    began = time.perf_counter()
    model.apply(sample.snapshot([sample.upstream("a", waiting=10_000)], waiting, number=0), 1.0)
    for number in range(1, 5001):
        request = msgspec.structs.replace(waiting[number * 2 - 1], state=("running", "done")[number % 2])
        model.apply(FeedItem(type="event", number=number, now_ms=sample.NOW, request=request), 1.0)
    spent = time.perf_counter() - began
    lane = model.view(1.0).lanes[0]
    assert (len(lane.waiting), len(lane.running)) == (5000, 2500)
    assert Counted.compared < 15_000 * 60
    assert spent < 10


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-5, 5), st.booleans()), max_size=60))
def test_ordered_is_a_sorted_dict(changes: list[tuple[int, int, bool]]) -> None:
    ordered, plain = Ordered(lambda request: request.order), dict[str, RequestView]()
    for name, order, keep in changes:
        request = RequestView(
            id=str(name), upstream="a", state="waiting", order=order, model="", api="", path="", stream=True
        )
        ordered.put(request)
        plain[request.id] = request
        if not keep:
            ordered.drop(request.id)
            ordered.drop(request.id)
            del plain[request.id]
        assert list(ordered) == sorted(plain.values(), key=lambda one: (one.order, one.id))
