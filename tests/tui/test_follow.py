"""Following the feed: cuts, reconnects, pauses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from puppet import LIVENESS_SECONDS

from llmgate.adminapi import FeedItem
from llmgate.errors import AdminError, DaemonNotRunning
from llmgate.tui import follow
from llmgate.tui.follow import Follower, pause_before
from llmgate.tui.model import Link, Model

STAY = 10**6


class Scripted:
    """A feed that plays one connection after the other: items, errors, and seconds that pass on a manual clock."""

    def __init__(self, *connections: list[Any]) -> None:
        self.connections = list(connections)
        self.now = 100.0
        self.seen: list[Link] = []
        self.finished = asyncio.Event()
        self.model = Model()
        self.begun = 0
        self.follower = Follower(self, self.model, lambda: self.now, self.changed, self.begin)

    def begin(self) -> None:
        assert self.model.view(self.now).status is not None
        self.begun += 1

    def changed(self) -> None:
        self.seen.append(self.model.view(self.now).link)
        if self.seen[-1].state == "lost":
            self.now = self.seen[-1].retry_at
            asyncio.get_running_loop().call_soon(self.follower.retry)

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[AsyncIterator[FeedItem]]:
        yield self.play(self.connections.pop(0) if self.connections else [STAY])

    async def play(self, script: list[Any]) -> AsyncIterator[FeedItem]:
        for step in script:
            if step == STAY:
                self.finished.set()
                await asyncio.Event().wait()
            elif isinstance(step, Exception):
                raise step
            elif isinstance(step, FeedItem):
                yield step
            else:
                self.now += step

    async def run(self) -> list[Link]:
        task = asyncio.create_task(self.follower.run())
        await asyncio.wait_for(self.finished.wait(), LIVENESS_SECONDS)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return self.seen


def test_pauses_grow_to_ten_seconds() -> None:
    assert [pause_before(attempt) for attempt in (1, 2, 3, 4, 5, 6, 10_000)] == [1, 2, 4, 8, 10, 10, 10]


async def test_every_failed_attempt_is_told_with_the_next(sample: Any) -> None:
    down = DaemonNotRunning("nobody")
    links = await Scripted([down], [down], [down], [down], [down], [sample.documented(), STAY]).run()
    assert [(link.state, link.attempt) for link in links] == [
        *(("lost", attempt) for attempt in (1, 2, 3, 4, 5)),
        ("live", 0),
    ]
    assert [link.retry_at for link in links[:5]] == [101, 103, 107, 115, 125]
    assert {link.since for link in links[:5]} == {100}


async def test_a_cut_after_a_good_time_is_taken_up_again_without_a_word(sample: Any) -> None:
    item = sample.documented()
    links = await Scripted([item, 30], [item, 30, AdminError("closed")], [item, STAY]).run()
    assert [link.state for link in links] == ["live", "live", "live"]


async def test_but_told_when_that_fails_too(sample: Any) -> None:
    links = await Scripted([sample.documented(), 30], [DaemonNotRunning("nobody")], [STAY]).run()
    assert [(link.state, link.error, link.attempt) for link in links] == [("live", "", 0), ("lost", "nobody", 1)]


async def test_a_daemon_that_always_cuts_at_once_is_not_stormed(sample: Any) -> None:
    item = sample.documented()
    scripted = Scripted([item], [item], [item], [item, STAY])
    links = await scripted.run()
    assert [link.state for link in links] == ["live", "lost"] * 3 + ["live"]
    assert scripted.now == 103


async def test_a_defect_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        await Scripted([ZeroDivisionError()]).follower.run()


async def test_retry_ends_the_pause(sample: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the pause is the loop's: without `retry` this would take an hour."""
    monkeypatch.setattr(follow, "pause_before", lambda _attempt: 3600)
    scripted = Scripted([DaemonNotRunning("nobody")], [sample.documented(), STAY])
    await scripted.run()
    assert [link.state for link in scripted.seen] == ["lost", "live"]


async def test_each_snapshot_is_told_after_the_model_has_it(sample: Any) -> None:
    event = FeedItem(type="event", number=101, now_ms=1)
    script = Scripted([sample.documented(), event, 5, AdminError("cut")], [sample.documented(), STAY])
    await script.run()
    assert script.begun == 2
