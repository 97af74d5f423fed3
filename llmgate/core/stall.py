"""Whether a queue stands still: somebody waits for a slot, and none fell free for too long."""

import math


class Stall:
    """Of one gate. Arrivals do not begin it anew, only a slot that falls free does."""

    __slots__ = ("_after", "due", "since")

    def __init__(self, after: float | None) -> None:
        """`after`: seconds after which it is alarming; None = never."""
        self._after = after
        self.since: float | None = None
        """Since when somebody waits and no slot fell free; None: nobody waits for a slot."""
        self.due = math.inf
        """When that is alarming: kept beside it, since every call looks at it."""

    def begin(self, now: float) -> None:
        """Somebody waits, and nobody did."""
        self.since = now
        self.set_after(self._after, told=False)

    def end(self) -> None:
        """A slot fell free, or nobody waits for one."""
        self.since, self.due = None, math.inf

    def note_told(self) -> None:
        """The alarm is raised: once is enough."""
        self.due = math.inf

    def set_after(self, after: float | None, *, told: bool) -> None:
        """Another bound, also for what has begun; `told`: the alarm is raised already."""
        self._after = after
        self.due = math.inf if self.since is None or after is None or told else self.since + after
