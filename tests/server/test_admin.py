"""The admin API: what it shows, how it refuses, and its endless event stream."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from rawclient import Client, CutOff
from starlette.requests import Request

from llmgate.adminapi import RequestView, Status, UpstreamView
from llmgate.core.caller import Caller
from llmgate.core.events import Admitted, Event, Queued, Released
from llmgate.server import admin
from llmgate.server.admin import Looking, admin_app
from llmgate.server.http_server import HttpServer
from llmgate.server.sockets import bind_listen
from llmgate.telemetry.feed import Feed
from llmgate.telemetry.ledger import Ledger
from tests.server.house import logged

UPSTREAMS = [UpstreamView(name=name, state="idle", url="http://x", max_concurrent=1) for name in ("a", "b")]
WATCH = b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n"


def view(number: int, upstream: str, state: str) -> RequestView:
    named = {"model": "m", "api": "messages", "path": "/v1/messages", "stream": True}
    return RequestView(id=f"req_{number}", upstream=upstream, state=state, order=number, **named)  # type: ignore[arg-type]


LIVE = [view(1, "a", "waiting"), view(2, "b", "waiting"), view(3, "a", "running"), view(4, "a", "draining")]
DONE = [view(5, "b", "done"), view(6, "a", "done")]


def status() -> Status:
    times: dict[str, Any] = {"started_at": "", "now_at": "", "uptime_ms": 1, "now_ms": 2}
    return Status(version="1", pid=3, state="running", listen=[], config="", socket="", upstreams=UPSTREAMS, **times)


class Desk:
    def __init__(self) -> None:
        self.ledger = Ledger(10)
        self.feed = Feed(self.ledger, status=status, upstream=lambda _: UPSTREAMS[0], history=10, watcher_limit=20_000)
        looking = Looking(status=status, requests=lambda recent: LIVE + (DONE if recent else []), now_ms=lambda: 77)
        self.app = admin_app(looking, self.feed)
        self.number = 0
        self.port = 0

    async def get(self, path: str, method: str = "GET") -> httpx.Response:
        transport = httpx.ASGITransport(self.app)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://gate") as client:
            return await client.request(method, path)

    def happen(self, event: type[Event], *about: Any) -> None:
        self.number += 1
        caller = Caller(id="req_9")
        made = event(self.number, 1.0, "a", 9, caller, *about)  # type: ignore[call-arg]
        self.feed.apply(made, self.ledger.apply(made))

    async def watch(self) -> Client:
        count = self.feed.watchers
        client = await Client.connect(self.port)
        client.send(WATCH)
        await client.head()
        await self.wait_watchers(count + 1)
        return client

    async def wait_watchers(self, count: int) -> None:
        async with asyncio.timeout(10):
            while self.feed.watchers != count:  # noqa: ASYNC110
                await asyncio.sleep(0.001)


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    """Over a socket; nothing of a watcher is left afterwards."""
    made = Desk()
    bound = bind_listen("127.0.0.1:0")
    made.port = bound.getsockname()[1]
    server = HttpServer(made.app, [bound])
    await server.start()
    with logged() as lines:
        yield made
        await Client.close_all()
        await made.wait_watchers(0)
        await server.stop()
    assert lines == []
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert made.feed._tick is None


# ---- looking


async def test_the_status(desk: Desk) -> None:
    answer = await desk.get("/v1/status")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert [one["name"] for one in answer.json()["upstreams"]] == ["a", "b"]
    assert (await desk.get("/healthz")).json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("", [1, 2, 3, 4]),
        ("?state=all", [1, 2, 3, 4, 5, 6]),
        ("?state=done", [5, 6]),
        ("?state=waiting", [1, 2]),
        ("?state=running", [3]),
        ("?state=draining", [4]),
        ("?upstream=b", [2]),
        ("?upstream=a&state=all", [1, 3, 4, 6]),
        ("?upstream=b&state=running", []),
    ],
)
async def test_requests(desk: Desk, query: str, numbers: list[int]) -> None:
    answer = (await desk.get("/v1/requests" + query)).json()
    assert [request["order"] for request in answer["requests"]] == numbers
    assert answer["now_ms"] == 77


@pytest.mark.parametrize(
    ("path", "method", "status", "code", "message"),
    [
        ("/v1/requests?state=x", "GET", 400, "BAD_REQUEST", "state is one of all, waiting, running, draining, done"),
        ("/v1/requests?upstream=x", "GET", 404, "NOT_FOUND", "there is no upstream 'x'"),
        ("/v1/nothing", "GET", 404, "NOT_FOUND", "Not Found"),
        ("/v1/status", "POST", 405, "METHOD_NOT_ALLOWED", "Method Not Allowed"),
        ("/v1/events", "POST", 405, "METHOD_NOT_ALLOWED", "this path takes GET only"),
        ("/v1/events", "HEAD", 405, None, None),
    ],
)
async def test_refusals(desk: Desk, path: str, method: str, status: int, code: str | None, message: str | None) -> None:
    answer = await desk.get(path, method)
    assert answer.status_code == status
    if code is not None:
        assert answer.json() == {"error": {"code": code, "message": message}}


def test_other_statuses_have_a_code_too() -> None:
    assert json.loads(bytes(admin._error(418, "tea").body)) == {"error": {"code": "ERROR", "message": "tea"}}


# ---- following


def read(frame: bytes) -> tuple[int, Any]:
    """The id and the item of one event."""
    first, second = frame.removesuffix(b"\n\n").split(b"\n")
    return int(first.removeprefix(b"id: ")), json.loads(second.removeprefix(b"data: "))


async def test_a_snapshot_and_then_what_happens(desk: Desk) -> None:
    desk.happen(Queued, 1, 9, None)
    client = await desk.watch()
    head = (await client.head()).headers
    assert (head["content-type"], head["cache-control"]) == ("text/event-stream", "no-cache")
    number, item = read(await client.frame())
    assert (number, item["type"], item["number"], len(item["requests"])) == (1, "snapshot", 1, 1)
    desk.happen(Admitted, True, 0.5)
    desk.happen(Released, "completed", 1.0)
    told = [read(await client.frame()) for _ in range(2)]
    assert [(number, item["event"]["kind"]) for number, item in told] == [(2, "admitted"), (3, "released")]


async def test_while_nothing_happens_it_shows_that_it_lives(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "ALIVE_SECONDS", 0.005)
    client = await desk.watch()
    await client.frame()
    assert [await client.frame() for _ in range(3)] == [b": alive\n\n"] * 3
    desk.happen(Queued, 1, 9, None)
    while (frame := await client.frame()) == b": alive\n\n":
        pass
    assert read(frame)[0] == 1


@pytest.mark.parametrize("leave", ["fin", "reset", "half_close"])
async def test_a_watcher_that_leaves_is_forgotten(desk: Desk, leave: str) -> None:
    stays, leaves = await desk.watch(), await desk.watch()
    getattr(leaves, leave)()
    await desk.wait_watchers(1)
    desk.happen(Queued, 1, 9, None)
    await stays.frame()
    assert read(await stays.frame())[0] == 1


async def test_one_that_does_not_keep_up_is_cut(desk: Desk) -> None:
    """Its connection is closed at once, with what it has not read; the others go on."""
    other = await desk.watch()
    client = await Client.connect(desk.port, receive_buffer=4096)
    client.send(WATCH)
    await desk.wait_watchers(2)
    await other.frame()
    while desk.feed.watchers == 2:
        desk.happen(Queued, 1, 9, None)
        await asyncio.sleep(0)
        while read(await other.frame())[1]["type"] != "event":
            pass  # once a second there is one of another kind
    with pytest.raises(CutOff):
        await client.body()


async def test_closing_the_feed_ends_all(desk: Desk) -> None:
    clients = [await desk.watch() for _ in range(2)]
    desk.feed.close()
    await desk.wait_watchers(0)
    for client in clients:
        with pytest.raises(CutOff):
            await client.body()


async def test_cancelled_from_outside_it_leaves_as_well(desk: Desk) -> None:
    """As uvicorn does it when it shuts down."""
    never = asyncio.get_running_loop().create_future()
    sent: list[Any] = []

    async def receive() -> Any:
        return await never

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "extensions": {}}
    task = asyncio.ensure_future(admin.EventStream(desk.feed)(scope, receive, send))
    await desk.wait_watchers(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await desk.wait_watchers(0)
    assert sent[0]["status"] == 200


def test_a_fault_of_ours_is_no_answer() -> None:
    with pytest.raises(ZeroDivisionError):
        admin._answer_error(Request({"type": "http"}), ZeroDivisionError())
