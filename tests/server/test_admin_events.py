"""GET /v1/events: a snapshot, then what happens; coming back; and who does not keep up."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from rawclient import Client, CutOff

from llmgate.server.admin_events import EventStream
from llmgate.telemetry import feed
from tests.server.desk import ME, AdminDesk
from tests.server.house import logged


class Viewer:
    """One connection to the stream."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def item(self) -> tuple[str, Any]:
        """The id and the item of the next event."""
        while (frame := await self.client.frame()).startswith(b":"):
            pass
        first, second = frame.removesuffix(b"\n\n").split(b"\n")
        return first.removeprefix(b"id: ").decode(), json.loads(second.removeprefix(b"data: "))

    async def event(self) -> Any:
        while (found := await self.item())[1]["type"] != "event":
            pass
        return found[1]["event"]


async def watch(desk: AdminDesk, after: str = "", *, query: str = "", receive_buffer: int | None = None) -> Viewer:
    count = desk.feed.watchers
    client = await Client.connect(str(desk.path), receive_buffer=receive_buffer)
    header = f"last-event-id: {after}\r\n" if after else ""
    client.send(f"GET /v1/events{query} HTTP/1.1\r\nhost: x\r\n{header}\r\n".encode())
    await wait_watchers(desk, count + 1)
    return Viewer(client)


async def wait_watchers(desk: AdminDesk, count: int) -> None:
    async with asyncio.timeout(10):
        while desk.feed.watchers != count:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[AdminDesk]:
    """Nothing of a watcher is left afterwards."""
    with logged() as lines:
        async with AdminDesk(tmp_path, watcher_limit=20_000) as made:
            yield made
            await Client.close_all()
            await wait_watchers(made, 0)
    assert lines == []
    assert made.feed._tick is None


async def test_a_snapshot_and_then_what_happens(desk: AdminDesk) -> None:
    runs = await desk.enter("r")
    viewer = await watch(desk)
    head = (await viewer.client.head()).headers
    assert (head["content-type"], head["cache-control"]) == ("text/event-stream", "no-cache")
    name, item = await viewer.item()
    assert (name, item["type"], item["number"], len(item["requests"])) == (desk.feed.id_of(1), "snapshot", 1, 1)
    await desk.enter("w")
    runs._place.leave("completed")
    assert [(await viewer.event())["kind"] for _ in range(3)] == ["queued", "released", "admitted"]


@pytest.mark.parametrize(("query", "count"), [("", 3), ("?events=1", 1), ("?events=0", 0), ("?events=9999", 3)])
async def test_the_snapshot_has_as_many_events_as_are_asked_for(desk: AdminDesk, query: str, count: int) -> None:
    for name in ("r", "w", "v"):
        await desk.enter(name)
    _, item = await (await watch(desk, query=query)).item()
    assert [event["number"] for event in item["events"]] == [1, 2, 3][3 - count :]


async def test_who_did_it_is_told(desk: AdminDesk) -> None:
    viewer = await watch(desk)
    await desk.act("POST", "/v1/upstreams/a/pause")
    event = await viewer.event()
    assert (event["kind"], event["by"].partition(" (")[0]) == ("mode_changed", f"uid {ME}")
    assert event["text"].startswith(f"paused by uid {ME}")


async def test_who_comes_back_gets_what_was_missed(desk: AdminDesk) -> None:
    first = await watch(desk)
    name, _ = await first.item()
    await desk.enter("r")
    await desk.enter("w")
    again = await watch(desk, name)
    items = [(await again.item())[1] for _ in range(3)]
    assert [(item["type"], item["number"]) for item in items] == [("event", 1), ("event", 2), ("progress", 2)]
    assert [item["event"]["kind"] for item in items[:2]] == ["admitted", "queued"]
    assert [view["id"] for view in items[2]["requests"]] == ["r", "w"]
    await desk.enter("x")
    assert (await again.event())["number"] == 3, "and goes on without a gap"


@pytest.mark.parametrize("after", ["7", "x-1", "1", "00000000-1", "{run}-2", "{run}-x", "{run}-", "{run}-" + "9" * 30])
async def test_one_that_says_nothing_known_gets_a_snapshot(desk: AdminDesk, after: str) -> None:
    await desk.enter("r")
    viewer = await watch(desk, after.replace("{run}", desk.feed.id_of(0).partition("-")[0]))
    assert (await viewer.item())[1]["type"] == "snapshot"


async def test_while_nothing_happens_it_shows_that_it_lives(desk: AdminDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "_PROGRESS_SECONDS", 0.005)
    viewer = await watch(desk)
    await viewer.item()
    told = [(await viewer.item())[1] for _ in range(4)][1:]
    assert [(item["type"], item["number"]) for item in told] == [("progress", 0)] * 3
    await desk.enter("r")
    assert (await viewer.event())["number"] == 1


@pytest.mark.parametrize("may_act", [True, False])
async def test_the_snapshot_says_whether_its_reader_may_act(tmp_path: Path, may_act: bool) -> None:
    async with AdminDesk(tmp_path, read_only=[] if may_act else [ME]) as desk:
        viewer = await watch(desk)
        assert (await viewer.item())[1]["status"]["may_act"] is may_act
        desk.feed.announce()
        assert (await viewer.item())[1]["status"]["may_act"] is may_act
        viewer.client.fin()
        await wait_watchers(desk, 0)


@pytest.mark.parametrize("leave", ["fin", "half_close"])
async def test_a_watcher_that_leaves_is_forgotten(desk: AdminDesk, leave: str) -> None:
    stays, leaves = await watch(desk), await watch(desk)
    getattr(leaves.client, leave)()
    await wait_watchers(desk, 1)
    await desk.enter("r")
    assert (await stays.event())["number"] == 1


async def test_one_that_does_not_keep_up_is_cut(desk: AdminDesk) -> None:
    """Its connection is closed at once, with what it has not read; the others go on."""
    other, slow = await watch(desk), await watch(desk, receive_buffer=4096)
    number = 0
    while desk.feed.watchers == 2:
        (await desk.enter(str(number)))._place.leave("completed")
        number += 1
        for _ in range(2):
            await other.event()
    with pytest.raises(CutOff):
        await slow.client.body()


async def test_closing_the_feed_ends_all(desk: AdminDesk) -> None:
    viewers = [await watch(desk) for _ in range(2)]
    desk.feed.close()
    await wait_watchers(desk, 0)
    for viewer in viewers:
        with pytest.raises(CutOff):
            await viewer.client.body()


async def test_cancelled_from_outside_it_leaves_as_well(desk: AdminDesk) -> None:
    """As uvicorn does it when it shuts down."""
    never = asyncio.get_running_loop().create_future()
    sent: list[Any] = []

    async def receive() -> Any:
        return await never

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "extensions": {}, "headers": []}
    task = asyncio.ensure_future(EventStream(desk.feed, may_act=True)(scope, receive, send))
    await wait_watchers(desk, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await wait_watchers(desk, 0)
    assert sent[0]["status"] == 200
