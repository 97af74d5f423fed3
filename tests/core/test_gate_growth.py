"""What the gate keeps and does while 10,000 wait, counted in entries and heap steps, never in time."""

import heapq
import random
from collections import Counter
from types import SimpleNamespace

import pytest

from llmgate.core import timers as timers_module
from llmgate.core.caller import Caller
from llmgate.core.events import Limits
from llmgate.core.gate import Gate, Ticket

CALLER = Caller(id="r")
ROUNDS = 20_000


def crowded(waiting: int, queue_timeout: float | None = 3600.0) -> tuple[Gate, list[Ticket]]:
    """A gate with one who runs and so many who wait; first the one who runs."""
    gate = Gate("reasoning", Limits(max_concurrent=1, queue_timeout=queue_timeout))
    return gate, [gate.enter(0.0, CALLER) for _ in range(waiting + 1)]


@pytest.mark.parametrize("waiting", [0, 1, 100])
def test_100_000_short_waits_under_a_long_timeout_leave_nothing_behind(waiting):
    gate, tickets = crowded(waiting)
    most_timers = most_cells = 0
    for turn in range(100_000):
        newcomer = gate.enter(turn / 1000, CALLER)
        gate.leave(newcomer, turn / 1000, "abandoned")
        most_timers = max(most_timers, len(gate._timers))
        most_cells = max(most_cells, len(gate._line._members))
        gate.take_events()
    assert most_timers <= 2 * (waiting + 1) + 64
    assert most_cells <= 16 * max(waiting, 4)
    assert gate.depth == waiting
    assert [gate.position(ticket, 100.0).position for ticket in tickets[1:]] == list(range(1, waiting + 1))


def test_many_who_expire_take_the_dead_timers_with_them():
    gate, _ = crowded(2_000, queue_timeout=10.0)
    gate.set_limits(Limits(max_concurrent=1, queue_timeout=3600.0), 0.0)
    late = [gate.enter(0.0, CALLER) for _ in range(2_000)]
    for ticket in late[:-1]:
        gate.leave(ticket, 0.0, "abandoned")
    gate.handle_timer(10.0)
    assert gate.depth == 1
    assert len(gate._timers) <= 2 + 64
    assert gate.next_deadline() == late[-1].deadline == 3600.0


class CountedHeap:
    """Stands in for `heapq`; counts the steps of each call by the length of its heap."""

    def __init__(self) -> None:
        self.steps: Counter[str] = Counter()

    def module(self) -> SimpleNamespace:
        return SimpleNamespace(
            heappush=lambda heap, entry: self._count("push", len(heap).bit_length(), heapq.heappush, heap, entry),
            heappop=lambda heap: self._count("pop", len(heap).bit_length(), heapq.heappop, heap),
            heapify=lambda heap: self._count("heapify", 3 * len(heap), heapq.heapify, heap),
        )

    def _count(self, name, steps, function, *arguments):
        self.steps[name] += steps
        return function(*arguments)


@pytest.mark.parametrize("waiting", [1, 100, 1_000, 10_000])
@pytest.mark.parametrize("leaver", ["the one who runs", "anybody who waits"])
def test_timers_cost_the_logarithm_of_those_who_wait(monkeypatch, waiting, leaver):
    gate, tickets = crowded(waiting)
    heap = CountedHeap()
    monkeypatch.setattr(timers_module, "heapq", heap.module())
    dice = random.Random(waiting)
    running = tickets[0]
    for turn in range(ROUNDS):
        now = turn / 1000
        tickets.append(gate.enter(now, CALLER))
        if leaver == "anybody who waits":
            place = dice.randrange(1, len(tickets))
            tickets[place], tickets[-1] = tickets[-1], tickets[place]
            gate.leave(tickets.pop(), now, "abandoned")
        else:
            following = next(iter(gate.waiting())) if waiting < 1_000 else gate._line.head()
            gate.leave(running, now, "completed")
            running = following
        gate.next_deadline()
        gate.take_events()
    assert gate.depth == waiting
    assert heap.steps.total() / ROUNDS <= 12 + 3 * waiting.bit_length()
