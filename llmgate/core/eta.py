"""How long those who wait will wait, estimated from how long slots were held lately. A fold over one gate's events.

The slots are looked at as servers of a queue: each falls free when what is left of its run is over, and again after
each run that begins there. How long runs last is drawn from the recent ones, what is left of a run from those of them
that lasted at least as long; the mean over some draws is told. (Working with mean lengths instead says too much where
there are several slots: the first of eight to end comes sooner than the mean of each.)
It is an estimate: runs are of very different lengths, and nobody knows who will leave.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from heapq import heapify, heapreplace
from itertools import accumulate
from random import Random

import msgspec

from llmgate.core.endpoints import EndpointStatistics
from llmgate.core.events import Admitted, Event, Limits, Released, Requeued

KEPT = 100
"""Holds of slots that are remembered; older ones tell little of what the server does now."""
ENOUGH = 5
"""Fewer holds than that say nothing."""
SHOWN = 20
"""Positions whose starts are worked out one by one; behind them the line moves at its mean pace."""
DRAWS = 8
_FRESH_SECONDS = 0.5
"""A schedule is looked up this long although the runs go on: it changes little in that time."""
_BUSY_SECONDS = 0.25
"""And so long although slots fall free: what begins meanwhile is taken off its head. At hundreds of requests a second
it is not worth more of the processor."""
_FEWEST_STARTS = SHOWN // 2


def slots_of(limits: Limits, endpoints: Iterable[EndpointStatistics]) -> int:
    """How many requests may run at once, at the servers that are up; 0 = there is no bound."""
    caps = [endpoint.max_concurrent for endpoint in endpoints if endpoint.up]
    together = sum(caps) if all(caps) else 0
    return min(filter(None, (limits.max_concurrent, together)), default=0)


class Schedule(msgspec.Struct, frozen=True):
    """When those in the line will get their slots, as far as can be said at one moment."""

    starts: tuple[float, ...]
    """Of positions 1, 2, ...: seconds on the clock of the events."""
    pace: float
    """Seconds between two starts behind those."""

    def start(self, position: int) -> float:
        """When position 1, 2, ... will get its slot."""
        beyond = position - len(self.starts)
        return self.starts[position - 1] if beyond <= 0 else self.starts[-1] + beyond * self.pace

    def eta_ms(self, position: int, now: float) -> int:
        """Milliseconds from now; never below 0."""
        return max(0, round((self.start(position) - now) * 1000))


class Estimator:
    """The recent holds of one gate's slots, and who holds them now."""

    __slots__ = ("_begun", "_fresh", "_held", "_made_at", "_made_for", "_schedule", "_since")

    def __init__(self) -> None:
        self._held: deque[float] = deque(maxlen=KEPT)
        """Seconds, oldest first."""
        self._since: dict[int, float] = {}
        """When whoever has a slot got it, by ticket."""
        self._schedule: Schedule | None = None
        self._made_at = 0.0
        self._made_for = 0
        """The number of slots that the schedule is for."""
        self._fresh = 0.0
        """Seconds for which it is good; fewer once something happened since it was made."""
        self._begun = 0
        """Requests that got a slot since then."""

    def apply(self, event: Event) -> None:
        """Takes in the next event of the gate. A slot is held until its server is free: draining is part of it."""
        match event:
            case Admitted():
                self._since[event.ticket] = event.at
                self._begun += 1
            case Released():
                self._held.append(event.at - self._since.pop(event.ticket, event.at))
            case Requeued():
                self._since.pop(event.ticket, None)
                self._schedule = None
            case _:
                return
        self._fresh = _BUSY_SECONDS

    def schedule(self, slots: int, now: float) -> Schedule | None:
        """With `slots` slots in all; None while too little is known, or where there is no bound (0)."""
        if slots <= 0 or len(self._held) < ENOUGH:
            return None
        schedule = self._advance()
        if schedule is None or self._made_for != slots or now - self._made_at > self._fresh:
            schedule = self._make(slots, now)
            self._made_for, self._made_at, self._fresh, self._begun = slots, now, _FRESH_SECONDS, 0
        self._schedule = schedule
        return schedule

    def _advance(self) -> Schedule | None:
        """The one there is, without the starts that are over; None where few would be left."""
        begun, self._begun = self._begun, 0
        if self._schedule is None or not begun:
            return self._schedule
        starts = self._schedule.starts[begun:]
        return Schedule(starts, self._schedule.pace) if len(starts) >= _FEWEST_STARTS else None

    def _make(self, slots: int, now: float) -> Schedule:
        held = sorted(self._held)
        mean = sum(held) / len(held)
        ages = [now - since for since in self._since.values()]
        chance = Random(0)  # noqa: S311  nothing secret; the same state always gives the same estimate
        draws = [_draw(held, ages, slots, chance) for _ in range(DRAWS)]
        starts = accumulate((now + sum(each) / DRAWS for each in zip(*draws, strict=True)), max)
        return Schedule(tuple(starts), mean / slots)


def _draw(held: list[float], ages: list[float], slots: int, chance: Random) -> list[float]:
    """One way in which it may come: seconds until the first SHOWN starts."""
    free_at = sorted(_left(held, age, chance) for age in ages)
    free_at = free_at[max(0, len(free_at) - slots) :]  # above a lowered cap, the first to end start nobody
    free_at += [0.0] * (slots - len(free_at))
    heapify(free_at)
    return [heapreplace(free_at, free_at[0] + chance.choice(held)) for _ in range(SHOWN)]


def _left(held: list[float], age: float, chance: Random) -> float:
    """What is left of a run of which `age` seconds are over, `held` being sorted. One that lasts longer than any before
    may end at once or never: half of the longest is said."""
    shorter = bisect_right(held, age)
    return held[chance.randrange(shorter, len(held))] - age if shorter < len(held) else held[-1] / 2
