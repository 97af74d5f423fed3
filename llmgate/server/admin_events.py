"""GET /v1/events: an endless event stream; a watcher that is cut is closed.

What happens after a quiet moment goes out at once, and what follows within a tenth of a second in one piece: a write
and a turn of the loop for each event would cost more than the events.
"""

import asyncio

from starlette.types import Receive, Scope, Send

from llmgate.adminapi import EVENTS_IN_SNAPSHOT
from llmgate.server.asgi import CONNECTION, headers_of
from llmgate.server.listener import Listener
from llmgate.telemetry.feed import Feed, Watcher

_GATHER_SECONDS = 0.1


class EventStream:
    """Of one watcher. It begins where the header Last-Event-ID says, if that is not too long ago, else with a snapshot
    of so many `events`."""

    def __init__(self, feed: Feed, *, may_act: bool, events: int = EVENTS_IN_SNAPSHOT) -> None:
        self._feed = feed
        self._may_act = may_act
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        after = headers_of(scope).get(b"last-event-id", b"").decode("latin-1")
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(self._write(send, after))
            with Listener(receive, writing.cancel):
                await asyncio.wait([writing])
        scope["extensions"][CONNECTION].abort()

    async def _write(self, send: Send, after: str) -> None:
        """Until it is cancelled: because the watcher left, or does not keep up."""
        task = asyncio.current_task()
        on_cut = task.cancel if task is not None else _nothing
        watcher = self._feed.watch(on_cut, may_act=self._may_act, after=after, events=self._events)
        try:
            headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            while True:
                await send({"type": "http.response.body", "body": await self._gather(watcher), "more_body": True})
                await asyncio.sleep(_GATHER_SECONDS)
        finally:
            self._feed.leave(watcher)

    async def _gather(self, watcher: Watcher) -> bytes:
        """The next item, and all that wait behind it."""
        frames = [self._frame(*await watcher.wait_next())]
        while watcher.waiting:
            frames.append(self._frame(*await watcher.wait_next()))
        return b"".join(frames)

    def _frame(self, number: int, data: bytes) -> bytes:
        return b"id: %b\ndata: %b\n\n" % (self._feed.id_of(number).encode(), data)


def _nothing() -> None:
    """Nobody to cancel."""
