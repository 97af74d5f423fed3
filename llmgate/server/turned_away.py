"""Log lines of requests that were not let in: the first at once, then at most one a minute, with their number.

Whoever may not come in may ask as often as he likes, and must not be able to fill the log.
"""

import logging
import time
from collections.abc import Callable

from llmgate.errors import GateError

SECONDS = 60.0
"""Between two lines about one code."""

logger = logging.getLogger("llmgate")


class TurnedAway:
    """Of one daemon."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told_at: dict[str, float] = {}
        self._untold: dict[str, int] = {}

    def note(self, error: GateError, who: str) -> None:
        """`who` is short, on one line and printable; no key is in it."""
        now, code = self._clock(), error.code
        if now - self._told_at.get(code, now - SECONDS) < SECONDS:
            self._untold[code] = self._untold.get(code, 0) + 1
            return
        self._told_at[code] = now
        more = self._untold.pop(code, 0)
        also = f", after {more} more that were not told" if more else ""
        logger.info("refused %s%s (%s)", who, also, code)
