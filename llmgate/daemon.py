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
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import UTC, datetime

import uvloop
from starlette.types import ASGIApp

from llmgate import __version__
from llmgate.adminapi import CertificateView, Reloaded, Status
from llmgate.config.certificate import Certificate
from llmgate.config.load import Loaded
from llmgate.config.paths import default_admin_socket
from llmgate.config.settings import Settings
from llmgate.core.capacity import admin_connections, client_connections, metrics_connections
from llmgate.core.closing import CUT
from llmgate.core.events import CallerRefused, Event, SettingsReloaded
from llmgate.core.gate import Gate
from llmgate.errors import LlmgateError, Refused, SettingsError
from llmgate.reloader import STOPPING, Reloader
from llmgate.roster import Roster
from llmgate.selfcheck import SelfCheck
from llmgate.server.admin import AdminApp
from llmgate.server.admin_config import view_config
from llmgate.server.admin_operator import Operator, Sight
from llmgate.server.admin_protocol import AdminProtocol
from llmgate.server.door import Door, metrics_rules
from llmgate.server.frontdoor import FrontDoor
from llmgate.server.http_server import HttpServer, WireLimits
from llmgate.server.metrics_app import MetricsApp
from llmgate.server.passed import NOTHING, Given, take
from llmgate.server.services import Services
from llmgate.server.sockets import SocketInUse, SocketNotAllowed, bind_listen, open_admin, open_entrance
from llmgate.telemetry import log
from llmgate.telemetry.emptied import Emptied
from llmgate.telemetry.feed import Feed
from llmgate.telemetry.journal import Journal
from llmgate.telemetry.ledger import Ledger, rfc3339
from llmgate.telemetry.metrics import Metrics
from llmgate.telemetry.notify import Notifier
from llmgate.telemetry.state import state_lines
from llmgate.views import Views

logger = logging.getLogger("llmgate")

OK, IN_USE, NOT_ALLOWED, UNUSABLE = 0, os.EX_UNAVAILABLE, os.EX_NOPERM, os.EX_CONFIG

GARBAGE_KEPT = 10_000
"""Objects that may have become garbage in circles before it is looked for: some megabytes."""

ADMIN_CONNECTIONS = 256
"""Connections to the admin socket at once: a few programs look in, and a flood must not take the clients' files."""

FEW_CONNECTIONS = 1000
"""Fewer are told of, also where nobody asked for more."""

CUT_SECONDS = 1.0
"""How long clients that are cut at the end get to take their error."""


def serve(
    loaded: Loaded,
    read: Callable[[], Loaded] | None = None,
    refuse: Callable[[LlmgateError, int], None] | None = None,
) -> int:
    """Runs the daemon until it is told to stop; the exit status (sysexits: 69 address in use, 77 not allowed, 78 a
    socket that was passed to it cannot be used).

    `read` gives the settings as they are by now, for a reload, or raises SettingsError; None: they do not change.
    `refuse` tells why it does not start, and the exit status; None: the log does.
    """
    refuse = refuse or _log_refusal
    given = _take_passed(loaded.settings)  # first: the log may open a file of its own, whose number would be theirs
    log.configure(loaded.settings.log.level, loaded.settings.log.format)
    for warning in loaded.warnings:
        logger.warning("%s", warning.removeprefix("llmgate: "))
    if isinstance(given, SettingsError):
        refuse(given, UNUSABLE)
        return UNUSABLE
    raise_file_limit()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(loaded, read, given))
    except (SocketInUse, SocketNotAllowed) as error:
        status = IN_USE if isinstance(error, SocketInUse) else NOT_ALLOWED
        refuse(error, status)
        return status
    return OK


def _take_passed(settings: Settings) -> Given | SettingsError:
    try:
        return take(os.environ, os.getpid(), settings)
    except SettingsError as error:
        return error


async def _run(loaded: Loaded, read: Callable[[], Loaded] | None, given: Given) -> None:
    daemon = Daemon(loaded, read, given)
    loop = asyncio.get_running_loop()
    for number, act in daemon.signals.items():
        loop.add_signal_handler(number, act)
    with ExitStack() as stack:
        await daemon.run(stack)
    _ignore_signals(loop, daemon.signals)


def _ignore_signals(loop: asyncio.AbstractEventLoop, numbers: Iterable[int]) -> None:
    """All is done: a signal that comes while Python takes itself down must not change the exit status."""
    for number in numbers:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)


def _log_refusal(error: LlmgateError, _: int) -> None:
    for line in str(error).split("\n"):
        logger.error("%s", line.removeprefix("llmgate: "))


class Daemon:
    """One process: the gates, the upstreams, the two servers. Make it inside the running loop."""

    def __init__(self, loaded: Loaded, read: Callable[[], Loaded] | None = None, given: Given = NOTHING) -> None:
        """`read`: see `serve`; `given`: the sockets that were passed to this process."""
        self._loaded = loaded
        self._given = given
        settings = loaded.settings
        self._started = time.monotonic()
        self._started_at = datetime.now(UTC)
        self._ledger = Ledger(settings.admin.history)
        self._journal = Journal(logger)
        self._emptied = Emptied()
        self._roster = Roster(loaded, self._on_event, self._on_change)
        self._views = Views(self._roster, self._ledger)
        self._feed = Feed(
            self._ledger, status=self.status, upstream=self._views.find_upstream, history=settings.admin.history
        )
        self._admission = self._roster.admission
        self._services = Services(
            settings,
            self._admission,
            self._roster.servers,
            self._ledger,
            self._roster.routes,
            self._roster.lookout.slot_watches,
            loaded.keys,
        )
        self._services.names = loaded.certificate.names if loaded.certificate is not None else ()
        self._reloader = Reloader(loaded, read or (lambda: loaded), self._roster, self._on_applied, given.find_problems)
        self._services.turned_away.on_told = self._on_turned_away
        self._metrics = Metrics(
            self._gates,
            self._services.frames,
            clock=time.monotonic,
            model_label=settings.metrics.model_label,
            refused=self._services.turned_away.counts,
        )
        self._notifier = Notifier(os.environ)
        scraped = self._metrics.render if settings.metrics.listen == "main" else None
        self._front = FrontDoor(self._services, settings.server.path_prefix, scraped)
        self._socket = given.admin_path or settings.admin.socket or default_admin_socket(os.environ, os.getuid())
        self._listen: list[str] = []
        self._stopping = asyncio.Event()
        self._cutting = asyncio.Event()
        self._reload_wanted = asyncio.Event()
        self._serving: HttpServer | None = None

    # ---- life

    @property
    def signals(self) -> dict[int, Callable[[], None]]:
        """What each signal does."""
        return {
            signal.SIGTERM: self.stop,
            signal.SIGINT: self.stop,
            signal.SIGHUP: self._reload_wanted.set,
            signal.SIGUSR1: self.log_state,
        }

    async def run(self, stack: ExitStack) -> None:
        """Until `stop`. Sockets live in `stack`. Raises SocketInUse, SocketNotAllowed before anything has started."""
        own = self._loaded.settings.admin
        admin_socket = open_admin(self._given.admin or self._socket, stack, mode=own.mode, group=own.group)
        files = open_files()
        limits = WireLimits(
            max_connections=min(ADMIN_CONNECTIONS, admin_connections(files)),
            connections_name="the limit of connections to the admin socket",
        )
        admin = HttpServer(self._admin_app(), [admin_socket], limits=limits, protocol=AdminProtocol)
        self._serving = front = self._front_server(self._open_entrances(stack), files)
        looking = [admin, *self._metrics_server(stack, files)]
        async with asyncio.TaskGroup() as tasks:
            watching = [
                tasks.create_task(task)
                for task in (self._roster.run(), SelfCheck(self._roster).run(), self._reload_on_demand(), self._live())
            ]
            for server in (*looking, front):
                await server.start()
            spare_the_collector()
            logger.info("%s, admin socket %s", self._listening, self._socket)
            self._notifier.ready(self._listening)
            await self._stopping.wait()
            await self._drain(front)
            for task in watching:
                task.cancel()
        await front.stop()
        self._feed.close()
        for server in looking:
            await server.stop()
        await self._roster.aclose()
        logger.info("stopped")

    @property
    def _has_metrics_address(self) -> bool:
        return self._loaded.settings.metrics.listen not in ("", "main")

    def _metrics_server(self, stack: ExitStack, files: int | None) -> list[HttpServer]:
        """None or one."""
        if not self._has_metrics_address:
            return []
        listen = self._loaded.settings.metrics.listen
        bound = bind_listen(listen)
        stack.callback(bound.close)
        limits = WireLimits(
            max_connections=metrics_connections(files), connections_name="the limit of connections to metrics.listen"
        )
        app = MetricsApp(self._metrics.render, Door(self._services, metrics_rules))
        return [HttpServer(app, [bound], limits=limits)]

    def _front_server(self, sockets: list[socket.socket], files: int | None) -> HttpServer:
        server = self._loaded.settings.server
        limits = WireLimits(
            header_timeout=server.header_timeout,
            max_connections=client_connections(server.max_connections, files, metrics=self._has_metrics_address),
            max_bodies=max(server.max_held_bodies, server.max_body),
        )
        is_less = limits.max_connections < server.max_connections
        if is_less and ("max_connections" in server.model_fields_set or limits.max_connections < FEW_CONNECTIONS):
            logger.info(
                "at most %d connections of clients: the limit on open files (%d) allows no more",
                limits.max_connections,
                files,
            )
        front = HttpServer(self._front, sockets, server.client_stall_timeout, limits)
        front.set_tls(self._loaded.tls)
        return front

    async def _reload_on_demand(self) -> None:
        """For SIGHUP."""
        while True:
            await self._reload_wanted.wait()
            self._reload_wanted.clear()
            await self.reload()

    async def _live(self) -> None:
        """Tells the service manager now and then that the loop turns."""
        seconds = self._notifier.watchdog_seconds
        while seconds is not None:
            self._notifier.alive()
            await asyncio.sleep(seconds)

    def stop(self) -> None:
        """Drains, then stops. Asked again, it cuts at once."""
        if self._stopping.is_set():
            self._cutting.set()
        self._stopping.set()

    async def _drain(self, front: HttpServer) -> None:
        running = self._services.running
        self._services.draining = True
        self._reloader.stop()
        self._notifier.stopping()
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
            exchange.stop(Refused(CUT))
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

    @property
    def _listening(self) -> str:
        return f"listening on {', '.join(self._addresses)}"

    @property
    def _addresses(self) -> list[str]:
        """Where clients come in, and how: a reload may have brought a certificate."""
        if self._loaded.certificate is None:
            return self._listen
        return [address.replace("http://", "https://", 1) for address in self._listen]

    def _count_running(self) -> int:
        """Those who have a slot, or need none: whoever was dismissed is among the exchanges until it is told."""
        with_slots = sum(self._admission.gate(name).statistics().running for name in self._admission.upstreams())
        return with_slots + self._services.ungated

    def _open_entrances(self, stack: ExitStack) -> list[socket.socket]:
        listen = self._loaded.settings.server.listen
        opened = [open_entrance(entry, stack) for entry in self._given.entries(listen)]
        self._listen = [address for _, address in opened]
        if self._given.replaces_listen:
            logger.info("server.listen is not used: sockets were passed, and they serve in its place")
        return [bound for bound, _ in opened]

    # ---- what happens

    def _on_event(self, event: Event) -> None:
        self._roster.note(event)
        record = self._ledger.apply(event)
        self._journal.apply(event)
        self._metrics.apply(event, record)
        self._feed.apply(event, record)
        emptied = self._emptied.apply(event)
        if emptied is not None and not self._services.draining:
            self._journal.apply(emptied)
            self._feed.apply(emptied, None)

    def _on_turned_away(self, code: str, text: str, key: str) -> None:
        self._feed.apply(CallerRefused(0, time.monotonic(), "", code, text, key), None)

    def _on_change(self, roster: Roster) -> None:
        services = self._services
        is_dropped = roster.settings.upstreams.keys() < services.settings.upstreams.keys()
        services.settings, services.routes, services.upstreams = roster.settings, roster.routes, roster.servers
        services.slot_watches = roster.lookout.slot_watches
        if is_dropped:  # one that left is gone; a reload takes none away without another in its place
            self._ledger.forget_figures(services.settings.upstreams)
            self._feed.announce()

    def _on_applied(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._services.set_keys(loaded.keys)
        self._services.names = loaded.certificate.names if loaded.certificate is not None else ()
        log.set_level(loaded.settings.log.level)
        if self._serving is not None:
            self._serving.set_stall(loaded.settings.server.client_stall_timeout)
            self._serving.set_tls(loaded.tls)

    async def reload(self, by: str = "") -> Reloaded:
        """Reads the settings again; with an error nothing has changed. `by`: who asked for it, for the event."""
        if self._services.draining:
            return Reloaded(error=STOPPING)
        self._notifier.reloading()
        reloaded = await self._reloader.reload()
        self._notifier.ready(self._listening)
        self._metrics.note_reload(succeeded=not reloaded.error)
        self._feed.apply(SettingsReloaded(0, time.monotonic(), "", _in_words(reloaded), by), None)
        self._feed.announce()
        return reloaded

    def log_state(self) -> None:
        """The state, line by line, whatever the level of the log is."""
        for line in state_lines(self.status(), self._views.requests(False)):
            logger.handle(logger.makeRecord(logger.name, logging.INFO, "", 0, "%s", (line,), None))

    # ---- what is seen

    def _admin_app(self) -> ASGIApp:
        sight = Sight(
            status=self.status,
            requests=self._views.requests,
            now_ms=_now_ms,
            config=lambda: view_config(self._loaded, self._services.settings),
            metrics=self._metrics.render,
            leaving=lambda: self._roster.leaving,
        )
        operator = Operator(
            sight,
            admission=self._admission,
            running=self._services.running,
            ledger=self._ledger,
            feed=self._feed,
            slots=self._roster.discovery,
            reload=self.reload,
            note_written=self._reloader.note_written,
        )
        return AdminApp(operator, self._feed, self._loaded.settings.admin.read_only_uids)

    def _gates(self) -> dict[str, Gate]:
        return {name: self._admission.gate(name) for name in self._admission.upstreams()}

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
            listen=self._addresses,
            path_prefix=list(self._loaded.settings.server.path_prefix),
            config=str(self._loaded.path.absolute()) if self._loaded.path else "",
            socket=str(self._socket),
            certificate=_view_certificate(self._loaded.certificate),
            upstreams=self._views.upstreams(),
            renamed=dict(self._roster.renamed),
        )


def _view_certificate(certificate: Certificate | None) -> CertificateView | None:
    if certificate is None:
        return None
    return CertificateView(
        fingerprint=certificate.fingerprint,
        names=list(certificate.names),
        expires_at=rfc3339(certificate.expires) if certificate.expires is not None else "",
    )


def raise_file_limit() -> None:
    """A connection is a file: as many as the system allows without asking."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with contextlib.suppress(ValueError, OSError):  # macOS names a hard limit that it does not allow
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def open_files() -> int | None:
    """How many files this process may have open; None = as many as it likes."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def spare_the_collector() -> None:
    """What was built at the start lives to the end: the collector need not walk through it for every few requests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_KEPT)


def _in_words(reloaded: Reloaded) -> str:
    if reloaded.error:
        return "reload failed: " + reloaded.error.split("\n")[0].removeprefix("llmgate: ")
    waiting = [change.key for change in reloaded.changed if change.reload == "restart"]
    count = len(reloaded.changed) - len(waiting)
    told = f"reload: {count} setting{'' if count == 1 else 's'} changed" if count else "reload: nothing changed"
    restart = (
        [f"{'this needs' if len(waiting) == 1 else 'these need'} a restart: {', '.join(waiting)}"] if waiting else []
    )
    return "; ".join([told, *restart, *reloaded.fates])


def _now_ms() -> int:
    return round(time.monotonic() * 1000)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()
