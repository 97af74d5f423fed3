"""What the gate costs while others wait: `python benchmarks/gate.py` prints microseconds and the ratio to 1 waiting.

    hand on    one comes (and waits), the one who runs leaves, the head is admitted, the events are taken
    give up    one comes, and one of those who wait, drawn at random, leaves
    position   where does one of those who wait, drawn at random, stand

Each figure is processor time: the better mean of two rounds, each so long that the line is laid out anew in it. The
garbage collector is off.
"""

import gc
import random
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from llmgate.core.caller import Caller
from llmgate.core.events import Limits
from llmgate.core.gate import Gate, Ticket

WAITING = (1, 100, 1_000, 10_000)
TIMEOUTS = (None, 3600.0)
CALLS = 24_000
ROUNDS = 2
CALLER = Caller(id="benchmark")


class Crowd:
    """A gate of one slot with one who runs and so many who wait."""

    def __init__(self, waiting: int, queue_timeout: float | None) -> None:
        self.gate = Gate("benchmark", Limits(max_concurrent=1, queue_timeout=queue_timeout))
        self.now = 0.0
        self.there = deque(self.gate.enter(self.now, CALLER) for _ in range(waiting + 1))
        self.gate.take_events()
        self.dice = random.Random(1)

    def come(self) -> Ticket:
        self.now += 0.001
        return self.gate.enter(self.now, CALLER)

    def hand_on(self) -> None:
        self.there.append(self.come())
        self.gate.leave(self.there.popleft(), self.now, "completed")
        self.gate.take_events()


def seconds_each(action: Callable[[], object], calls: int = CALLS) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(calls):
            action()
        best = min(best, time.process_time() - began)
    return best / calls


def hand_on(waiting: int, queue_timeout: float | None) -> float:
    return seconds_each(Crowd(waiting, queue_timeout).hand_on)


def give_up(waiting: int, queue_timeout: float | None) -> float:
    crowd = Crowd(waiting, queue_timeout)
    line = list(crowd.there)[1:]

    def give_up_once() -> None:
        line.append(crowd.come())
        place = crowd.dice.randrange(len(line))
        line[place], line[-1] = line[-1], line[place]
        crowd.gate.leave(line.pop(), crowd.now, "abandoned")
        crowd.gate.take_events()

    return seconds_each(give_up_once)


def position(waiting: int, queue_timeout: float | None) -> float:
    crowd = Crowd(waiting, queue_timeout)
    line = list(crowd.there)[1:]
    asked = iter([crowd.dice.choice(line) for _ in range(CALLS * ROUNDS)])
    return seconds_each(lambda: crowd.gate.position(next(asked), crowd.now))


def main() -> None:
    gc.disable()
    print(f"{'':24}" + "".join(f"{waiting:>10,} waiting" for waiting in WAITING))
    for name, measure in (("hand on", hand_on), ("give up", give_up), ("position", position)):
        for queue_timeout in TIMEOUTS:
            costs = [measure(waiting, queue_timeout) for waiting in WAITING]
            label = f"{name}, {'timeout' if queue_timeout else 'no timeout'}"
            print(f"{label:24}" + "".join(f"{cost * 1e6:9.2f} us {cost / costs[0]:4.1f}x" for cost in costs))


if __name__ == "__main__":
    main()
