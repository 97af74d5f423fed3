"""The servers behind one queue: how much each may take, which are down, and which takes the next request.

- A session goes where it went last, since that server has its prompt in a cache, if there is room; else to the least
  busy one, the first named among equals.
- One that is down takes nothing. Where the queue is not held while all are down, all are tried as if they were up.
"""

from collections import OrderedDict
from collections.abc import Mapping

import msgspec

_SESSIONS_KEPT = 4096


class EndpointStatistics(msgspec.Struct, frozen=True):
    """One endpoint at one moment."""

    max_concurrent: int = 0
    """Requests there at once; 0 = no bound of its own."""
    up: bool = True
    in_flight: int = 0
    """Running and draining."""


class Endpoints:
    """All of one upstream. Only its gate calls what changes them."""

    __slots__ = ("_caps", "_in_flight", "_sessions", "_up", "holds")

    def __init__(self, caps: Mapping[str, int], *, holds: bool) -> None:
        """`caps` by name, in the order of the settings; `holds`: the queue is held while all are down."""
        self._caps = dict(caps)
        self.holds = holds
        self._up = dict.fromkeys(caps, True)
        self._in_flight = dict.fromkeys(caps, 0)
        self._sessions: OrderedDict[str, str] = OrderedDict()

    @property
    def held(self) -> bool:
        """Nobody may be let in, because no server is there to take anybody."""
        return self.holds and not any(self._up.values())

    def has_room(self) -> bool:
        """Whether one of them may take a request."""
        return any(self._is_open(name) for name in self._caps)

    def choose(self, session: str) -> str:
        """Which of those with room takes this request; ValueError where none has."""
        last = self._sessions.get(session) if session else None
        if last is not None and self._is_open(last):
            return last
        return min((name for name in self._caps if self._is_open(name)), key=self._load)

    def take(self, name: str, session: str) -> None:
        """A request goes there."""
        self._in_flight[name] += 1
        if session and len(self._caps) > 1:
            self._sessions[session] = name
            self._sessions.move_to_end(session)
            if len(self._sessions) > _SESSIONS_KEPT:
                self._sessions.popitem(last=False)

    def give_back(self, name: str) -> None:
        """It is free of one."""
        self._in_flight[name] -= 1

    def set_up(self, name: str, up: bool) -> bool:
        """Whether this changed it."""
        changed = self._up[name] is not up
        self._up[name] = up
        return changed

    def set_cap(self, name: str, max_concurrent: int) -> bool:
        """Whether this changed it. A lower one ends nothing."""
        changed = self._caps[name] != max_concurrent
        self._caps[name] = max_concurrent
        return changed

    def statistics(self) -> dict[str, EndpointStatistics]:
        """By name, in the order of the settings."""
        return {
            name: EndpointStatistics(cap, self._up[name], self._in_flight[name]) for name, cap in self._caps.items()
        }

    def _is_open(self, name: str) -> bool:
        cap = self._caps[name]
        if cap and self._in_flight[name] >= cap:
            return False
        return self._up[name] or not (self.holds or any(self._up.values()))

    def _load(self, name: str) -> float:
        return self._in_flight[name] / (self._caps[name] or 1)
