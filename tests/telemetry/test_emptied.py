"""When an upstream that drains is drained."""

from hypothesis import given
from hypothesis import strategies as st

from llmgate.core.caller import Caller
from llmgate.core.events import Event, Limits, Mode, ModeChanged, RanEmpty
from llmgate.core.gate import Gate, Ticket
from llmgate.telemetry.emptied import Emptied


class Scene:
    """One gate, and what is told of its events."""

    def __init__(self) -> None:
        self.gate = Gate("a", Limits(1))
        self.emptied = Emptied()
        self.told: list[Event] = []

    def enter(self) -> Ticket:
        ticket = self.gate.enter(1.0, Caller(id="r"))
        self.pump()
        return ticket

    def leave(self, ticket: Ticket) -> None:
        self.gate.leave(ticket, 2.0, "completed")
        self.pump()

    def close(self, *, dismiss: bool = False) -> None:
        self.gate.close(1.5, dismiss=dismiss)
        self.pump()

    def rename(self, name: str) -> None:
        self.gate.rename(name, 1.5)
        self.pump()

    def pump(self) -> None:
        found = [self.emptied.apply(event) for event in self.gate.take_events()]
        self.told += [event for event in found if event is not None]


def test_it_is_told_when_the_last_one_leaves() -> None:
    scene = Scene()
    runs, waits = scene.enter(), scene.enter()
    scene.close()
    scene.leave(runs)
    assert scene.told == []
    scene.leave(waits)
    assert scene.told == [RanEmpty(0, 2.0, "a")]


def test_it_is_told_at_once_where_nobody_is() -> None:
    scene = Scene()
    scene.leave(scene.enter())
    assert scene.told == [], "it is open"
    scene.close()
    assert scene.told == [RanEmpty(0, 1.5, "a")]
    scene.gate.reopen(3.0)
    scene.leave(scene.enter())
    assert len(scene.told) == 1


def test_a_slot_that_is_not_free_yet_is_somebody() -> None:
    scene = Scene()
    runs = scene.enter()
    scene.close()
    scene.gate.drain(runs, 2.0, "client_gone", release_at=None)
    scene.pump()
    assert scene.told == []
    scene.leave(runs)
    assert len(scene.told) == 1


def test_who_waits_and_is_sent_away_is_gone() -> None:
    scene = Scene()
    runs = scene.enter()
    scene.enter()
    scene.close(dismiss=True)
    assert scene.told == []
    scene.leave(runs)
    assert len(scene.told) == 1


def test_a_new_gate_under_the_old_name_is_open() -> None:
    scene = Scene()
    scene.close()
    scene.gate = Gate("a", Limits(1))
    scene.leave(scene.enter())
    assert len(scene.told) == 1


@given(st.lists(st.sampled_from(["enter", "leave", "close", "reopen"]), max_size=30))
def test_it_is_told_exactly_when_that_becomes_true(steps: list[str]) -> None:
    scene, inside = Scene(), list[Ticket]()
    for step in steps:
        before, closed = len(scene.told), scene.gate.mode is Mode.CLOSED
        was_empty = not inside
        if step == "enter" and not closed:
            inside.append(scene.enter())
        elif step == "leave" and inside:
            scene.leave(inside.pop(0))
        elif step == "close":
            scene.close()
        elif step == "reopen":
            scene.gate.reopen(3.0)
            scene.pump()
        is_drained = scene.gate.mode is Mode.CLOSED and not inside
        assert len(scene.told) - before == (is_drained and not (closed and was_empty))


def test_others_are_not_meant() -> None:
    emptied = Emptied()
    emptied.apply(ModeChanged(1, 1.0, "a", Mode.OPEN, Mode.CLOSED))
    assert emptied.apply(ModeChanged(1, 1.0, "b", Mode.OPEN, Mode.PAUSED)) is None


def test_a_reload_that_calls_it_otherwise_changes_nothing() -> None:
    scene = Scene()
    first, second = scene.enter(), scene.enter()
    scene.rename("b")
    scene.leave(first)
    scene.leave(second)
    scene.close()
    assert scene.told == [RanEmpty(0, 1.5, "b")]
    scene.gate.reopen(3.0)
    first, second = scene.enter(), scene.enter()
    scene.close()
    assert len(scene.told) == 1, "two run"
    scene.rename("a")
    scene.leave(first)
    assert len(scene.told) == 1, "one runs"
    scene.leave(second)
    assert scene.told[1:] == [RanEmpty(0, 2.0, "a")]


def test_one_that_takes_the_name_of_one_that_is_gone_has_nothing_of_it() -> None:
    scene = Scene()
    scene.close()
    scene.gate = Gate("b", Limits(1))
    scene.leave(scene.enter())
    scene.rename("a")
    scene.leave(scene.enter())
    assert len(scene.told) == 1, "it is open"
    assert scene.emptied._inside == {"a": 0}
