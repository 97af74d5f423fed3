"""The ledger against the gate that it follows, under any schedule, and the views that are made of it."""

from collections import Counter as Count
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.adminapi import REQUEST_STATES, UPSTREAM_STATES, EndpointView
from llmgate.core.caller import Caller
from llmgate.core.endpoints import EndpointStatistics
from llmgate.core.events import Event, GateStatistics, Limits, Mode, TicketEvent
from llmgate.core.gate import Gate, State, Ticket
from llmgate.errors import GateError
from llmgate.telemetry.ledger import Figures, Ledger, Record, rfc3339, upstream_state, view_request, view_upstream
from tests.telemetry.samples import UPSTREAM, WALL, Counter

OUTCOMES = ["completed", "client_gone", "cancelled", "upstream_error", "upstream_timeout", "upstream_down"]
HISTORY = 7

steps = st.lists(
    st.one_of(
        st.tuples(st.just("enter"), st.none()),
        st.tuples(st.sampled_from(["leave", "drain", "requeue", "move"]), st.integers(0, 40)),
        st.tuples(st.just("time"), st.sampled_from([0.0, 0.4, 3.0, 90.0])),
        st.tuples(st.just("limits"), st.sampled_from([Limits(1, 3, 5.0), Limits(2, None, None), Limits(0)])),
        st.tuples(st.sampled_from(["pause", "up"]), st.booleans()),
        st.tuples(st.just("alarm"), st.sampled_from(["one", "another", None])),
    ),
    max_size=80,
)


def play(counter: Counter, step: tuple[str, Any], tickets: list[Ticket], number: int) -> None:
    what, how = step
    gate, now = counter.gate, counter.now
    ticket = tickets[how % len(tickets)] if tickets and type(how) is int else None
    outcome = OUTCOMES[number % len(OUTCOMES)]
    if what == "enter":
        try:
            tickets.append(counter.enter(f"r{number}"))
        except GateError:
            return
    elif what == "time":
        counter.pass_time(how)
    elif ticket is not None and what == "leave":
        gate.leave(ticket, now, outcome)  # type: ignore[arg-type]
    elif ticket is not None and what == "drain":
        gate.drain(ticket, now, outcome, release_at=now + 1)  # type: ignore[arg-type]
    elif ticket is not None and what == "requeue":
        gate.requeue(ticket, now)
    elif ticket is not None:
        gate.move_to_front(ticket, now)
    else:
        play_for_all(counter.gate, what, how, now, number)
    counter.pump()


def play_for_all(gate: Gate, what: str, how: Any, now: float, number: int) -> None:
    if what == "limits":
        gate.set_limits(how, now)
    elif what == "pause":
        gate.set_paused(how, now)
    elif what == "up":
        names = list(gate.endpoints())
        gate.set_endpoint(names[number % len(names)], now, up=how, reason="gone")
    elif what == "alarm" and how is None:
        gate.clear_alarm("mismatch", now)
    elif what == "alarm":
        gate.raise_alarm("mismatch", how, now)


@given(steps, st.sampled_from([None, {"one": 1, "two": 2}]))
def test_the_ledger_says_what_the_gate_says(schedule: list[tuple[str, Any]], endpoints: dict[str, int] | None) -> None:
    counter = Counter(history=HISTORY, endpoints=endpoints, max_queued=4, queue_timeout=8.0, stall_alarm=2.0)
    tickets: list[Ticket] = []
    ended: dict[str, str] = {}
    for number, step in enumerate(schedule):
        play(counter, step, tickets, number)
        statistics = counter.gate.statistics()
        check_upstream(counter, statistics)
        check_live(counter, tickets)
        for record in counter.ledger.recent():
            assert ended.setdefault(record.caller.id, record.outcome or "") == record.outcome, "an outcome stays"
        assert len(list(counter.ledger.recent())) <= HISTORY


def check_upstream(counter: Counter, statistics: GateStatistics) -> None:
    view = counter.upstream(UPSTREAM)
    assert (view.running, view.waiting, view.draining) == (
        statistics.running,
        statistics.waiting,
        statistics.draining,
    )
    assert counter.ledger.figures(UPSTREAM).outcomes == statistics.outcomes
    told = statistics.outcomes.get
    assert (view.served, view.queue_full, view.queue_timeout) == (
        told("completed", 0),
        told("queue_full", 0),
        told("queue_timeout", 0),
    )
    assert view.alarms == list(statistics.alarms.values())
    told_endpoints = {
        it.name: EndpointStatistics(it.max_concurrent, it.up, it.in_flight, it.reason) for it in view.endpoints
    }
    endpoints = counter.gate.endpoints()
    assert told_endpoints == (endpoints if len(endpoints) > 1 else {})
    assert view.refused == told("refused", 0)
    assert view.failed == sum(told(word, 0) for word in ("upstream_error", "upstream_timeout", "upstream_down"))  # type: ignore[call-overload]


def check_live(counter: Counter, tickets: list[Ticket]) -> None:
    """Everybody who lives stands there, in the state, order and time that the gate has for it."""
    live = {record.caller.id: record for record in counter.ledger.live()}
    expected = {ticket.caller.id: ticket for ticket in tickets if ticket.state is not State.GONE}
    assert live.keys() == expected.keys()
    for name, ticket in expected.items():
        record = live[name]
        assert counter.ledger.record(name) is record
        view = view_request(record, counter.now, WALL)
        assert view.state == ticket.state.value
        assert view.arrived_ms == round(ticket.entered_at * 1000)
        if ticket.state is State.WAITING:
            assert (record.order, record.dispatched_at, record.outcome) == (ticket.order, None, None)
        else:
            assert record.dispatched_at == ticket.admitted_at
            assert view.endpoint == ("" if ticket.endpoint == UPSTREAM else ticket.endpoint)
        assert (view.outcome is None) == (ticket.state is not State.DRAINING)
    waiting = sorted((record for record in live.values() if record.state == "waiting"), key=lambda it: it.order)
    assert [record.caller.id for record in waiting] == [ticket.caller.id for ticket in counter.gate.waiting()]


def test_every_request_ends_with_one_outcome() -> None:
    counter = Counter(2, history=1000, max_queued=5, queue_timeout=3.0)
    tickets: list[Ticket] = []
    for number in range(300):
        play(counter, ("enter", None), tickets, number)
        play(counter, [("leave", number), ("drain", number // 2), ("time", 0.3)][number % 3], tickets, number)
    for ticket in tickets:
        counter.leave(ticket)
    recent = list(counter.ledger.recent())
    assert list(counter.ledger.live()) == []
    assert Count(record.caller.id for record in recent) == Count(f"r{number}" for number in range(300))
    assert Count(record.outcome for record in recent) == counter.gate.statistics().outcomes
    assert {record.state for record in recent} == {"done"}
    assert len({record.outcome for record in recent}) > 4


def test_memory_is_bounded_by_history() -> None:
    counter = Counter(history=10)
    for number in range(2000):
        counter.leave(counter.enter(str(number)))
    ledger, figures = counter.ledger, counter.ledger.figures(UPSTREAM)
    assert [record.caller.id for record in ledger.recent()] == [str(number) for number in range(1999, 1989, -1)]
    assert (len(ledger._live), len(ledger._by_id), len(ledger._recent)) == (0, 0, 10)
    assert (len(figures.waits), len(figures.runs), len(figures._ended)) == (500, 500, 1)
    assert ledger.record("1999") is None


def test_the_figures_of_one_that_is_gone_go_with_it() -> None:
    ledger = Ledger(HISTORY)
    for name in "ab":
        ledger.figures(name).count("completed", 0.0)
    ledger.forget_figures({"b"})
    assert (ledger.figures("a").outcomes, ledger.figures("b").outcomes) == ({}, {"completed": 1})


def test_who_was_at_one_that_is_called_otherwise_goes_on_with_the_figures() -> None:
    counter = Counter(1)
    counter.leave(counter.enter("served"))
    running, waiting = counter.enter("runs"), counter.enter("waits")
    counter.gate.rename("thinking", counter.now)
    counter.leave(running)
    counter.leave(waiting)
    ledger = counter.ledger
    assert [(record.caller.id, record.upstream) for record in ledger.recent()] == [
        ("waits", "thinking"),
        ("runs", "thinking"),
        ("served", "thinking"),
    ]
    assert (len(ledger._live), len(ledger._by_id)) == (0, 0)
    assert ledger.figures("thinking").outcomes == {"completed": 3}
    assert ledger.figures(UPSTREAM).outcomes == {}


def test_what_is_about_no_request_changes_no_record() -> None:
    ledger = Ledger(5)
    assert ledger.apply(Event(1, 0.0, UPSTREAM)) is None
    assert list(ledger.live()) == list(ledger.recent()) == []


def test_an_event_of_a_kind_that_it_does_not_know_changes_no_state() -> None:
    ledger = Ledger(5)
    record = ledger.apply(TicketEvent(1, 0.0, UPSTREAM, 1, Caller(id="a")))
    assert record is not None
    assert (record.state, list(ledger.live()), list(ledger.recent())) == ("running", [record], [])


# ---- a request


def test_a_whole_life_as_the_admin_api_shows_it() -> None:
    counter = Counter(queue_timeout=30.0)
    caller = {
        "model": "m", "api": "messages", "path": "/v1/messages", "stream": True, "client": "claude-cli",
        "session": "s", "purpose": "compaction", "peer": "127.0.0.1:5", "body_bytes": 77,
    }  # fmt: skip
    first = counter.enter("a")
    counter.now = 101.25
    counter.enter("b", **caller)
    record = counter.ledger.record("b")
    assert record is not None
    waits = view_request(record, 101.75, WALL)
    assert {name: getattr(waits, name) for name in caller} == caller
    assert (waits.id, waits.upstream, waits.state, waits.order) == ("b", UPSTREAM, "waiting", 2)
    assert (waits.arrived_ms, waits.arrived_at) == (101_250, "2026-11-30T14:02:30.500Z")
    assert waits.deadline_ms == 131_250
    assert (waits.dispatched_ms, waits.first_byte_ms, waits.ended_ms, waits.outcome) == (None, None, None, None)
    counter.now = 104.0
    counter.leave(first)
    record.first_byte_at, record.output_tokens = 104.5, 17
    runs = view_request(record, 105.0, WALL)
    assert (runs.state, runs.dispatched_ms, runs.first_byte_ms, runs.output_tokens) == ("running", 104_000, 104_500, 17)
    counter.now = 106.0
    counter.gate.close(counter.now, dismiss=True)
    counter.pump()
    assert record.state == "running"


def test_draining_has_its_outcome_and_its_end_already() -> None:
    counter = Counter()
    ticket = counter.enter("a")
    counter.now = 103.0
    counter.drain(ticket, "client_gone")
    record = counter.ledger.record("a")
    assert record is not None
    view = view_request(record, 104.0, WALL)
    assert (view.state, view.outcome, view.ended_ms) == ("draining", "client_gone", 103_000)
    counter.now = 105.0
    counter.leave(ticket)
    view = view_request(record, 105.0, WALL)
    assert (view.state, view.outcome, view.ended_ms) == ("done", "client_gone", 103_000)
    assert counter.ledger.record("a") is None


def test_a_refused_one_is_seen_among_the_recent() -> None:
    counter = Counter(max_queued=0)
    counter.enter("a")
    with pytest.raises(GateError):
        counter.enter("b")
    (refused,) = counter.ledger.recent()
    assert (refused.caller.id, refused.state, refused.outcome) == ("b", "done", "queue_full")
    assert (refused.arrived_at, refused.ended_at) == (100.0, 100.0)


def test_the_states_are_those_of_the_admin_api() -> None:
    assert {state.value for state in State} - {"gone"} | {"done"} == set(REQUEST_STATES)


# ---- an upstream


def statistics(
    running: int = 0, draining: int = 0, cap: int = 2, mode: Mode = Mode.OPEN, waiting: int = 0
) -> GateStatistics:
    return GateStatistics(Limits(cap), mode, waiting, running, draining, 0, 0, {})


def servers(*those: EndpointStatistics) -> dict[str, EndpointStatistics]:
    return {f"http://gpu{number}:8000": it for number, it in enumerate(those, 1)}


ONE = servers(EndpointStatistics())
GONE = EndpointStatistics(2, up=False, reason="it takes no connection")
STATES = [
    (statistics(), ONE, "idle"),
    (statistics(running=1), ONE, "ok"),
    (statistics(draining=1), ONE, "ok"),
    (statistics(running=2), ONE, "full"),
    (statistics(running=1, draining=1), ONE, "full"),
    (statistics(running=3), ONE, "full"),
    (statistics(running=9, cap=0), ONE, "ok"),
    (statistics(cap=0), ONE, "idle"),
    (statistics(running=2), servers(GONE), "down"),
    (statistics(mode=Mode.PAUSED), servers(GONE), "paused"),
    (statistics(running=2, mode=Mode.HELD), servers(GONE), "down"),
    (statistics(mode=Mode.CLOSED), ONE, "drained"),
    (statistics(mode=Mode.CLOSED), servers(GONE), "drained"),
    (statistics(mode=Mode.CLOSED, running=1), ONE, "draining"),
    (statistics(mode=Mode.CLOSED, draining=1), ONE, "draining"),
    (statistics(mode=Mode.CLOSED, waiting=1), ONE, "draining"),
    (statistics(running=1), servers(GONE, GONE), "down"),
    (statistics(), servers(GONE, EndpointStatistics(1)), "idle"),
    (statistics(running=1, cap=0), servers(GONE, EndpointStatistics(1, in_flight=1)), "full"),
    (statistics(running=2, cap=0), servers(EndpointStatistics(1), EndpointStatistics(2, in_flight=2)), "ok"),
    (statistics(running=3, cap=0), servers(*[EndpointStatistics(1, in_flight=2)] * 2), "full"),
    (statistics(running=3, cap=0), servers(EndpointStatistics(0, in_flight=3)), "ok"),
]


@pytest.mark.parametrize(("gate", "endpoints", "state"), STATES)
def test_the_state_of_an_upstream(gate: GateStatistics, endpoints: dict[str, EndpointStatistics], state: str) -> None:
    assert upstream_state(gate, endpoints) == state


def test_every_state_is_reached() -> None:
    assert {state for *_, state in STATES} == set(UPSTREAM_STATES)


SILENT = EndpointStatistics(2, up=False)


@pytest.mark.parametrize(
    ("endpoints", "detail"),
    [
        (ONE, ""),
        (servers(GONE), "it takes no connection"),
        (servers(SILENT), ""),
        (servers(EndpointStatistics(), EndpointStatistics()), ""),
        (servers(EndpointStatistics(), GONE), "http://gpu2:8000 is down: it takes no connection"),
        (servers(SILENT, GONE), "http://gpu1:8000 is down; http://gpu2:8000 is down: it takes no connection"),
    ],
)
def test_what_is_said_of_endpoints_that_are_down(endpoints: dict[str, EndpointStatistics], detail: str) -> None:
    view = view_upstream("u", "http://u", statistics(), endpoints, Figures(), None, 0.0)
    assert (view.detail, view.up) == (detail, any(endpoint.up for endpoint in endpoints.values()))


def test_several_endpoints_and_alarms_as_the_admin_api_shows_them() -> None:
    counter = Counter(0, endpoints={"http://gpu1:8000": 1, "http://gpu2:8000": 2})
    counter.enter("a")
    counter.enter("b")
    counter.gate.set_endpoint("http://gpu2:8000", counter.now, up=False, reason="it takes no connection")
    counter.gate.raise_alarm("mismatch", "mismatch: the server has 1 slot", counter.now)
    counter.gate.raise_alarm("draining", "draining: the server is still busy", counter.now)
    counter.pump()
    view = counter.upstream(UPSTREAM)
    assert view.endpoints == [
        EndpointView(name="http://gpu1:8000", up=True, in_flight=1, max_concurrent=1),
        EndpointView(name="http://gpu2:8000", up=False, in_flight=1, max_concurrent=2, reason="it takes no connection"),
    ]
    assert view.alarms == ["mismatch: the server has 1 slot", "draining: the server is still busy"]
    assert view.remarks == (
        "http://gpu2:8000 is down: it takes no connection; mismatch: the server has 1 slot; "
        "draining: the server is still busy"
    )
    record = counter.ledger.record("b")
    assert record is not None
    assert view_request(record, counter.now, WALL).endpoint == "http://gpu2:8000"


def test_a_single_endpoint_is_not_told_apart_from_its_upstream() -> None:
    counter = Counter()
    counter.enter("a")
    record = counter.ledger.record("a")
    assert record is not None
    assert view_request(record, counter.now, WALL).endpoint == ""
    assert counter.upstream(UPSTREAM).endpoints == []
    assert counter.upstream(UPSTREAM).remarks == ""


def test_an_upstream_as_the_admin_api_shows_it() -> None:
    counter = Counter(max_queued=3, queue_timeout=60.0)
    first = counter.enter("a")
    counter.now = 101.0
    second = counter.enter("b")
    counter.now = 102.0
    counter.enter("c")
    record = counter.ledger.record("a")
    assert record is not None
    record.first_byte_at = 101.5
    counter.now = 105.0
    counter.leave(first)
    view = counter.upstream(UPSTREAM)
    assert (view.name, view.url, view.state) == (UPSTREAM, "http://u", "full")
    assert (view.max_concurrent, view.max_queued, view.queue_timeout_ms) == (1, 3, 60_000)
    assert (view.running, view.waiting, view.oldest_arrived_ms) == (1, 1, 102_000)
    assert (view.p50_wait_ms, view.p95_wait_ms) == (0, 4000)
    assert (view.ttft_ms, view.p50_run_ms, view.served) == (1500, 5000, 1)
    counter.leave(second, "upstream_down")
    view = counter.upstream(UPSTREAM)
    assert (view.state, view.failed, view.detail) == ("full", 1, "")
    counter.gate.set_endpoint(UPSTREAM, counter.now, up=False, reason="it takes no connection")
    view = counter.upstream(UPSTREAM)
    assert (view.state, view.detail) == ("down", "it takes no connection")
    assert view.p50_run_ms == 5000, "only those that completed count"


def test_nothing_seen_is_no_figure() -> None:
    view = view_upstream("u", "http://u", statistics(), ONE, Figures(), None, 0.0)
    assert (view.p50_wait_ms, view.p95_wait_ms, view.ttft_ms, view.p50_run_ms) == (None, None, None, None)
    assert (view.oldest_arrived_ms, view.queue_timeout_ms, view.rate) == (None, None, 0.0)
    assert Figures().median_run() == 0.0


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=120))
def test_percentiles_are_by_nearest_rank(millis: list[int]) -> None:
    """The smallest value that at least that share of all does not exceed."""
    figures = Figures()
    figures.waits.extend(value / 1000 for value in millis)
    view = view_upstream("u", "http://u", statistics(), ONE, figures, None, 0.0)
    for percent, told in ((50, view.p50_wait_ms), (95, view.p95_wait_ms)):
        assert told is not None
        reached = [value for value in millis if sum(other <= value for other in millis) * 100 >= percent * len(millis)]
        assert told == min(reached)


def test_the_median_run_is_in_seconds() -> None:
    figures = Figures()
    figures.runs.extend([9.0, 1.0, 2.5])
    assert figures.median_run() == 2.5


def test_rate_is_over_the_last_minute() -> None:
    figures = Figures()
    for second in range(100, 200):
        figures.count("completed", second + 0.5)
        figures.count("client_gone", second + 0.7)
    assert figures.rate(199.9) == pytest.approx(2.0)
    assert figures.rate(229.9) == pytest.approx(1.0, abs=0.05)
    assert figures.rate(300.0) == 0.0
    assert figures.outcomes == {"completed": 100, "client_gone": 100}


def test_rates_fall_while_nothing_ends() -> None:
    figures = Figures()
    for number in range(30):
        figures.count("completed", 100.0 + number)
    rates = [figures.rate(130.0 + seconds) for seconds in range(70)]
    assert all(later <= earlier for earlier, later in pairwise(rates))


def test_times_for_people_are_in_utc() -> None:
    moment = datetime(2026, 11, 30, 15, 2, 31, 402_999, tzinfo=timezone(timedelta(hours=1)))
    assert rfc3339(moment) == "2026-11-30T14:02:31.402Z"
    assert rfc3339(datetime(2026, 1, 2, tzinfo=UTC)) == "2026-01-02T00:00:00.000Z"


def test_a_record_begins_as_running() -> None:
    record = Record("u", Caller(id="a"), 1.0)
    assert (record.state, record.outcome, record.output_tokens) == ("running", None, 0)


@pytest.mark.parametrize(
    ("cap", "endpoints", "shown"),
    [
        (0, servers(EndpointStatistics(4), EndpointStatistics(2)), 6),
        (3, servers(EndpointStatistics(4), EndpointStatistics(2)), 3),
        (0, servers(EndpointStatistics(4), EndpointStatistics(0)), 0),
        (2, ONE, 2),
        (0, ONE, 0),
    ],
)
def test_the_slots_of_several_endpoints_are_those_of_all(
    cap: int, endpoints: dict[str, EndpointStatistics], shown: int
) -> None:
    assert view_upstream("u", "http://u", statistics(cap=cap), endpoints, Figures(), None, 0.0).max_concurrent == shown
