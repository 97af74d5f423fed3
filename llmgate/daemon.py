"""The composition root: builds all from the settings, runs two servers in one loop, and brings them down in order.

Down: the listeners close and those who wait are told; those who run get `drain_timeout`; what is left is cut, with an
error in its own dialect. The admin socket answers until the end. A second signal cuts at once.
"""

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import socket
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import uvloop
from starlette.types import ASGIApp

from llmgate import __version__
from llmgate.adminapi import RequestView, Status, UpstreamView
from llmgate.admission.local import LocalAdmission
from llmgate.config.load import Loaded
from llmgate.config.paths import default_admin_socket
from llmgate.core.events import Event
from llmgate.discovery import Discovery
from llmgate.errors import LlmgateError, Refused
from llmgate.fleet import make_gate, make_upstreams, owners_of
from llmgate.lookout import Lookout
from llmgate.server.admin import Looking, admin_app
from llmgate.server.frontdoor import FrontDoor
from llmgate.server.http_server import HttpServer
from llmgate.server.services import Services
from llmgate.server.sockets import SocketInUse, SocketNotAllowed, UnixSocket, bind_listen
from llmgate.telemetry import log
from llmgate.telemetry.feed import Feed
from llmgate.telemetry.journal import Journal
from llmgate.telemetry.ledger import Ledger, rfc3339, view_request, view_upstream

logger = logging.getLogger("llmgate")

OK, IN_USE, NOT_ALLOWED = 0, os.EX_UNAVAILABLE, os.EX_NOPERM

GARBAGE_KEPT = 10_000
"""Objects that may have become garbage in circles before it is looked for: some megabytes."""

CUT_SECONDS = 1.0
"""How long clients that are cut at the end get to take their error."""


def serve(loaded: Loaded) -> int:
    """Runs the daemon until it is told to stop; the exit status (sysexits: 69 address in use, 77 not allowed)."""
    log.configure(loaded.settings.log.level, loaded.settings.log.format)
    for warning in loaded.warnings:
        logger.warning("%s", warning.removeprefix("llmgate: "))
    raise_file_limit()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run(loaded))


async def _run(loaded: Loaded) -> int:
    daemon = Daemon(loaded)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, daemon.stop)
    try:
        with ExitStack() as stack:
            await daemon.run(stack)
        _ignore_signals(loop)
    except SocketInUse as error:
        return _refuse_to_start(error, IN_USE)
    except SocketNotAllowed as error:
        return _refuse_to_start(error, NOT_ALLOWED)
    return OK


def _ignore_signals(loop: asyncio.AbstractEventLoop) -> None:
    """All is done: a signal that comes while Python takes itself down must not change the exit status."""
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)


def _refuse_to_start(error: LlmgateError, status: int) -> int:
    logger.error("%s", str(error).removeprefix("llmgate: "))
    return status


class Daemon:
    """One process: the gates, the upstreams, the two servers. Make it inside the running loop."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        settings = loaded.settings
        self._started = time.monotonic()
        self._started_at = datetime.now(UTC)
        self._ledger = Ledger(settings.admin.history)
        self._journal = Journal(logger)
        self._feed = Feed(
            self._ledger, status=self.status, upstream=self._view_upstream, history=settings.admin.history
        )
        gates = [make_gate(name, upstream) for name, upstream in settings.upstreams.items()]
        self._admission = LocalAdmission(gates, self._on_event)
        upstreams = make_upstreams(settings, {name: _key(loaded, name) for name in settings.upstreams})
        self._discovery = Discovery(settings, upstreams, self._admission, self._on_routes)
        self._lookout = Lookout(upstreams, owners_of(settings), self._admission, self._discovery.ask_again)
        self._services = Services(
            settings,
            self._admission,
            upstreams,
            self._ledger,
            self._discovery.routes(),
            self._lookout.slot_watches,
        )
        self._front = FrontDoor(self._services, settings.server.path_prefix)
        self._socket = settings.admin.socket or default_admin_socket(os.environ, os.getuid())
        self._listen: list[str] = []
        self._stopping = asyncio.Event()
        self._cutting = asyncio.Event()

    # ---- life

    async def run(self, stack: ExitStack) -> None:
        """Until `stop`. Sockets live in `stack`. Raises SocketInUse, SocketNotAllowed before anything has started."""
        admin_socket = stack.enter_context(
            UnixSocket(self._socket, mode=self._loaded.settings.admin.mode, private=True)
        )
        admin = HttpServer(self._admin_app(), [admin_socket.bound])
        sockets = [self._bind(address, stack) for address in self._loaded.settings.server.listen]
        front = HttpServer(self._front, sockets, self._loaded.settings.server.client_stall_timeout)
        async with asyncio.TaskGroup() as tasks:
            watching = [tasks.create_task(self._discovery.run()), tasks.create_task(self._lookout.run())]
            await admin.start()
            await front.start()
            spare_the_collector()
            logger.info("listening on %s, admin socket %s", ", ".join(self._listen), self._socket)
            await self._stopping.wait()
            await self._drain(front)
            for task in watching:
                task.cancel()
        await front.stop()
        self._feed.close()
        await admin.stop()
        for upstream in self._services.upstreams.values():
            await upstream.aclose()
        self._admission.stop()
        logger.info("stopped")

    def stop(self) -> None:
        """Drains, then stops. Asked again, it cuts at once."""
        if self._stopping.is_set():
            self._cutting.set()
        self._stopping.set()

    async def _drain(self, front: HttpServer) -> None:
        running = self._services.running
        self._services.draining = True
        front.close_listeners()
        self._feed.announce()
        self._admission.close()
        seconds = self._services.settings.server.drain_timeout
        count = self._count_running()
        if count:
            logger.info("stopping: %d running get %gs to end; a second signal cuts them at once", count, seconds)
        else:
            logger.info("stopping: nothing runs")
        await self._wait_drained(seconds)
        for exchange in running:
            exchange.stop(Refused("llmgate: llmgate is stopping, this request was cut (REFUSED)"))
        try:
            async with asyncio.timeout(CUT_SECONDS):
                await running.wait_empty()
        except TimeoutError:
            logger.warning("%d clients did not take their error in time", len(running))
            for exchange in running:
                exchange.give_up()

    async def _wait_drained(self, seconds: float) -> None:
        """Until nobody runs, the time is over, or a second signal came."""
        try:
            async with asyncio.timeout(seconds), asyncio.TaskGroup() as tasks:
                ends = [
                    tasks.create_task(self._services.running.wait_empty()),
                    tasks.create_task(_wait(self._cutting)),
                ]
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                for task in ends:
                    task.cancel()
        except TimeoutError:
            if count := self._count_running():
                logger.warning("drain_timeout is over: %d requests are cut", count)

    def _count_running(self) -> int:
        """Those who have a slot: whoever was dismissed is among the exchanges until it is told."""
        return sum(self._admission.gate(name).statistics().running for name in self._admission.upstreams())

    def _bind(self, address: str, stack: ExitStack) -> socket.socket:
        if address.startswith("unix:"):
            unix = stack.enter_context(UnixSocket(Path(address.removeprefix("unix:")), mode=0o660, private=False))
            self._listen.append(address)
            return unix.bound
        bound = bind_listen(address)
        stack.callback(bound.close)
        host, port = bound.getsockname()[:2]
        self._listen.append(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
        return bound

    # ---- what happens

    def _on_event(self, event: Event) -> None:
        self._lookout.apply(event)
        record = self._ledger.apply(event)
        self._journal.apply(event)
        self._feed.apply(event, record)

    def _on_routes(self) -> None:
        self._services.routes = self._discovery.routes()

    # ---- what is seen

    def _admin_app(self) -> ASGIApp:
        looking = Looking(status=self.status, requests=self._view_requests, now_ms=_now_ms)
        return admin_app(looking, self._feed)

    def status(self) -> Status:
        """The whole state."""
        now = time.monotonic()
        return Status(
            version=__version__,
            pid=os.getpid(),
            started_at=rfc3339(self._started_at),
            uptime_ms=round((now - self._started) * 1000),
            now_at=rfc3339(datetime.now(UTC)),
            now_ms=round(now * 1000),
            state="stopping" if self._services.draining else "running",
            listen=self._listen,
            path_prefix=list(self._loaded.settings.server.path_prefix),
            config=str(self._loaded.path or ""),
            socket=str(self._socket),
            upstreams=[self._view_upstream(name) for name in self._loaded.settings.upstreams],
        )

    def _view_upstream(self, name: str) -> UpstreamView:
        gate = self._admission.gate(name)
        oldest = next(gate.waiting(), None)
        view = view_upstream(
            name,
            self._services.settings.upstreams[name].display_url,
            gate.statistics(),
            gate.endpoints(),
            self._ledger.figures(name),
            oldest.entered_at if oldest is not None else None,
            time.monotonic(),
        )
        detail = self._lookout.detail(name)
        return msgspec.structs.replace(view, detail=detail) if detail else view

    def _view_requests(self, recent: bool) -> list[RequestView]:
        now, wall = time.monotonic(), datetime.now(UTC)
        live = sorted(
            self._ledger.live(), key=lambda record: (record.state != "waiting", record.upstream, record.order)
        )
        records = [*live, *self._ledger.recent()] if recent else live
        return [view_request(record, now, wall) for record in records]


def raise_file_limit() -> None:
    """A connection is a file: as many as the system allows without asking."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with contextlib.suppress(ValueError, OSError):  # macOS names a hard limit that it does not allow
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def spare_the_collector() -> None:
    """What was built at the start lives to the end: the collector need not walk through it for every few requests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_KEPT)


def _key(loaded: Loaded, name: str) -> str:
    key = loaded.api_keys.get(name)
    return key.get_secret_value() if key is not None else ""


def _now_ms() -> int:
    return round(time.monotonic() * 1000)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()
