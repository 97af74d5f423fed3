"""A house: the front door of a daemon in the test's own loop, on a real socket, before one upstream called `reasoning`.

When it closes it must be empty and quiet: every slot back, one outcome for each request, no task, no timer of a gate,
no line in the log that the test did not announce, nothing that the loop had to complain about.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Self

from gateprocess import MESSAGES, request_body
from hands import Hands, Turn
from puppet import LIVENESS_SECONDS
from rawclient import Client

from llmgate.admission.local import LocalAdmission
from llmgate.config.load import load
from llmgate.config.settings import Settings
from llmgate.core.events import Event, GateStatistics, Limits, Queued, TicketEvent
from llmgate.core.gate import Gate
from llmgate.core.routing import Routes, Serves
from llmgate.fleet import make_gate, make_upstreams
from llmgate.server.frontdoor import FrontDoor
from llmgate.server.http_server import HttpServer
from llmgate.server.services import Services
from llmgate.server.sockets import bind_listen
from llmgate.telemetry.ledger import Ledger

UPSTREAM = "reasoning"


def services_for(url: str, listener: Callable[[Event], None], ledger: Ledger, **sections: Any) -> Services:
    """What a daemon would build from these settings; `upstream` are those of the one upstream."""
    upstream = {
        "url": url,
        "models": ["m", "m-*", "org/big"],
        "aliases": {"nick": "m-real"},
        "max_concurrent": 1,
        "release_timeout": 0.02,
        "on_down": "fail",
        "force_stream": False,
        **sections.pop("upstream", {}),
    }
    sections["server"] = {"allowed_hosts": ["gate", "x"], **sections.get("server", {})}  # whom tests ask
    if "endpoints" in upstream:
        del upstream["url"], upstream["max_concurrent"]
    settings = settings_of({"upstreams": {UPSTREAM: upstream}, **sections})
    one = settings.upstreams[UPSTREAM]
    loop = asyncio.get_running_loop()
    admission = LocalAdmission([make_gate(UPSTREAM, one)], listener, loop.time)
    routes = Routes({UPSTREAM: Serves(one.models, one.aliases)}, settings.server.default_upstream)
    return Services(settings, admission, make_upstreams(settings, {}), ledger, routes)


KNOWN_SETTINGS: dict[str, Settings] = {}


def settings_of(overrides: dict[str, Any]) -> Settings:
    """They are frozen: thousands of stages have the same."""
    written = repr(overrides)
    if written not in KNOWN_SETTINGS:
        KNOWN_SETTINGS[written] = load(None, environ={}, overrides=overrides).settings
    return KNOWN_SETTINGS[written]


class Guests:
    """What was told of the requests of one house: every event, folded as the daemon does it."""

    def __init__(self) -> None:
        self.ledger = Ledger(10_000)
        self.events: list[Event] = []
        self.services: Services

    def on_event(self, event: Event) -> None:
        self.events.append(event)
        self.ledger.apply(event)

    @property
    def gate(self) -> Gate:
        return self.services.admission.gate(UPSTREAM)

    @property
    def figures(self) -> GateStatistics:
        return self.gate.statistics()

    @property
    def taken(self) -> tuple[int, int, int]:
        """Waiting, running, draining."""
        figures = self.figures
        return figures.waiting, figures.running, figures.draining

    @property
    def outcomes(self) -> list[str]:
        """In the order in which they were told."""
        told = [getattr(event, "outcome", None) for event in self.events]
        return [outcome for outcome in told if outcome is not None]

    @property
    def queued(self) -> int:
        return sum(isinstance(event, Queued) for event in self.events)

    def set_cap(self, slots: int) -> None:
        old = self.gate.limits
        self.services.admission.set_limits(UPSTREAM, Limits(slots, old.max_queued, old.queue_timeout))

    def check_outcomes(self) -> None:
        """Whoever took a ticket had one outcome; slots were handed out within the cap at every moment."""
        told = Counter(event.ticket for event in self.events if getattr(event, "outcome", None) and is_ticket(event))
        tickets = {event.ticket for event in self.events if isinstance(event, TicketEvent)}
        assert told == Counter(tickets)

    def check_empty(self) -> None:
        assert self.taken == (0, 0, 0)
        assert self.gate.next_deadline() is None
        assert self.services.admission._desks[UPSTREAM]._places == {}
        assert self.services.admission._desks[UPSTREAM]._waiting == {}
        assert len(self.services.running) == 0
        assert list(self.ledger.live()) == []
        self.check_outcomes()


def is_ticket(event: Event) -> bool:
    return isinstance(event, TicketEvent)


class House(Guests):
    """Open it with `async with`."""

    def __init__(self, url: str, hands: Hands, **sections: Any) -> None:
        super().__init__()
        self._hands = hands
        self._stack = ExitStack()
        self.services = services_for(url, self.on_event, self.ledger, **sections)
        self._log = self._stack.enter_context(logged())
        self.complaints: list[Mapping[str, Any]] = []
        self.expected_log: list[str] = []
        """Beginnings of the lines from WARNING up that the test announces, one for each line."""

    async def __aenter__(self) -> Self:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self.complaints.append(context))
        listening = bind_listen("127.0.0.1:0")
        self.port = listening.getsockname()[1]
        server = self.services.settings.server
        front = FrontDoor(self.services, server.path_prefix)
        self.http = HttpServer(front, [listening], server.client_stall_timeout)
        await self.http.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        state = self.http._server.server_state
        try:
            if kind is None:
                await self.wait(lambda: self.taken == (0, 0, 0) and not state.tasks)
                self.check_empty()
                self.check_log()
                assert self.complaints == []
        finally:
            await Client.close_all()
            self.http.close_listeners()
            for task in list(state.tasks):
                task.cancel()
            for connection in list(state.connections):
                connection.transport.abort()
            await self.wait(lambda: not state.connections and not state.tasks)
            for upstream in self.services.upstreams.values():
                await upstream.aclose()
            self.services.admission.stop()
            self._stack.close()
        assert [task for task in asyncio.all_tasks() if "llmgate" in repr(task.get_coro())] == []

    def check_log(self) -> None:
        lines = [line.partition("\n")[0] for line in self._log]
        assert len(lines) == len(self.expected_log), self._log
        assert all(map(str.startswith, lines, self.expected_log)), lines

    async def wait(self, condition: Callable[[], bool]) -> None:
        """Until it holds; it is looked at in every turn of the loop, and every few milliseconds."""
        async with asyncio.timeout(LIVENESS_SECONDS):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.002)

    async def ask(
        self,
        model: str = "m",
        *,
        path: str = MESSAGES,
        stream: bool = True,
        headers: Mapping[str, str] | None = None,
        receive_buffer: int | None = None,
        **fields: Any,
    ) -> Client:
        """A client of its own that has sent one request."""
        client = await Client.connect(self.port, receive_buffer=receive_buffer)
        client.post(path, request_body(model, stream=stream, **fields), headers)
        return client

    async def occupy(self) -> tuple[Client, Turn]:
        """A client whose stream has begun, and its turn at the upstream: the slot is taken."""
        client = await self.ask()
        turn = await self._hands.turn()
        await turn.begin()
        await client.head()
        return client, turn

    async def queue(self, count: int = 1, **request: Any) -> Client:
        """One more client that waits; it is the `count`th one who does."""
        client = await self.ask(**request)
        await self.wait(lambda: self.figures.waiting == count)
        return client


class _Lines(logging.Handler):
    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@contextmanager
def logged(level: int = logging.WARNING) -> Iterator[list[str]]:
    """The lines from this level up that were logged inside."""
    handler = _Lines(level)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield handler.lines
    finally:
        root.removeHandler(handler)


OpenHouse = Callable[..., Awaitable[House]]
