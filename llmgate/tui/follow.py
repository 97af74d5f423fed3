"""Follows the daemon's feed for ever: fills the model, and comes back after a lost connection.

A connection that had been good is taken up again at once, since the daemon cuts viewers that fall behind; only when
that fails too is it told as lost. From then on the pauses grow from 1 to 10 s.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from llmgate.adminapi import FeedItem
from llmgate.errors import AdminError
from llmgate.tui.model import Model

LONGEST_PAUSE = 10.0
GOOD_SECONDS = 1.0


class Feed(Protocol):
    """What AsyncAdminClient offers of the feed."""

    def watch(self) -> AbstractAsyncContextManager[AsyncIterator[FeedItem]]: ...


def pause_before(attempt: int) -> float:
    """Seconds until the attempt after `attempt` failed ones: 1, 2, 4, 8, 10, 10 ..."""
    return min(LONGEST_PAUSE, 2.0 ** min(attempt - 1, 8))


class Follower:
    """`changed` is called after everything that makes the model look different, `begun` after each snapshot.

    Neither may block.
    """

    def __init__(
        self,
        feed: Feed,
        model: Model,
        clock: Callable[[], float],
        changed: Callable[[], None],
        begun: Callable[[], None] | None = None,
    ) -> None:
        self._begun = begun
        self._feed = feed
        self._model = model
        self._clock = clock
        self._changed = changed
        self._wanted = asyncio.Event()
        self._failed = 0

    async def run(self) -> None:
        while True:
            error, seconds = await self._listen()
            if seconds < GOOD_SECONDS:
                await self._pause(error)

    def retry(self) -> None:
        """Ends the pause that is running."""
        self._wanted.set()

    async def _listen(self) -> tuple[str, float]:
        """Takes items until the connection ends: the sentence that says why, and how many seconds it had been good."""
        since: float | None = None
        error = "The daemon closed the connection"
        try:
            async with self._feed.watch() as items:
                async for item in items:
                    at = self._clock()
                    since = at if since is None else since
                    self._failed = 0
                    self._model.apply(item, at)
                    self._changed()
                    if item.type == "snapshot" and self._begun is not None:
                        self._begun()
        except AdminError as found:
            error = str(found)
        return error, 0.0 if since is None else self._clock() - since

    async def _pause(self, error: str) -> None:
        self._failed += 1
        at, seconds = self._clock(), pause_before(self._failed)
        self._model.lost(error, self._failed, at, at + seconds)
        self._changed()
        self._wanted.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wanted.wait()
