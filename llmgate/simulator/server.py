"""The simulated server: gives its slots in order, and holds back the rest with nothing sent, as real servers do."""

import asyncio
import json
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Self

from llmgate.simulator.behaviour import BREAK, REFUSE, Behaviour, Fate
from llmgate.simulator.call import BadCall, Dialect, read_call
from llmgate.simulator.connection import Connection, Request
from llmgate.simulator.dialects import ANTHROPIC, COMPLETIONS, OPENAI
from llmgate.simulator.guise import Guise, Kind
from llmgate.simulator.job import Job
from llmgate.simulator.ledger import Ledger
from llmgate.simulator.ollama import OLLAMA_CHAT, OLLAMA_GENERATE
from llmgate.simulator.responses import RESPONSES

STATS_PATH = "/simulator/stats"
SHOW_PATH = "/api/show"
DIALECTS = {
    "/v1/messages": ANTHROPIC,
    "/v1/chat/completions": OPENAI,
    "/v1/completions": COMPLETIONS,
    "/v1/responses": RESPONSES,
    "/api/chat": OLLAMA_CHAT,
    "/api/generate": OLLAMA_GENERATE,
}


class Simulator:
    """A server that speaks Anthropic Messages, three surfaces of OpenAI and two of Ollama on one loop.

    `async with Simulator(Behaviour(slots=2, hold=3)) as server:` listens on a free port of 127.0.0.1 as `server.url`;
    `server.ledger` is what it saw. Any model name is answered; `models` are those that it lists. `kind`: as whom it
    wants to be known; it speaks all surfaces, whatever that is.
    """

    def __init__(
        self, behaviour: Behaviour | None = None, *, models: Sequence[str] = ("simulated",), kind: Kind = "any"
    ) -> None:
        self.behaviour = behaviour or Behaviour()
        self.models = tuple(models)
        self.guise = Guise(kind, self.models, self.behaviour.slots)
        self.ledger = Ledger()
        self._fate = Fate(self.behaviour)
        self._waiting: deque[Job] = deque()
        self._running: dict[int, Job] = {}
        self._connections: set[Connection] = set()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._server: asyncio.Server | None = None
        self._address = ("127.0.0.1", 0)

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen; port 0 takes a free one. OSError when the address cannot be had."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(partial(Connection, self._handle, self._track), host, port)
        self._address = self._server.sockets[0].getsockname()[:2]

    async def stop(self) -> None:
        """Stop listening and cut every connection."""
        if self._server is None:
            return
        self._server.close()
        for connection in list(self._connections):
            connection.abort()
        await self._server.wait_closed()
        await self._quiet.wait()
        self._server = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def port(self) -> int:
        return self._address[1]

    @property
    def url(self) -> str:
        """The base URL, once started: "http://127.0.0.1:PORT"."""
        host, port = self._address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def _track(self, connection: Connection, there: bool) -> None:
        (self._connections.add if there else self._connections.discard)(connection)
        self.ledger.connections = len(self._connections)
        (self._quiet.clear if self._connections else self._quiet.set)()

    def _handle(self, connection: Connection, request: Request) -> None:
        dialect = DIALECTS.get(request.path)
        if dialect is not None and request.method == "POST":
            self._call(connection, request, dialect)
        elif request.method == "POST" and request.path == SHOW_PATH:
            status, told = self.guise.show(request.body)
            connection.respond(status, json.dumps(told).encode())
        elif request.method == "GET":
            self._look(connection, request.path)
        else:
            self._find_nothing(connection)

    def _look(self, connection: Connection, path: str) -> None:
        view = self.ledger.as_plain() if path == STATS_PATH else self.guise.view(path, self._running)
        if view is None:
            self._find_nothing(connection)
        elif isinstance(view, str):
            connection.respond(200, view.encode(), content_type="text/plain; charset=utf-8")
        else:
            connection.respond(200, json.dumps(view).encode())

    @staticmethod
    def _find_nothing(connection: Connection) -> None:
        connection.respond(404, OPENAI.error(404, "File Not Found"))

    def _call(self, connection: Connection, request: Request, dialect: Dialect) -> None:
        self.ledger.seen += 1
        call_id = request.headers.get("llmgate-request-id", f"request-{self.ledger.seen}")
        try:
            call = read_call(request.body, call_id, self.behaviour.tokens, dialect)
        except BadCall as error:
            connection.respond(400, dialect.error(400, str(error)))
            return
        failure = self._fate.draw()
        if failure is not None:
            self.ledger.failed += 1
        if failure == REFUSE:
            connection.abort()
        elif failure is not None and failure != BREAK:
            connection.respond(int(failure), dialect.error(int(failure), "simulated failure"))
        else:
            self._admit(Job(call, dialect, connection, breaks=failure == BREAK), connection)

    def _admit(self, job: Job, connection: Connection) -> None:
        connection.on_lost = partial(self._lost, job)
        if len(self._running) < self.behaviour.slots and not self._waiting:
            self._start(job)
            return
        self._waiting.append(job)
        self.ledger.held_back += 1
        self.ledger.waiting = len(self._waiting)

    def _start(self, job: Job) -> None:
        slot = next(slot for slot in range(self.behaviour.slots) if slot not in self._running)
        self._running[slot] = job
        self.ledger.start(job.call.id)
        job.start(self.behaviour, self._leave_slot)

    def _leave_slot(self, job: Job) -> None:
        """The job's answer is over: its slot goes to the first that is held back."""
        if not job.breaks:
            self.ledger.finished += 1
        self._free(job)

    def _lost(self, job: Job) -> None:
        """The client closed before the answer was over."""
        self.ledger.abort(job.call.id)
        job.cut()
        if job in self._waiting:
            self._waiting.remove(job)
            self.ledger.waiting = len(self._waiting)
        else:
            self._free(job)

    def _free(self, job: Job) -> None:
        slot = next(slot for slot, holder in self._running.items() if holder is job)
        del self._running[slot]
        self.ledger.running = len(self._running)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._fill)

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self.behaviour.slots:
            head = self._waiting.popleft()
            self.ledger.waiting = len(self._waiting)
            self._start(head)
