"""A scripted daemon on a Unix socket, and the state of the screens in the documentation."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from pytest_textual_snapshot import SVGImageExtension

from llmgate.adminapi import (
    EventView,
    FeedItem,
    LimitsAnswer,
    LimitsView,
    Reloaded,
    RequestDetail,
    Requests,
    RequestView,
    Status,
    UpstreamAnswer,
    UpstreamView,
    encode,
)
from llmgate.errors import AdminError
from llmgate.tui.app import TopApp
from llmgate.tui.furniture import Look
from llmgate.tui.listing import settle
from llmgate.tui.model import Model, View
from llmgate.tui.press import press
from llmgate.tui.state import State

SVGImageExtension.file_extension = "svg"
"""The plugin's 1.0.0 sets the name that syrupy had before its version 5, and its pictures would end in .raw."""

NOW = 1_000_000_000
"""The daemon's clock in the samples, in ms; it is then 14:02:31 UTC."""


def upstream(name: str, **fields: Any) -> UpstreamView:
    defaults = {"name": name, "state": "idle", "url": "http://127.0.0.1:8081", "max_concurrent": 1, "max_queued": 16}
    return UpstreamView(**defaults | fields)


def request(request_id: str, name: str, **fields: Any) -> RequestView:
    defaults = {
        "id": request_id,
        "upstream": name,
        "state": "waiting",
        "order": 1,
        "model": "qwen2.5:3b-instruct",
        "api": "messages",
        "path": "/llm/v1/messages",
        "stream": True,
    }
    return RequestView(**defaults | fields)


def event(number: int, kind: str, name: str, text: str = "", **fields: Any) -> EventView:
    defaults = {"at": "2026-11-30T14:02:28+00:00", "now_ms": NOW - 3000, "request_id": ""}
    return EventView(number=number, kind=kind, upstream=name, text=text, **defaults | fields)


def status(upstreams: list[UpstreamView], **fields: Any) -> Status:
    defaults = {
        "version": "0.1.0",
        "pid": 7,
        "started_at": "2026-11-27T09:50:00+00:00",
        "uptime_ms": 274_320_000,
        "now_at": "2026-11-30T14:02:31+00:00",
        "now_ms": NOW,
        "state": "running",
        "listen": ["127.0.0.1:8080"],
        "path_prefix": ["/llm", ""],
        "config": "/etc/llmgate/llmgate.toml",
        "socket": "/run/llmgate/admin.sock",
        "upstreams": upstreams,
    }
    return Status(**defaults | fields)


def snapshot(
    upstreams: list[UpstreamView],
    requests: list[RequestView] | None = None,
    events: list[EventView] | None = None,
    number: int = 100,
    **fields: Any,
) -> FeedItem:
    told = status(upstreams, **fields)
    return FeedItem(
        type="snapshot", number=number, now_ms=told.now_ms, status=told, requests=requests or [], events=events or []
    )


def documented() -> FeedItem:
    """The state that the pictures of the documentation show."""
    upstreams = [
        upstream("ha-llm", state="full", running=1, waiting=3, queue_timeout_ms=300_000, oldest_arrived_ms=NOW - 41_000,
                 p50_wait_ms=5700, p95_wait_ms=38_000, ttft_ms=420, p50_run_ms=6100, rate=0.16, served=1204,
                 queue_full=2, failed=3, starts_ms=[NOW + 12_000, NOW + 18_000], pace_us=6_000_000),
        upstream("reasoning", state="ok", running=7, max_concurrent=8, max_queued=64, p50_wait_ms=0, p95_wait_ms=2100,
                 ttft_ms=1900, p50_run_ms=31_200, rate=0.22, served=8873),
        upstream("ollama", max_queued=32, p50_wait_ms=0, p95_wait_ms=400, ttft_ms=330, p50_run_ms=2000, served=52),
        upstream("vllm-a100", state="down", max_concurrent=8, max_queued=64, waiting=1, oldest_arrived_ms=NOW - 70_000,
                 served=310, failed=1, detail="connection refused, next probe in 5 s"),
    ]  # fmt: skip
    patience = 300_000
    requests = [
        request("q-7f3a21", "ha-llm", order=1, client="dsh", session="a3f9c0d1-77c1", purpose="compaction",
                arrived_ms=NOW - 41_000, deadline_ms=NOW - 41_000 + patience),
        request("q-7f3a24", "ha-llm", order=2, client="claude-code", session="e74544d8-d380-49a1-8f97-050cbf9101b7",
                key="laptop", peer="192.168.1.23:51514", body_bytes=76_178,
                arrived_ms=NOW - 18_000, deadline_ms=NOW - 18_000 + patience),
        request("q-7f3a27", "ha-llm", order=3, client="web", purpose="session-title", stream=False,
                arrived_ms=NOW - 3_000, deadline_ms=NOW - 3_000 + patience),
        request("q-7f3a1c", "ha-llm", state="running", client="opencode", session="ses_dd4918gY",
                arrived_ms=NOW - 15_100, dispatched_ms=NOW - 9_400, first_byte_ms=NOW - 9_000, output_tokens=371),
        request("q-7f3a01", "vllm-a100", model="llama-3.3-70b", client="openai-python", arrived_ms=NOW - 70_000),
    ]  # fmt: skip
    events = [
        event(
            97,
            "refused",
            "ha-llm",
            "queue_full (depth 16)",
            word="queue_full",
            at="2026-11-30T14:01:02+00:00",
            request_id="q-7f39f0",
            outcome="queue_full",
        ),
        event(
            98,
            "endpoint_changed",
            "vllm-a100",
            "down: it takes no connection",
            word="down",
            at="2026-11-30T14:01:21+00:00",
        ),
        event(
            99,
            "admitted",
            "ha-llm",
            "dispatched after 5730ms",
            word="dispatched",
            at="2026-11-30T14:02:22+00:00",
            request_id="q-7f3a1c",
            client="opencode",
            session="ses_dd4918gY",
        ),
        event(
            100, "queued", "ha-llm", "queued (depth 3)", request_id="q-7f3a27", client="web", purpose="session-title"
        ),
    ]
    return snapshot(upstreams, requests, events)


class Sample:
    """The builders above, for the tests."""

    NOW = NOW
    upstream = staticmethod(upstream)
    request = staticmethod(request)
    event = staticmethod(event)
    status = staticmethod(status)
    snapshot = staticmethod(snapshot)
    documented = staticmethod(documented)

    @staticmethod
    def quiet(now_ms: int) -> FeedItem:
        """What the feed says once a second while nothing happens."""
        return FeedItem(type="progress", number=100, now_ms=now_ms)


class FakeDaemon:
    """Answers GET /v1/events with what the test wants, and counts who came."""

    HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.first: Callable[[], bytes] = bytes
        self.head = self.HEAD
        self.came = 0
        self.requests: list[bytes] = []
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()
        self.path.unlink(missing_ok=True)
        await asyncio.sleep(0)

    def snapshot(self, item: FeedItem) -> None:
        """What everybody who comes from now on is told first."""
        self.first = lambda: self.frame(item)

    @staticmethod
    def frame(item: FeedItem) -> bytes:
        return b"id: %d\ndata: %s\n\n" % (item.number, encode(item))

    def send(self, item: FeedItem) -> None:
        self.write(self.frame(item))

    def write(self, data: bytes) -> None:
        for writer in self._writers:
            writer.write(data)

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests.append(await reader.readuntil(b"\r\n\r\n"))
        self.came += 1
        writer.write(self.head + self.first())
        self._writers.append(writer)


@pytest.fixture
def sample() -> type[Sample]:
    return Sample


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[FakeDaemon]:
    """Not started: `await daemon.start()`."""
    fake = FakeDaemon(tmp_path / "admin.sock")
    yield fake
    await fake.stop()


class Recorder:
    """Acts on nothing, writes down what it was asked to do, and fails where it is told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.error: AdminError | None = None
        self.note = ""
        self.changed = True
        self.reloaded = Reloaded()
        self.details: dict[str, RequestDetail] = {}
        self.over: list[RequestView] = []

    def _ask(self, *what: object) -> None:
        self.asked.append(what)
        if self.error is not None:
            raise self.error

    def _mode(self, verb: str, name: str) -> UpstreamAnswer:
        self._ask(verb, name)
        return UpstreamAnswer(now_ms=NOW, upstream=upstream(name), changed=self.changed)

    async def pause(self, name: str) -> UpstreamAnswer:
        return self._mode("pause", name)

    async def resume(self, name: str) -> UpstreamAnswer:
        return self._mode("resume", name)

    async def drain(self, name: str) -> UpstreamAnswer:
        return self._mode("drain", name)

    async def set_limits(self, name: str, **limits: float | None) -> LimitsAnswer:
        self._ask("set", name, limits)
        told = LimitsView(max_concurrent=1)
        return LimitsAnswer(now_ms=NOW, upstream=name, old=told, new=told, note=self.note)

    async def reload(self) -> Reloaded:
        self._ask("reload")
        return self.reloaded

    async def cancel(self, request_id: str) -> RequestDetail:
        self._ask("cancel", request_id)
        return RequestDetail(now_ms=NOW, request=request(request_id, "ha-llm"))

    async def move(self, request_id: str) -> RequestDetail:
        self._ask("move", request_id)
        return RequestDetail(now_ms=NOW, request=request(request_id, "ha-llm"))

    async def request(self, request_id: str) -> RequestDetail:
        if request_id not in self.details:
            raise AdminError(f"There is no request {request_id}")
        return self.details[request_id]

    async def ended(self) -> Requests:
        return Requests(now_ms=NOW, requests=self.over)


class StillFeed:
    """A feed that tells one thing, fails once if it is to, and then stays silent: so does the number of attempts."""

    def __init__(self, item: FeedItem | None, error: AdminError | None) -> None:
        self._item = item
        self._error = error

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[AsyncIterator[FeedItem]]:
        yield self._items()

    async def _items(self) -> AsyncIterator[FeedItem]:
        item, self._item = self._item, None
        if item is not None:
            yield item
        error, self._error = self._error, None
        if error is not None:
            raise error
        await asyncio.Event().wait()


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def still(recorder: Recorder) -> Callable[..., TopApp]:
    """An app over one snapshot, whose clock stands still."""

    def build(item: FeedItem | None = None, *, error: AdminError | None = None, **state: Any) -> TopApp:
        return TopApp(StillFeed(item, error), recorder, look=Look(zone=UTC), state=State(**state), clock=lambda: 500.0)

    return build


@pytest.fixture
def after() -> Callable[..., State]:
    """The state after some keys: each is a character or a name of a key."""

    def fold(view: View, *keys: str, height: int = 24, **state: Any) -> State:
        known = settle(State(**state), view)
        for key in keys:
            known = settle(press(known, key, view, height).state, view)
        return known

    return fold


@pytest.fixture
def view() -> View:
    """What is known of the state in the documentation."""
    model = Model()
    model.apply(documented(), 1.0)
    return model.view(1.0)


@pytest.fixture
def viewed() -> Callable[..., View]:
    """What is known after some items of the feed."""

    def fold(*items: FeedItem, at: float = 1.0) -> View:
        model = Model()
        for item in items:
            model.apply(item, at)
        return model.view(at)

    return fold
