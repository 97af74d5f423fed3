"""A watch of a server's slots in virtual time, and the server as a test says it."""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from virtual_loop import run, this_loop, turns

from llmgate.errors import UpstreamDown, UpstreamFailed, UpstreamTimeout
from llmgate.upstreams.answer import Done, OnDone, Timeouts
from llmgate.upstreams.slots import (
    SlotWatch,
)
from llmgate.upstreams.upstream import Upstream

Reply = tuple[int, bytes] | Exception | Callable[[], Awaitable[tuple[int, bytes]]]

DOWN = UpstreamDown("llmgate: no (UPSTREAM_DOWN)")
LATE = UpstreamTimeout("llmgate: late (UPSTREAM_TIMEOUT)")
BROKEN = UpstreamFailed("llmgate: broken (UPSTREAM_ERROR)")
GARBAGE = [b"", b"{}", b"[1]", b'[{"id":0}]', b'[{"is_processing":"yes"}]', b"<html>", b"[" * 100_000, b"\xff\xfe"]


def busy(count: int, of: int = 4) -> tuple[int, bytes]:
    """What llama-server answers (shortened), with so many slots at work."""
    return 200, json.dumps(
        [{"id": number, "n_ctx": 4096, "is_processing": number < count} for number in range(of)]
    ).encode()


class Told:
    """The whole answer of a server."""

    headers: list[tuple[bytes, bytes]] = []  # noqa: RUF012
    ended = True

    def __init__(self, status: int, body: bytes) -> None:
        self.status, self.body = status, body

    async def read(self, limit: int) -> bytes:
        assert len(self.body) < limit
        return self.body

    def close(self, error: Any = None) -> None: ...
    def start(self, sink: Any) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


class Server:
    """A transport to a server that answers as the test says; the last answer again and again."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = deque(replies)
        self.asked: list[float] = []
        """When."""
        self.targets: list[bytes] = []

    async def open(
        self, method: bytes, target: bytes, headers: Any, body: bytes, timeouts: Timeouts, on_done: OnDone
    ) -> Told:
        assert method == b"GET"
        self.targets.append(target)
        assert None not in (timeouts.connect, timeouts.first_byte, timeouts.total)
        self.asked.append(asyncio.get_running_loop().time())
        reply = self.replies.popleft() if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        status, body = reply if isinstance(reply, tuple) else await reply()
        on_done(Done.ENDED, None)
        return Told(status, body)

    async def aclose(self) -> None:
        """Nothing is open."""


class Bench:
    """A watch of a server, with what it gave back and which alarms it told."""

    def __init__(self, *replies: Reply, kind: Any = "llama-server") -> None:
        self.server = Server(*replies)
        self.upstream = Upstream("reasoning", self.server, kind=kind)
        self.traffic = self.upstream.traffic
        self.freed: list[str] = []
        """What was given back, and "down" where it was told that the server is."""
        self.overdue: list[bool] = []
        self.hidden: list[bool] = []
        self.watch = SlotWatch(
            self.upstream, lambda: self.freed.append("down"), self.overdue.append, self.hidden.append, this_loop().time
        )

    def drain(self, *names: str, seconds: float = 1.0) -> None:
        for name in names:
            self.watch.follow(lambda name=name: self.freed.append(name), seconds)  # type: ignore[misc]

    def work_on(self, *names: str) -> None:
        """They run there, and have their heads."""
        for name in names:
            self.traffic.sent(name, this_loop().time())
            self.traffic.answered(name)


def play(story: Callable[[Bench], Awaitable[None]], *replies: Reply, kind: Any = "llama-server") -> Bench:
    """Runs it in virtual time, beside the watch."""

    async def main() -> Bench:
        bench = Bench(*replies, kind=kind)
        running = asyncio.get_running_loop().create_task(bench.watch.run())
        await turns()
        await story(bench)
        assert not running.done()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return bench

    return run(main())


def hold_back(bench: Bench, name: str = "h") -> None:
    bench.traffic.sent(name, this_loop().time())
