"""The steps of one request, against a gate that is asked for its position after every event."""

import contextlib
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.core.caller import Caller
from llmgate.core.events import Event, Limits, Queued
from llmgate.core.gate import Gate, Ticket
from llmgate.errors import GateError
from llmgate.telemetry.journey import trace
from llmgate.telemetry.ledger import Ledger, Record


class Line:
    """A gate whose events are kept with their numbers."""

    def __init__(self, cap: int = 1, **limits: Any) -> None:
        self.gate = Gate("a", Limits(cap, **limits))
        self.ledger = Ledger(100)
        self.now = 0.0
        self.events: list[tuple[int, Event]] = []

    def enter(self, name: str) -> Ticket:
        try:
            return self.gate.enter(self.now, Caller(id=name))
        finally:
            self.pump()

    def leave(self, ticket: Ticket, outcome: Any = "completed", by: str = "") -> None:
        self.gate.leave(ticket, self.now, outcome, by=by)
        self.pump()

    def move(self, ticket: Ticket) -> None:
        self.gate.move_to_front(ticket, self.now, by="uid 0")
        self.pump()

    def requeue(self, ticket: Ticket) -> None:
        self.gate.requeue(ticket, self.now)
        self.pump()

    def rename(self, upstream: str) -> None:
        self.gate.rename(upstream, self.now)
        self.pump()

    def pump(self) -> None:
        for event in self.gate.take_events():
            self.events.append((len(self.events) + 1, event))
            self.ledger.apply(event)

    def record(self, name: str) -> Record:
        return next(record for record in (*self.ledger.live(), *self.ledger.recent()) if record.caller.id == name)

    def steps(self, name: str) -> list[tuple[str, int | None, str]]:
        return [(step.kind, step.position, step.text) for step in trace(self.events, self.record(name))]


def test_its_own_events_and_each_move_of_its_place() -> None:
    line = Line()
    a, b, c, d = (line.enter(name) for name in "abcd")
    line.now = 2.5
    line.leave(a)
    line.leave(c, "abandoned")
    line.leave(b)
    line.leave(d)
    assert line.steps("d") == [
        ("queued", 3, "queued (depth 3)"),
        ("position", 2, "b dispatched"),
        ("position", 1, "c abandoned"),
        ("admitted", None, "dispatched after 2500ms"),
        ("released", None, ""),
    ]
    steps = trace(line.events, line.record("d"))
    assert [step.offset_ms for step in steps] == [0, 2500, 2500, 2500, 2500]
    assert [step.number for step in steps] == sorted(step.number for step in steps)


def test_others_that_move_push_it_back_unless_they_stood_before_it() -> None:
    line = Line()
    _, b, c, d = (line.enter(name) for name in "abcd")
    line.move(d)
    line.move(b)
    line.leave(d, "queue_timeout")
    line.leave(b, "cancelled", by="uid 0")
    assert line.steps("c") == [
        ("queued", 2, "queued (depth 2)"),
        ("position", 3, "d moved"),
        ("position", 2, "d queue_timeout"),
        ("position", 1, "b cancelled"),
    ]
    line.move(c)
    assert line.steps("b")[-1] == ("dismissed", None, "cancelled after 0ms by uid 0")
    assert line.steps("d")[1] == ("moved", 1, "moved to the front by uid 0")


def test_one_that_goes_back_to_the_line_pushes_it_back() -> None:
    line = Line()
    a, b = line.enter("a"), line.enter("b")
    line.gate.set_endpoint("a", line.now, up=False)
    line.requeue(a)
    assert line.steps("b") == [("queued", 1, "queued (depth 1)"), ("position", 2, "a requeued")]
    assert line.steps("a")[-1] == ("requeued", None, "requeued, nothing of it was sent")
    line.leave(b, "abandoned")
    assert line.steps("b")[-1] == ("abandoned", None, "abandoned after 0ms")


def test_one_that_was_refused_has_one_step() -> None:
    line = Line(max_queued=0)
    line.enter("a")
    with contextlib.suppress(GateError):
        line.enter("b")
    assert line.steps("b") == [("refused", None, "queue_full (depth 0)")]


def test_what_is_not_kept_any_more_is_left_out() -> None:
    line = Line()
    a = line.enter("a")
    line.enter("b")
    line.enter("c")
    line.leave(a)
    line.events = line.events[-1:]
    assert line.steps("c") == []
    assert line.steps("b") == [("admitted", None, "dispatched after 0ms")]


def test_of_many_moves_the_newest_are_kept() -> None:
    line = Line()
    line.enter("a")
    waiting = [line.enter(str(number)) for number in range(50)]
    line.enter("z")
    for ticket in waiting:
        line.leave(ticket, "abandoned")
    steps = line.steps("z")
    assert (steps[0][0], len(steps), steps[-1][1]) == ("queued", 21, 1)


ACTIONS = st.lists(st.tuples(st.sampled_from(["enter", "leave", "move", "requeue"]), st.integers(0, 9)), max_size=40)


@given(ACTIONS)
def test_every_position_that_is_told_was_the_gates_own(actions: Iterable[tuple[str, int]]) -> None:
    """A request that never went back to the line itself knows its place after every event."""
    line = Line(2)
    tickets: list[Ticket] = []
    for action, which in actions:
        if action == "enter" or not tickets:
            tickets.append(line.enter(f"q{len(tickets)}"))
        elif action == "leave":
            line.leave(tickets[which % len(tickets)])
        elif action == "move":
            line.move(tickets[which % len(tickets)])
        else:
            line.requeue(tickets[which % len(tickets)])
        for ticket in tickets:
            position = line.gate.position(ticket, line.now)
            own = [event for _, event in line.events if getattr(event, "ticket", 0) == ticket.number]
            if position is not None and isinstance(own[0], Queued) and len(own) == 1:
                assert line.steps(ticket.caller.id)[-1][1] == position.position


def test_it_follows_a_reload_that_calls_the_upstream_otherwise() -> None:
    line = Line()
    a, b, c, _ = (line.enter(name) for name in "abcd")
    line.rename("b")
    line.leave(a)
    line.rename("c")
    line.leave(b)
    line.leave(c)
    steps = [
        ("queued", 2, "queued (depth 2)"),
        ("position", 1, "b dispatched"),
        ("admitted", None, "dispatched after 0ms"),
        ("released", None, ""),
    ]
    assert line.steps("c") == steps
    line.rename("a")
    assert line.record("c").upstream == "a"
    assert line.steps("c") == steps, "of one that ended, too"
    assert [text for _, _, text in line.steps("d")][1:3] == ["b dispatched", "c dispatched"]


@pytest.mark.parametrize("renamed", [False, True])
def test_another_gate_that_had_or_gets_its_name_is_left_out(renamed: bool) -> None:
    line = Line()
    old = [line.enter(name) for name in "wxyz"]
    line.move(old[3])
    for ticket in reversed(old):
        line.leave(ticket)
    line.gate = Gate("b" if renamed else "a", Limits(1))
    _, _, c, d = (line.enter(name) for name in "abcd")
    if renamed:
        line.rename("a")
    line.leave(d, "abandoned")
    line.leave(c, "abandoned")
    assert line.steps("c") == [("queued", 2, "queued (depth 2)"), ("abandoned", None, "abandoned after 0ms")]
    assert [position for _, position, _ in line.steps("y")] == [2, 3, 2, None]
