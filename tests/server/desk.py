"""An admin socket in the test's own loop, before two upstreams, `a` and `b`, whose requests the test enters by hand."""

import os
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import httpx
import msgspec
from rawclient import Client

from llmgate import adminapi
from llmgate.adminapi import Reloaded, RequestView, Status, UpstreamView
from llmgate.adminclient.wire import no_tls
from llmgate.admission.local import LocalAdmission
from llmgate.admission.place import LocalPlace
from llmgate.core.caller import Caller
from llmgate.core.events import Event, Limits
from llmgate.core.gate import Gate
from llmgate.errors import GateError
from llmgate.server.admin import AdminApp
from llmgate.server.admin_operator import Operator, Sight
from llmgate.server.admin_protocol import AdminProtocol
from llmgate.server.http_server import HttpServer
from llmgate.server.services import Running
from llmgate.server.sockets import UnixSocket
from llmgate.telemetry.feed import Feed
from llmgate.telemetry.ledger import Ledger, view_request, view_upstream

ME = os.getuid()


class Runner:
    """Who holds a request's client and its slot; it ends when it is stopped, at once unless `hangs`."""

    def __init__(self, desk: "AdminDesk", request_id: str, place: LocalPlace) -> None:
        self.id = request_id
        self.hangs = False
        self.errors: list[GateError] = []
        self._place = place
        self._desk = desk

    def stop(self, error: GateError) -> None:
        self.errors.append(error)
        if not self.hangs:
            self._desk.running.discard(self)
            self._place.leave(error.outcome)

    def give_up(self) -> None:
        raise NotImplementedError


class Slots:
    """What servers tell of their slots: 7, or what a test puts there."""

    def __init__(self) -> None:
        self.count = 7
        self.followed: set[str] = set()

    def follows(self, upstream: str) -> bool:
        return upstream in self.followed

    async def follow_slots(self, upstream: str) -> int:
        self.followed.add(upstream)
        return self.count

    def pin(self, upstream: str) -> None:
        self.followed.discard(upstream)


class AdminDesk:
    """Open it with `async with`."""

    def __init__(self, folder: Path, *, read_only: Iterable[int] = (), watcher_limit: int = 1 << 20) -> None:
        self.path = folder / "run" / "admin.sock"
        self.events: list[Event] = []
        self.ledger = Ledger(10)
        self.feed = Feed(
            self.ledger, status=self.status, upstream=self.upstream, history=50, watcher_limit=watcher_limit
        )
        gates = [Gate("a", Limits(1)), Gate("b", Limits(2), {"b": 1, "b#2": 1})]
        self.admission = LocalAdmission(gates, self.on_event)
        self.running = Running()
        self.slots = Slots()
        self.renamed: dict[str, str] = {}
        self.state = "running"
        self.reloads = 0
        self.written: list[tuple[str, set[str]]] = []
        self.leaving: frozenset[str] = frozenset()
        sight = Sight(
            status=self.status,
            requests=self.requests,
            now_ms=lambda: 77,
            config=lambda: adminapi.Config(file="/etc/x", values=[]),
            metrics=lambda: ("text/plain; version=0.0.4", b"# metrics\n"),
            leaving=lambda: self.leaving,
        )
        self.operator = Operator(
            sight,
            admission=self.admission,
            running=self.running,
            ledger=self.ledger,
            feed=self.feed,
            slots=self.slots,
            reload=self.reload,
            note_written=self.note_written,
        )
        self.app = AdminApp(self.operator, self.feed, read_only)
        self._socket = UnixSocket(self.path, mode=0o600, private=True)

    async def __aenter__(self) -> Self:
        self._socket.open()
        self._server = HttpServer(self.app, [self._socket.bound], protocol=AdminProtocol)
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await Client.close_all()
        self.feed.close()
        await self._server.stop()
        self._socket.close()
        self.admission.stop()

    # ---- what the daemon would do

    async def note_written(self, upstream: str, keys: Collection[str]) -> None:
        self.written.append((upstream, set(keys)))

    def on_event(self, event: Event) -> None:
        self.events.append(event)
        self.feed.apply(event, self.ledger.apply(event))

    async def reload(self, by: str) -> Reloaded:
        assert by.startswith(f"uid {ME}")
        self.reloads += 1
        return Reloaded(warnings=["odd"])

    def status(self) -> Status:
        return Status(
            version="1",
            pid=3,
            started_at="",
            uptime_ms=1,
            now_at="",
            now_ms=2,
            state=self.state,
            listen=[],
            config="",
            socket="",
            upstreams=[self.upstream(name) for name in self.admission.upstreams()],
            renamed=self.renamed,
        )

    def upstream(self, name: str) -> UpstreamView:
        gate = self.admission.gate(name)
        return view_upstream(
            name, "http://x", gate.statistics(), gate.endpoints(), self.ledger.figures(name), None, 0.0
        )

    def requests(self, recent: bool) -> list[RequestView]:
        live = sorted(self.ledger.live(), key=lambda record: (record.state != "waiting", record.order))
        records = [*live, *self.ledger.recent()] if recent else live
        return [view_request(record, 0.0, datetime.now(UTC)) for record in records]

    # ---- what a test does

    async def enter(self, request_id: str, upstream: str = "a", **caller: Any) -> Runner:
        place = self.admission.enter(upstream, Caller(id=request_id, **caller))
        await place.__aenter__()
        place.hand_over()
        runner = Runner(self, request_id, place)
        self.running.add(runner)
        return runner

    async def ask(self, method: str, target: str, body: bytes | None = None, **headers: str) -> httpx.Response:
        transport = httpx.AsyncHTTPTransport(uds=str(self.path), verify=no_tls())
        async with httpx.AsyncClient(transport=transport, base_url="http://gate") as client:
            return await client.request(method, target, content=body, headers=headers)

    async def get(self, target: str) -> Any:
        answer = await self.ask("GET", target)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def act(self, method: str, target: str, body: Any = None) -> Any:
        answer = await self.ask(method, target, None if body is None else msgspec.json.encode(body))
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def refusal(self, method: str, target: str, body: bytes | None = None) -> tuple[int, str, str]:
        """Status, code and message."""
        answer = await self.ask(method, target, body)
        told = answer.json()
        assert (list(told), told["schema"]) == (["schema", "error"], 1)
        error = told["error"]
        return answer.status_code, error["code"], error["message"]

    def told_by(self) -> list[tuple[str, str]]:
        """Kind and who, of every event that says who."""
        return [(type(event).__name__, by) for event in self.events if (by := getattr(event, "by", ""))]
