"""Whether a server works on what it is silent about: asked by the clocks of its requests, before one runs out.

Answered by whoever looks at the server's slots; see `core.work` for what a look says about one request of several.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from llmgate.core.work import Look

if TYPE_CHECKING:
    from llmgate.upstreams.deadlines import Deadlines

Asker = Callable[[Look | None], None]
"""Told what was seen; None: nothing could be."""


class Pulse:
    """Of one server, and of those of its requests that have a clock."""

    def __init__(self, tells: Callable[[], bool], wake: Callable[[], None]) -> None:
        """`tells`: whether the server can be asked; `wake` is called when somebody asks."""
        self._tells = tells
        self._wake = wake
        self._askers: list[Asker] = []
        self._ours: set[Deadlines] = set()

    @property
    def tells(self) -> bool:
        return self._tells()

    @property
    def is_wanted(self) -> bool:
        """Somebody asks."""
        return bool(self._askers)

    @property
    def is_idle(self) -> bool:
        """No request has a clock."""
        return not self._ours

    def join(self, deadlines: "Deadlines") -> None:
        """A request is sent, with these clocks."""
        self._ours.add(deadlines)

    def leave(self, deadlines: "Deadlines") -> None:
        """It is over. Idempotent."""
        self._ours.discard(deadlines)

    def ask(self, asker: Asker) -> None:
        """It is told in a later turn of the loop, once."""
        self._askers.append(asker)
        self._wake()

    def take(self) -> list[Asker]:
        """Those who ask, to be told by the caller."""
        askers, self._askers = self._askers, []
        return askers

    def heard(self, since: float, but: "Deadlines") -> int:
        """How many requests, but this one, had pieces of their answers since then, and were read all the time."""
        return sum(one.heard_since(since) for one in self._ours if one is not but)
