"""Whether the gate's counts and reality go apart: the decision of the self-check, over looks that others take.

A single look proves nothing: requests come and go while it is taken. So only what is there in every look of
LASTING_SECONDS counts, one by one: the same ticket, the same task of the server. Traffic that is in order can never
raise it: a ticket that runs so long has a connection, and a task that lasts so long belongs to a ticket. Where there is
nothing to tell one from the other, as of connections and of busy slots, what counts is how many there were at least.
"""

from collections import deque
from collections.abc import Sequence
from typing import TypeVar

import msgspec

LASTING_SECONDS = 10.0
_FEWEST_LOOKS = 3

Member = TypeVar("Member")

Task = tuple[str, int]
"""A task of a server: what it calls it, and at which of its models or endpoints."""


class Look(msgspec.Struct, frozen=True):
    """One upstream at one moment."""

    at: float
    running: frozenset[int]
    """Numbers of the tickets that have a slot, and whose request is not over."""
    draining: frozenset[int]
    """Those whose request is over."""
    connections: int
    """To its servers, with a request on them or being made for one, those of `asides` included."""
    tasks: frozenset[Task] | None = None
    """What its servers work on; None where one of them does not tell."""
    others: int = 0
    """Requests that other upstreams have at the same servers, or that were over while they were asked."""
    asides: int = 0
    """Connections that need no ticket: questions of our own, and what is passed on without a slot."""
    held_back: int = 0
    """Requests with a slot here that were not sent yet: they wait for one there, since others use the servers."""
    busy: int | None = None
    """Slots of its servers that are at work; None where one of them does not tell."""

    @property
    def ours(self) -> int:
        """Requests that the servers may be working on for us."""
        return max(0, len(self.running) + len(self.draining) + self.others - self.held_back)

    @property
    def strange(self) -> int:
        """Slots that certainly work for somebody else."""
        return 0 if self.busy is None else max(0, self.busy - self.ours)


class Drift:
    """Of one upstream."""

    __slots__ = ("_looks",)

    def __init__(self) -> None:
        self._looks: deque[Look] = deque()

    def judge(self, look: Look) -> str | None:
        """What is wrong, for a person, after one more look; None where nothing is, or not for long enough."""
        self._looks.append(look)
        while len(self._looks) > _FEWEST_LOOKS and self._looks[1].at <= look.at - LASTING_SECONDS:
            self._looks.popleft()
        if len(self._looks) < _FEWEST_LOOKS or look.at - self._looks[0].at < LASTING_SECONDS:
            return None
        return self._find_lost_slots() or self._find_leaks() or self._find_strangers() or self._find_kept_slots()

    def _find_lost_slots(self) -> str | None:
        held = len(_common([look.running for look in self._looks]))
        lost = held - max(look.connections for look in self._looks)
        if lost <= 0:
            return None
        return f"drift: {_count(lost, 'slot')} taken by requests that have no connection to the server"

    def _find_leaks(self) -> str | None:
        """Connections in use that are nobody's."""
        leaked = min(look.connections - look.asides - len(look.running) - len(look.draining) for look in self._looks)
        if leaked <= 0:
            return None
        return f"drift: {_count(leaked, 'connection')} to the server in use that no request has"

    def _find_strangers(self) -> str | None:
        """Tasks of the server that are nobody's here, or slots of it that are at work for others all the time."""
        strange = max(self._find_strange_tasks(), min(look.strange for look in self._looks))
        if not strange:
            return None
        return f"drift: the server works on {_count(strange, 'request')} that llmgate did not send: who else uses it?"

    def _find_strange_tasks(self) -> int:
        told = [look.tasks for look in self._looks if look.tasks is not None]
        if len(told) < len(self._looks):
            return 0
        return max(0, len(_common(told)) - max(look.ours for look in self._looks))

    def _find_kept_slots(self) -> str | None:
        """Slots that wait for an idle server, though it is idle."""
        kept = len(_common([look.draining for look in self._looks]))
        if not kept or any(look.tasks is None or look.tasks for look in self._looks):
            return None
        return f"drift: {_count(kept, 'slot')} kept for requests that are over, though the server is idle"


def _common(sets: Sequence[frozenset[Member]]) -> frozenset[Member]:
    return frozenset.intersection(*sets)


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
