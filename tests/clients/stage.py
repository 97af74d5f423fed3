"""A gate with its slots taken, at which client programs call; what each call got, and what the gate counted of it.

    probe = Probe("openai", [sys.executable, "py_openai.py"], streams=["chat"], wholes=["chat_whole"], lists=["models"])
    async with Stage(tmp_path) as stage:
        calls = await stage.run([probe, ...])

A probe is a program. It is run once, as `*command URL MODE=MODEL MODE=MODEL...`, makes all these calls at the same time
(threads or tasks of its own), and prints one JSON line a call, when the call is over and at the latest when all are:

    {"mode": MODE, "model": MODEL, ...}     in `...` whatever the test wants to look at, given back as Call.told

URL is the gate's root, "http://127.0.0.1:PORT/llm": an Anthropic or Ollama client takes it as it is, an OpenAI client
with "/v1" behind it. Exit status and lines that are no JSON object are ignored; stderr lies in FOLDER/NAME.err.

The place where a call is made is the first word of its model, "PLACE-NAME-MODE", and each mode calls at each place:

    free      a slot for everyone
    patient   the slot is taken until every call of every probe waits here, and for WAIT_SECONDS more; then all are
              answered, one after the other
    full      QUEUE_FULL
    late      QUEUE_TIMEOUT after LATE_SECONDS
    broken    streams only: the server closes after the start of its answer

Modes that are not gated (`lists`) are asked once, with the model LISTED, the only one that lists can name.

Every server answers "Hello", but on /v1/messages "Hello there" (tests/support/hands.py). Any path of the gated surfaces
will do. A call whose request never comes to wait (it failed before) is no error here: its line says why.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from gateprocess import GateProcess
from hands import Hands, Turn
from rawclient import Client

WAIT_SECONDS = 6.0
"""Longer than a client may be silent or idle by its own settings: httpx reads for 5 s."""

LATE_SECONDS = 2.0

PLACES: Mapping[str, Mapping[str, Any]] = {
    "free": {"max_concurrent": 1000},
    "patient": {"max_concurrent": 1},
    "full": {"max_concurrent": 1, "max_queued": 0},
    "late": {"max_concurrent": 1, "queue_timeout": LATE_SECONDS},
    "broken": {"max_concurrent": 1000},
}
TAKEN = ("patient", "full", "late")
"""Where another request has the only slot."""

LISTED = "free-listed"

STARTING = 2
"""So many programs are started at a time: to import a client takes seconds of a processor."""

START_SECONDS = 300.0
"""Until a program that was started waits in the queue; only a broken one comes near it."""

ANSWER_SECONDS = 120.0
"""Until the programs end once they are answered; only a broken one comes near it."""

RUN_SECONDS = 1000.0
"""Nothing is asked any more."""

PACE_SECONDS = 0.03
"""Between the answers in `patient`, so that those behind are told of their new places."""


@dataclass(frozen=True)
class Probe:
    """A program and the modes it knows. `environ` is added to little more than PATH: no settings of a person's own."""

    name: str
    command: Sequence[str]
    streams: Sequence[str] = ()
    wholes: Sequence[str] = ()
    lists: Sequence[str] = ()
    environ: Mapping[str, str] = field(default_factory=dict)

    @property
    def models(self) -> dict[tuple[str, str], str]:
        """Of each call, by mode and place."""
        gated = {(mode, place) for mode in self.streams for place in PLACES}
        gated |= {(mode, place) for mode in self.wholes for place in PLACES if place != "broken"}
        named = {(mode, place): f"{place}-{self.name}-{mode}" for mode, place in sorted(gated)}
        return named | {(mode, "free"): LISTED for mode in self.lists}


@dataclass(frozen=True)
class Call:
    """What came of one call."""

    probe: str
    mode: str
    place: str
    told: Mapping[str, Any]
    """The line that it printed; {} if there was none."""
    outcomes: tuple[str, ...]
    """Of each request that the gate saw of it, in their order: "completed", "queue_full", "queue_timeout"..."""
    waited_ms: tuple[int, ...]
    """Of each of them that got a slot."""


class Program:
    """A probe that runs, its output in two files of `folder`."""

    def __init__(self, probe: Probe, folder: Path, url: str) -> None:
        self.probe = probe
        self._out, self._err = folder / f"{probe.name}.out", folder / f"{probe.name}.err"
        words = [f"{mode}={model}" for (mode, _), model in probe.models.items()]
        environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
        # Nothing here speaks TLS, and to load a machine's certificates takes half of a Python client's time.
        environ |= {"SSL_CERT_DIR": str(folder), **probe.environ}
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                [*probe.command, url, *words], stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environ
            )

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    def lines(self) -> dict[tuple[str, str], dict[str, Any]]:
        """What it printed until now, by mode and model."""
        whole = self._out.read_text(errors="replace").rpartition("\n")[0].splitlines()
        told = [json.loads(line) for line in whole if line.startswith("{")]
        return {(line["mode"], line["model"]): line for line in told}

    def end(self) -> None:
        """SIGKILL, if it still runs."""
        if not self.is_over:
            self._process.kill()
        self._process.wait()

    def __str__(self) -> str:
        return f"{self.probe.name}:\n{self._out.read_text()}\n{self._err.read_text()}"


class Stage:
    """Made with an empty folder, in which a Unix socket gets a short path. Its slots are taken for one `run`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._hands = Hands()
        self._held: list[Turn] = []
        self._programs: list[Program] = []
        self._stack = contextlib.AsyncExitStack()

    @property
    def url(self) -> str:
        """The gate's root."""
        return f"{self.gate.url}/llm"

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._hands)
            upstreams = {
                place: {"url": self._hands.url, "models": [f"{place}-*"], **limits} for place, limits in PLACES.items()
            }
            upstreams["free"]["models"] += [LISTED]
            settings = {"admin": {"history": 20_000}, "upstreams": upstreams}
            self.gate = stack.enter_context(GateProcess(self._folder, settings))
            stack.push_async_callback(Client.close_all)
            stack.callback(self._end_programs)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._stack.__aexit__(*exception)

    def _end_programs(self) -> None:
        for program in self._programs:
            program.end()

    async def run(self, probes: Sequence[Probe]) -> list[Call]:
        """Starts them, makes them wait, lets them end. AssertionError for one that does neither wait nor end."""
        await self._take_slots()
        answering = asyncio.ensure_future(self._answer())
        try:
            starting = asyncio.Semaphore(STARTING)
            await asyncio.gather(*(self._start(probe, starting) for probe in probes))
            await asyncio.sleep(WAIT_SECONDS)
            await self._give("patient")
            await self._until_over()
            for place in ("full", "late"):
                await self._give(place)
            await self.gate.wait(self.gate.is_idle)
        finally:
            answering.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await answering
        return list(self._calls())

    # ---- its steps

    async def _take_slots(self) -> None:
        for place in TAKEN:
            await self.gate.ask(f"{place}-taken")
            self._held.append(await self._hands.turn())

    async def _give(self, place: str) -> None:
        await self._held[TAKEN.index(place)].complete()

    async def _start(self, probe: Probe, starting: asyncio.Semaphore) -> None:
        async with starting:
            program = Program(probe, self._folder, self.url)
            self._programs.append(program)
            patient = {key: model for key, model in probe.models.items() if key[1] == "patient"}

            def is_there() -> bool:
                there = {view["model"] for view in self.gate.requests("waiting")}
                there |= {model for _, model in program.lines()}
                return program.is_over or there.issuperset(patient.values())

            await self._until(is_there, START_SECONDS, [program])

    async def _until_over(self) -> None:
        await self._until(lambda: all(program.is_over for program in self._programs), ANSWER_SECONDS, self._programs)

    async def _until(self, condition: Any, seconds: float, programs: Iterable[Program]) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "\n".join(map(str, programs))
            await asyncio.sleep(0.1)

    async def _answer(self) -> None:
        """Each request as it comes; the connection of one who left is no matter."""
        while True:
            turn = await self._hands.turn(RUN_SECONDS)
            place = turn.fields["model"].partition("-")[0]
            with contextlib.suppress(ConnectionError):
                if place == "broken":
                    await turn.begin()
                    turn.connection.close()
                    continue
                if place == "patient":
                    await asyncio.sleep(PACE_SECONDS)
                await self._complete(turn)

    async def _complete(self, turn: Turn) -> None:
        """The same text, whether or not llmgate asks for a stream where the client did not."""
        if turn.path == "/v1/messages" and not turn.wants_stream:
            await turn.answer(body=turn.spoken.whole.replace(b"Hello", b"Hello there"))
        else:
            await turn.complete()

    def _calls(self) -> Iterable[Call]:
        seen: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for view in sorted(self.gate.requests("done"), key=lambda view: view["arrived_ms"]):
            seen[view["model"]].append(view)
        for program in self._programs:
            lines = program.lines()
            for (mode, place), model in program.probe.models.items():
                views = [] if model == LISTED else seen[model]
                outcomes = tuple(view["outcome"] for view in views)
                started = [view for view in views if view["dispatched_ms"] is not None]
                waits = (view["dispatched_ms"] - view["arrived_ms"] for view in started)
                yield Call(program.probe.name, mode, place, lines.get((mode, model), {}), outcomes, tuple(waits))
