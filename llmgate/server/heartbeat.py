"""A sign of life on a stream on which nothing else is sent, until its first real event."""

import asyncio
import time
from collections.abc import Callable


class Heartbeat:
    """Calls `beat` when nothing was written for `seconds`. One timer, moved only when it fires."""

    __slots__ = ("_beat", "_last_write", "_seconds", "_timer")

    def __init__(self, seconds: float, last_write: Callable[[], float], beat: Callable[[], None]) -> None:
        self._seconds = seconds
        self._last_write = last_write
        self._beat = beat
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        silent = time.monotonic() - self._last_write()
        is_due = silent + 0.001 >= self._seconds
        delay = self._seconds if is_due else self._seconds - silent
        self._timer = asyncio.get_running_loop().call_later(delay, self._tick)
        if is_due:
            self._beat()  # last, since it may stop us
