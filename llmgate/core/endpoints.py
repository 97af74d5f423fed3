"""The servers behind one queue: how much each may take, which are down, and which takes the next request.

- A session goes where it went last, since that server has its prompt in a cache, if there is room; else to the least
  busy one, the first named among equals.
- One that is down takes nothing. Where the queue is not held while all are down, all are tried as if they were up.
- What is in flight at a server stands in its account, which others may share. It outlives the endpoint: a server that a
  reload takes away and puts back, or gives to another upstream, never gets more than it should.
"""

from collections import OrderedDict
from collections.abc import Mapping

import msgspec

from llmgate.core.account import Account

_SESSIONS_KEPT = 4096


class EndpointStatistics(msgspec.Struct, frozen=True):
    """One endpoint at one moment."""

    max_concurrent: int = 0
    """Requests there at once; 0 = no bound of its own."""
    up: bool = True
    in_flight: int = 0
    """Running and draining, of this upstream."""
    reason: str = ""
    """Why it is down, for a person."""


class Endpoints:
    """All of one upstream. Only its gate calls what changes them."""

    __slots__ = ("_caps", "_in_flight", "_only", "_reasons", "_sessions", "_up", "_usable", "accounts", "holds")

    def __init__(self, caps: Mapping[str, int], *, holds: bool, accounts: Mapping[str, Account] | None = None) -> None:
        """`caps` by name, in the order of the settings; `holds`: the queue is held while all are down; `accounts` by
        name, None: nobody else has these servers."""
        self._caps = dict(caps)
        self.accounts = {name: accounts[name] if accounts is not None else Account() for name in caps}
        """Where whoever takes a slot is counted too, and gives it back."""
        self.holds = holds
        self._up = dict.fromkeys(caps, True)
        self._reasons = dict.fromkeys(caps, "")
        self._in_flight = dict.fromkeys(caps, 0)
        self._usable = list(caps)
        """Those that may take a request if they have room: known beforehand, so that asking is cheap."""
        self._only = self._usable[0] if len(self._usable) == 1 else ""
        """The one of them, where there is no choice."""
        self._sessions: OrderedDict[str, str] = OrderedDict()

    @property
    def held(self) -> bool:
        """Nobody may be let in, because no server is there to take anybody."""
        return not self._usable

    def is_up(self, name: str) -> bool:
        """Whether it is there, as far as is known."""
        return self._up[name]

    def take(self, session: str) -> str | None:
        """Which of them takes the next request, which is of this session; None where none has room."""
        name = self._only or self._choose(session)
        if name is None:
            return None
        account = self.accounts[name]
        cap = self._caps[name]
        if (cap and self._in_flight[name] >= cap) or not account.has_room(self):
            return None
        self._in_flight[name] += 1
        account.in_flight += 1
        if session and len(self._caps) > 1:
            self._remember(session, name)
        return name

    def give_back(self, name: str) -> None:
        """It is free of one."""
        self._in_flight[name] -= 1

    def set_up(self, name: str, up: bool, reason: str) -> bool:
        """Whether this changed it. `reason` is kept while it is down."""
        if self._up[name] is up:
            return False
        self._up[name] = up
        self._reasons[name] = "" if up else reason
        self._find_usable()
        return True

    def set_cap(self, name: str, max_concurrent: int) -> bool:
        """Whether this changed it. A lower one ends nothing."""
        changed = self._caps[name] != max_concurrent
        self._caps[name] = max_concurrent
        return changed

    def replace(
        self,
        caps: Mapping[str, int],
        kept: Mapping[str, str],
        in_flight: Mapping[Account | None, int],
        *,
        holds: bool,
        accounts: Mapping[str, Account] | None = None,
    ) -> dict[Account | None, str]:
        """Another set of servers: `caps` as when it was made, `kept` the old name of each that was there before, and
        `in_flight` what this upstream has at each server. Gives the name of each by its account.

        Those kept keep what is known of them; where sessions went is forgotten unless their server stayed.
        """
        old = self.accounts
        if accounts is None:
            accounts = {name: old[kept[name]] if name in kept else Account() for name in caps}
        self.accounts = {name: accounts[name] for name in caps}
        for account in set(old.values()) - set(self.accounts.values()):
            account.withdraw(self)
        self._caps = dict(caps)
        self.holds = holds
        self._up = {name: self._up[kept[name]] if name in kept else True for name in caps}
        self._reasons = {name: self._reasons[kept[name]] if name in kept else "" for name in caps}
        self._in_flight = {name: in_flight.get(account, 0) for name, account in self.accounts.items()}
        renamed = {old: new for new, old in kept.items()}
        moved = ((session, renamed.get(name)) for session, name in self._sessions.items())
        self._sessions = OrderedDict((session, name) for session, name in moved if name is not None)
        self._find_usable()
        return {account: name for name, account in self.accounts.items()}

    def share_out(self, most: int, *, leaving: bool) -> None:
        """Tells each account what may be sent to its server: what its endpoint takes, or else `most`."""
        for name, account in self.accounts.items():
            account.share(self, self._caps[name] or most, leaving=leaving)

    def claim(self, most: int) -> None:
        """Tells each account how many could be sent there at once if there were room; `most` in all."""
        for name, account in self.accounts.items():
            cap = self._caps[name]
            own = most if cap == 0 else min(most, max(0, cap - self._in_flight[name]))
            account.claim(self, own if name in self._usable else 0)

    def withdraw(self) -> None:
        """Nobody is sent to any of them from here any more."""
        for account in self.accounts.values():
            account.withdraw(self)

    def statistics(self) -> dict[str, EndpointStatistics]:
        """By name, in the order of the settings."""
        return {
            name: EndpointStatistics(cap, self._up[name], self._in_flight[name], self._reasons[name])
            for name, cap in self._caps.items()
        }

    def _find_usable(self) -> None:
        those_up = [name for name in self._caps if self._up[name]]
        self._usable = those_up if those_up or self.holds else list(self._caps)
        self._only = self._usable[0] if len(self._usable) == 1 else ""

    def _choose(self, session: str) -> str | None:
        last = self._sessions.get(session)
        if last in self._usable and self._has_room(last):
            return last
        return min(filter(self._has_room, self._usable), key=self._load, default=None)

    def _remember(self, session: str, name: str) -> None:
        self._sessions[session] = name
        self._sessions.move_to_end(session)
        if len(self._sessions) > _SESSIONS_KEPT:
            self._sessions.popitem(last=False)

    def _has_room(self, name: str) -> bool:
        cap = self._caps[name]
        return (not cap or self._in_flight[name] < cap) and self.accounts[name].has_room(self)

    def _load(self, name: str) -> float:
        return self._in_flight[name] / (self._caps[name] or 1)
