"""When whose wait or draining ends: a heap in which those who left are struck out later, so that leaving is cheap."""

import heapq
import math
from typing import Generic, Protocol, TypeVar

_DEAD_KEPT = 64


class Timed(Protocol):
    """Has at most one live timer, which only its Timers write."""

    timer: "Timer | None"


Timer = tuple[float, int, Timed]
"""When, a serial number that keeps equal times in order, and whom it ends."""

Member = TypeVar("Member", bound=Timed)


class Timers(Generic[Member]):
    """Of one gate."""

    __slots__ = ("_count", "_dead", "_heap", "soonest")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Member]] = []
        self._count = 0
        self._dead = 0
        self.soonest = math.inf
        """Nothing is due before: a cheap look, before `take_due` is asked."""

    def set(self, member: Member, due: float | None) -> None:
        """It has none yet; None = never."""
        if due is not None:
            self._count += 1
            entry = (due, self._count, member)
            member.timer = entry
            heapq.heappush(self._heap, entry)
            self.soonest = self._heap[0][0]

    def drop(self, member: Member) -> None:
        """Its end came otherwise."""
        if member.timer is None:
            return
        member.timer = None
        self._dead += 1
        self._strike_out_dead()

    def take_due(self, now: float) -> Member | None:
        """The next one whose time has come, if there is one; its timer is gone."""
        while self._heap and self._heap[0][0] <= now:
            entry = heapq.heappop(self._heap)
            if self._is_dead(entry):
                self._dead -= 1
                continue
            entry[2].timer = None
            self._strike_out_dead()
            return entry[2]
        self.soonest = self._heap[0][0] if self._heap else math.inf
        return None

    def next(self) -> float | None:
        """When the next one is due."""
        while self._heap and self._is_dead(self._heap[0]):
            heapq.heappop(self._heap)
            self._dead -= 1
        return self._heap[0][0] if self._heap else None

    def __len__(self) -> int:
        """Entries that are kept, dead ones included."""
        return len(self._heap)

    def _strike_out_dead(self) -> None:
        if self._dead > _DEAD_KEPT and self._dead * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if not self._is_dead(entry)]
            heapq.heapify(self._heap)
            self._dead = 0

    @staticmethod
    def _is_dead(entry: tuple[float, int, Member]) -> bool:
        return entry[2].timer is not entry
