"""Requests that were not let in: each is counted; log and feed are told the first at once, then at most one a minute
for each code and key, with the number of those between.

Whoever may not come in may ask as often as he likes, and must not be able to fill either.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable

from llmgate.errors import GateError

SECONDS = 60.0
"""Between two lines about one code and one key."""
MOST_KINDS = 1024
"""Codes and keys that are told apart; beyond that, until a minute has passed, codes alone are."""

logger = logging.getLogger("llmgate")

OnTold = Callable[[str, str, str], None]
"""Told of what is logged: the error's code, the text, and the name of the key."""


class _Kind:
    __slots__ = ("told_at", "untold")

    def __init__(self, told_at: float) -> None:
        self.told_at = told_at
        self.untold = 0


class TurnedAway:
    """Of one daemon."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kinds: dict[tuple[str, str], _Kind] = {}
        """By code and key, those told last at the end."""
        self.counts: Counter[str] = Counter()
        """How many there were, by code."""
        self.on_told: OnTold | None = None

    def note(self, error: GateError, who: str, key: str = "") -> None:
        """`who` is short, on one line and printable; no key is in it. `key` is the name of the key that it came
        with."""
        now, code = self._clock(), error.code
        self.counts[code] += 1
        about = self._about(code, key, now)
        kind = self._kinds.get(about)
        if kind is not None and now - kind.told_at < SECONDS:
            kind.untold += 1
            return
        more = self._kinds.pop(about).untold if kind is not None else 0
        self._kinds[about] = _Kind(now)
        also = f", after {more} more that were not told" if more else ""
        logger.info("refused %s%s (%s)", who, also, code)
        if self.on_told is not None:
            self.on_told(code, f"refused {who}{also} ({code})", key)

    def _about(self, code: str, key: str, now: float) -> tuple[str, str]:
        """Keys come and go with reloads: those of which nothing was told for long are forgotten, if there are many."""
        if (code, key) in self._kinds or len(self._kinds) < MOST_KINDS:
            return code, key
        self._kinds = {about: kind for about, kind in self._kinds.items() if now - kind.told_at < SECONDS}
        return (code, key) if len(self._kinds) < MOST_KINDS else (code, "")
