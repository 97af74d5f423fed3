"""The time that a request's body has: it runs out where the client is late, and not where we did not read."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from llmgate.core.lateness import is_late, prolonged


class BodyClock:
    """Makes `limit` run out after so many seconds, at the earliest."""

    __slots__ = ("_due", "_handle", "_limit", "_loop", "_seconds")

    def __init__(self, limit: asyncio.Timeout, seconds: float) -> None:
        self._limit = limit
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._set(self._loop.time() + seconds)

    def _set(self, due: float) -> None:
        self._due = due
        self._handle = self._loop.call_at(due, self._ring)

    def _ring(self) -> None:
        now = self._loop.time()
        if is_late(now, self._due):
            self._set(prolonged(now, self._due, self._seconds))
        else:
            self._limit.reschedule(now)

    def stop(self) -> None:
        """It is not needed any more."""
        self._handle.cancel()


@contextmanager
def running(limit: asyncio.Timeout, seconds: float | None) -> Iterator[None]:
    """The clock of what is inside; None = there is none."""
    if seconds is None:
        yield
        return
    clock = BodyClock(limit, seconds)
    try:
        yield
    finally:
        clock.stop()
