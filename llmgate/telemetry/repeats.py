"""Keeps a storm of like lines out of the log: a few are written, the rest is counted and told in one line.

Lines are alike where they differ in words with digits only: addresses, ids, times. What is counted is told as soon as
something is logged after the window in which it was held back.
"""

import re
from collections import OrderedDict

WINDOW_SECONDS = 10.0
MOST_IN_WINDOW = 10
_MOST_KINDS = 256
_LONGEST = 200
_VARYING = re.compile(r"\S*\d\S*")


class _Kind:
    __slots__ = ("began_at", "held_back", "text", "written")

    def __init__(self, text: str, now: float) -> None:
        self.text = text
        self.began_at = now
        self.written = self.held_back = 0


class Repeats:
    """Of one log."""

    def __init__(self) -> None:
        self._kinds: OrderedDict[str, _Kind] = OrderedDict()
        """Those seen in the newest window of each, the oldest window first."""

    def admit(self, text: str, now: float) -> bool:
        """Whether this line is to be written."""
        key = _VARYING.sub("#", text[:_LONGEST])
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _Kind(text[:_LONGEST], now)
        if kind.written < MOST_IN_WINDOW:
            kind.written += 1
            return True
        kind.held_back += 1
        return False

    def take_over(self, now: float) -> list[str]:
        """Lines for what was held back in windows that are over; those are forgotten."""
        told = []
        while self._kinds:
            key, kind = next(iter(self._kinds.items()))
            if now - kind.began_at < WINDOW_SECONDS and len(self._kinds) <= _MOST_KINDS:
                break
            del self._kinds[key]
            if kind.held_back:
                told.append(f"{kind.held_back} more lines like this one were not written: {kind.text}")
        return told
