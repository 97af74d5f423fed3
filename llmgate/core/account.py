"""One server's account: how many requests are in flight there, whoever sent them, and how many there may be.

Mostly one upstream has the server, and its own limits say it all. The account counts where a reload gave the server to
another upstream, or took it away and put it back, while requests run on there, and where two upstreams name it.
- The server gets at most what all upstreams that name it may send there together.
- An upstream that is leaving has no part in that, unless nobody else names the server. Those who wait there came before
  all others: what they could take at once is kept free for them.
"""


class Account:
    """Of one server. Its owners are the endpoints that lead there; each tells what it may send."""

    __slots__ = ("__weakref__", "_cap", "_claims", "_leaving", "_shares", "in_flight")

    def __init__(self) -> None:
        self.in_flight = 0
        """Running and draining; who takes a slot and who gives it back counts here."""
        self._shares: dict[object, int] = {}
        self._leaving: dict[object, int] = {}
        self._claims: dict[object, int] = {}
        """What those who wait at a leaving owner could take at once."""
        self._cap = 0

    @property
    def owners(self) -> int:
        """How many have it."""
        return len(self._shares) + len(self._leaving)

    def share(self, owner: object, most: int, *, leaving: bool) -> None:
        """`most`: what this one may send there at once; 0 = no bound."""
        self._remove(owner)
        (self._leaving if leaving else self._shares)[owner] = most
        if not leaving:
            self._claims.pop(owner, None)
        self._add_up()

    def withdraw(self, owner: object) -> None:
        """It sends nobody there any more. What it sent is counted until it gives it back."""
        self._remove(owner)
        self._claims.pop(owner, None)
        self._add_up()

    def claim(self, owner: object, count: int) -> None:
        """So many of those who wait at an owner that is leaving could be sent there now, if there were room."""
        if count:
            self._claims[owner] = count
        else:
            self._claims.pop(owner, None)

    def has_room(self, owner: object) -> bool:
        """Whether this one may send another request there, as far as the server is concerned."""
        if not self._cap:
            return True
        first = sum(self._claims.values()) if self._claims and owner not in self._leaving else 0
        return self.in_flight + first < self._cap

    def _remove(self, owner: object) -> None:
        self._shares.pop(owner, None)
        self._leaving.pop(owner, None)

    def _add_up(self) -> None:
        shares = (self._shares or self._leaving).values()
        self._cap = sum(shares) if all(shares) else 0
