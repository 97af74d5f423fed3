"""One HTTP answer on its way to one client: sent in order, at once while the client keeps up, else from a backlog.

A message goes out by driving `send` to its end; nearly always that needs no waiting. When it has to wait, the client is
slow: `blocked` says so, whoever produces stops until `on_writable`, and what still comes is kept in order. The same
holds at the end, while more of it waits in the connection than that should hold. A client that takes nothing for
`stall_seconds` is reported to `on_stalled`.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

from starlette.types import Message, Send

from llmgate.server.asgi import Connection, Header
from llmgate.server.drive import Drive

_NO_BODY = (204, 304)
"""Answers with these take no Content-Length (RFC 9110 8.6)."""


def nothing() -> None:
    """Nobody wants to know."""


class Reply:
    """Started once, finished once; what is written after the finish is dropped."""

    __slots__ = (
        "_backlog",
        "_connection",
        "_drive",
        "_send",
        "_sent",
        "_stall_seconds",
        "_stall_timer",
        "_unsent",
        "finished",
        "last_write",
        "on_stalled",
        "on_writable",
        "started",
    )

    def __init__(self, send: Send, stall_seconds: float | None, connection: Connection | None = None) -> None:
        self._send = send
        self._connection = connection
        self._unsent = 0
        self._stall_seconds = stall_seconds
        self._stall_timer: asyncio.TimerHandle | None = None
        self._drive: Drive | None = None
        self._backlog: deque[Message] | None = None
        self._sent: asyncio.Future[None] | None = None
        self.started = False
        self.finished = False
        self.last_write = time.monotonic()
        self.on_writable: Callable[[], None] = nothing
        self.on_stalled: Callable[[], None] = nothing

    @property
    def blocked(self) -> bool:
        """Whether the client is slow: something waits to be sent."""
        return self._drive is not None

    def start(self, status: int, headers: Sequence[Header]) -> None:
        """Status and headers."""
        self.started = True
        self._put({"type": "http.response.start", "status": status, "headers": headers})

    def write(self, data: bytes) -> None:
        """A piece of the body."""
        if data and not self.finished:
            self._put({"type": "http.response.body", "body": data, "more_body": True})

    def finish(self, data: bytes = b"") -> None:
        """The last piece and the end of the body."""
        if not self.finished:
            self.finished = True
            self._put({"type": "http.response.body", "body": data, "more_body": False})

    def answer(self, status: int, headers: Sequence[Header], body: bytes) -> None:
        """A whole answer at once."""
        length = [] if status in _NO_BODY else [(b"content-length", b"%d" % len(body))]
        self.start(status, [*headers, *length])
        self.finish(body)

    async def wait_sent(self) -> None:
        """Until nothing waits to be sent; after the end also until the connection has taken nearly all of it."""
        while self._is_behind():
            self._sent = asyncio.get_running_loop().create_future()
            try:
                await self._sent
            finally:
                self._sent = None

    def _is_behind(self) -> bool:
        if self._drive is None and self.finished and self._connection is not None and self._connection.is_behind:
            self._drive_out(self._connection.wait_writable())
        return self._drive is not None

    def stop(self) -> None:
        """Gives up what waits to be sent; nothing more goes out."""
        self.finished = True
        self._backlog = None
        if self._drive is not None:
            self._drive.stop()
            self._drive = None
        self._clear()

    def _put(self, message: Message) -> None:
        if self._drive is not None:
            if self._backlog is None:
                self._backlog = deque()
            self._backlog.append(message)
            return
        self.last_write = time.monotonic()
        self._drive_out(cast("Coroutine[Any, Any, None]", self._send(message)))

    def _drive_out(self, sending: Coroutine[Any, Any, None]) -> None:
        drive = Drive(sending, self._was_sent)
        if not drive.done:
            self._drive = drive
            self._watch_stall()

    def _was_sent(self, _: Any, error: Exception | None) -> None:
        if error is not None:
            self.finished = True
            self._backlog = None
        if self._drive is None:
            if error is not None:
                raise error
            return
        self._drive = None
        self._send_backlog()

    def _send_backlog(self) -> None:
        """The client took what it was slow with: now what came meanwhile."""
        self._clear()
        while self._backlog and self._drive is None:
            self._put(self._backlog.popleft())
        if self._drive is None:
            self.on_writable()

    def _clear(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
        if self._sent is not None and not self._sent.done():
            self._sent.set_result(None)

    def _watch_stall(self) -> None:
        self._unsent = self._connection.unsent if self._connection is not None else 0
        if self._stall_seconds is not None:
            self._stall_timer = asyncio.get_running_loop().call_later(self._stall_seconds, self._stalled)

    def _stalled(self) -> None:
        """A slow client that takes some of it each time is not stalled."""
        self._stall_timer = None
        if self._connection is not None and self._connection.unsent < self._unsent:
            self._watch_stall()
        else:
            self.on_stalled()
