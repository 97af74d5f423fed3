"""Who had a change done stands in its event, and only where somebody had it done."""

from collections.abc import Callable
from typing import Any

import pytest

from llmgate.core.caller import Caller
from llmgate.core.events import Limits
from llmgate.core.gate import Gate, Ticket

DOING: list[tuple[Callable[[Gate, Ticket, Ticket], Any], list[str]]] = [
    (lambda gate, runs, waits: gate.leave(runs, 1.0, "cancelled", by="me"), ["Released"]),
    (lambda gate, runs, waits: gate.leave(waits, 1.0, "cancelled", by="me"), ["Dismissed"]),
    (lambda gate, runs, waits: gate.drain(runs, 1.0, "cancelled", release_at=None, by="me"), ["Drained"]),
    (lambda gate, runs, waits: gate.drain(waits, 1.0, "cancelled", release_at=None, by="me"), ["Dismissed"]),
    (lambda gate, runs, waits: gate.move_to_front(waits, 1.0, by="me"), ["Moved"]),
    (lambda gate, runs, waits: gate.set_limits(Limits(2), 1.0, by="me"), ["LimitsChanged"]),
    (lambda gate, runs, waits: gate.set_paused(True, 1.0, by="me"), ["ModeChanged"]),
    (lambda gate, runs, waits: gate.close(1.0, dismiss=False, by="me"), ["ModeChanged"]),
    (lambda gate, runs, waits: gate.close(1.0, dismiss=True, by="me"), ["ModeChanged"]),
]
NAMES = ["leave", "leave the line", "drain", "drain in the line", "move", "limits", "pause", "close", "dismiss all"]


def told(gate: Gate) -> list[str]:
    return [type(event).__name__ for event in gate.take_events() if getattr(event, "by", "") == "me"]


@pytest.mark.parametrize(("do", "kinds"), DOING, ids=NAMES)
def test_it_is_in_the_event_of_what_was_done(do: Callable[[Gate, Ticket, Ticket], Any], kinds: list[str]) -> None:
    gate = Gate("a", Limits(1))
    runs, _, waits = (gate.enter(0.0, Caller(id=name)) for name in "abc")
    assert told(gate) == []
    do(gate, runs, waits)
    assert told(gate) == kinds


def test_reopening_too() -> None:
    gate = Gate("a", Limits(1))
    gate.close(0.0, dismiss=True)
    assert told(gate) == []
    gate.reopen(1.0, by="me")
    assert told(gate) == ["ModeChanged"]
