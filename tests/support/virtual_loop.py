"""A loop whose clock stands still while anything is ready, and jumps to the next timer when nothing is.

So a test of timers takes no time, and is exact: what happens at 0.5 s happens at 0.5 s. When nothing is left that could
ever happen the loop fails, instead of hanging.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class StandstillError(Exception):
    """Somebody waits for what nothing will bring."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """No threads and no signals: they come from outside of its time."""

    def __init__(self) -> None:
        self.now = 1000.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self.now

    @property
    def timers(self) -> list[asyncio.TimerHandle]:
        """Those that will still fire."""
        return [timer for timer in self._scheduled if not timer.cancelled()]


class _Jumping(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        if timeout is None and not found:
            raise StandstillError
        if timeout and not found:
            self._loop.now += timeout
        return found


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Runs a test in a virtual loop, which it finds as `asyncio.get_running_loop()`."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def this_loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


async def turns(count: int = 3) -> None:
    """Lets what is ready happen, without letting time pass."""
    for _ in range(count):
        await asyncio.sleep(0)
