"""The waiting line: first come first served, leaving from anywhere, and everybody's position in O(log n).

Each member stands at an index of a fixed array; indices only grow along the line. A Fenwick tree (a binary indexed
tree) over the array counts who is still there, so a position is a prefix sum. When either end of the array is used up,
or hardly anybody is left in it, the line is laid out anew, without its holes, in a fresh array: amortised O(log n) for
each entry.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

import msgspec

Member = TypeVar("Member", bound=Hashable)

_SMALLEST = 64
_SPARSE = 16
"""Cells per member beyond which the array is laid out anew, so that a long line's memory goes when its members go."""


class Position(msgspec.Struct, frozen=True):
    """Where one waiter stands: what a queue frame tells."""

    position: int
    """1 = next to run."""
    depth: int
    """How many wait, this one included."""
    waited_ms: int
    eta_ms: int | None = None
    """An estimate of the time until its turn; None while there is none."""
    state: str = ""
    """"upstream_down": nobody moves, since the server is not there; "" otherwise."""


class Line(Generic[Member]):
    """Members in order, each at most once."""

    __slots__ = ("_counts", "_head", "_index", "_members", "_tail")

    def __init__(self) -> None:
        self._lay_out([])

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, member: object) -> bool:
        return member in self._index

    def __iter__(self) -> Iterator[Member]:
        """From the head, the members that stand there now."""
        members = self._members
        for index in range(self._head, self._tail):  # no copy: mostly the first few are looked at
            member = members[index]
            if member is not None:
                yield member

    def append(self, member: Member) -> None:
        """To the end. O(log n)."""
        if self._tail == len(self._members):
            self._lay_out(list(self))
        self._place(member, self._tail)
        self._tail += 1

    def push_front(self, member: Member) -> None:
        """To the head. O(log n)."""
        if self._head == 0:
            self._lay_out(list(self))
        self._place(member, self._head - 1)
        self._head -= 1

    def remove(self, member: Member) -> None:
        """Out of the line, from wherever it stands; KeyError if it is not there. O(log n)."""
        index = self._index.pop(member)
        self._members[index] = None
        self._add(index, -1)
        if len(self._members) > max(_SMALLEST, _SPARSE * len(self._index)):
            self._lay_out(list(self))
        elif index == self._head:
            self._skip_holes()

    def head(self) -> Member:
        """Who is next; IndexError on an empty line. O(1)."""
        if not self._index:
            raise IndexError("the line is empty")
        member = self._members[self._head]
        assert member is not None  # noqa: S101  the head never stands on a hole while somebody waits
        return member

    def position(self, member: Member) -> int:
        """1 for the head; KeyError if it is not there. O(log n)."""
        counts, count = self._counts, 0
        index = self._index[member] + 1
        while index > 0:
            count += counts[index]
            index &= index - 1
        return count

    def _place(self, member: Member, index: int) -> None:
        if member in self._index:
            raise ValueError("it stands in the line already")
        self._index[member] = index
        self._members[index] = member
        self._add(index, 1)

    def _add(self, index: int, change: int) -> None:
        counts, size = self._counts, len(self._counts)
        index += 1
        while index < size:
            counts[index] += change
            index += index & -index

    def _skip_holes(self) -> None:
        if not self._index:  # every cell and every count is zero already: start over in the same array
            self._head = self._tail = _SMALLEST // 4
            return
        while self._members[self._head] is None:
            self._head += 1

    def _lay_out(self, members: list[Member]) -> None:
        """A fresh array: a quarter free in front, at least half free behind."""
        size = max(_SMALLEST, 4 * len(members))
        start = size // 4
        self._members: list[Member | None] = [None] * size
        self._members[start : start + len(members)] = members
        self._index = {member: start + offset for offset, member in enumerate(members)}
        self._head, self._tail = start, start + len(members)
        self._counts = [0] * (size + 1)
        for index in self._index.values():
            self._add(index, 1)
