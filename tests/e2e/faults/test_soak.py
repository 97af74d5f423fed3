"""F83: everything at once: all surfaces, clients that leave, servers that die and stand still, reloads.

`make soak` runs it for half an hour (SOAK_SECONDS), CI for a minute. Its report, which must hold no finding, is written
to SOAK_REPORT, or beside the daemon's log.
"""

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from gateprocess import ROOT, GateProcess, allow_many_files
from hands import free_port
from llamaserver import START_SECONDS, LlamaServer, assemble_model, is_supported
from soak_audit import audit, report
from soak_client import Visitors
from soak_story import Story
from soak_watch import FeedReader, figures_of, takes_hangup

SECONDS = float(os.environ.get("SOAK_SECONDS", "60"))
VISITORS = 20
SURFACES = {
    "sim": ("/v1/messages", "/v1/chat/completions", "/v1/completions", "/v1/responses"),
    "hasty": ("/v1/messages", "/v1/chat/completions"),
    "ollama": ("/api/chat", "/api/generate", "/v1/chat/completions"),
    "llama": ("/v1/messages", "/v1/chat/completions", "/v1/completions"),
}
CAPS = {"sim": 3, "hasty": 1, "ollama": 3, "llama": 2}
"""The first one is the one that a reload changes."""
SIMULATED = ("sim", "hasty", "ollama")
LONGEST_PAUSE = 3.0
"""Seconds for which a server stands still."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(SECONDS + 240),
    pytest.mark.skipif(not is_supported(), reason="the llama-server package is for Linux on x86_64"),
]


class SoakServer:
    """A simulated server in a process of its own: what may be done to it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.ledger = folder / f"{name}.ledger"
        self.port = free_port()
        self._seed = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def spawn(self) -> None:
        self._seed += 1
        program = ROOT / "tests" / "support" / "soak_server.py"
        command = [sys.executable, str(program), str(self.port), str(self.ledger), str(self._seed)]
        self._process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def suspend(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)


Server = SoakServer | LlamaServer


class Trouble:
    """Does something to a server or to the daemon every few seconds, and undoes it."""

    def __init__(self, servers: dict[str, Server], gate: GateProcess, story: Story) -> None:
        self._servers = servers
        self._gate = gate
        self._story = story
        self._dice = random.Random(83)

    async def go_on(self, stopped: asyncio.Event) -> None:
        while not stopped.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1 + 4 * self._dice.random()):
                    await stopped.wait()
            if not stopped.is_set():
                await self._do_one()

    async def _do_one(self) -> None:
        deed = self._dice.choices(["pause", "kill", "reload"], [5, 3, 2 * takes_hangup(self._gate.pid)])[0]
        name = self._dice.choices(list(self._servers), [5, 5, 5, 1])[0]
        if deed == "reload":
            self._reload()
        elif deed == "pause":
            self._story.deeds[f"{name} stood still"] += 1
            self._servers[name].suspend()
            await asyncio.sleep(LONGEST_PAUSE * self._dice.random())
            self._servers[name].resume()
        else:
            self._story.deeds[f"{name} killed"] += 1
            self._servers[name].kill()
            await asyncio.sleep(2 * self._dice.random())
            self._servers[name].spawn()

    def _reload(self) -> None:
        """A cap is lowered, or raised again."""
        path = self._gate.folder / "llmgate.toml"
        low, high = (f'"max_concurrent" = {cap}\n' for cap in (CAPS["sim"] - 1, CAPS["sim"]))
        settings = path.read_text()
        path.write_text(settings.replace(high, low, 1) if high in settings else settings.replace(low, high, 1))
        self._gate.signal(signal.SIGHUP)
        self._story.deeds["reloads"] += 1


HISTORY = 200
"""So few that it is full long before memory is looked at."""


def settings_for(servers: dict[str, Server]) -> dict[str, Any]:
    """Nobody may be sent to a server that stands still in the place of one who left: most tell their slots, one does
    not, and is given longer to become free than it ever stands still."""
    own: dict[str, dict[str, Any]] = {
        "sim": {"kind": "llama-server"},
        "hasty": {
            "kind": "llama-server",
            "max_queued": 3,
            "queue_timeout": "1s",
            "on_down": "fail",
            "first_byte_timeout": "2s",
            "idle_timeout": "2s",
        },
        "ollama": {"kind": "ollama", "release_timeout": f"{LONGEST_PAUSE + 1:g}s"},
        "llama": {"queue_timeout": "60s"},
    }
    upstreams = {
        name: {"max_concurrent": CAPS[name], "url": server.url, "models": [name], **own[name]}
        for name, server in servers.items()
    }
    return {"server": {"client_stall_timeout": "20s"}, "admin": {"history": HISTORY}, "upstreams": upstreams}


@pytest.fixture
def servers(folder: Path) -> Iterator[dict[str, Server]]:
    allow_many_files()
    model = assemble_model(folder / "model.gguf")
    with ExitStack() as stack:
        simulated: dict[str, Server] = {name: SoakServer(folder, name) for name in SIMULATED}
        all_of_them = simulated | {"llama": LlamaServer(folder, model, free_port(), parallel=2)}
        for server in all_of_them.values():
            stack.callback(server.kill)
            server.spawn()
        yield all_of_them
    model.unlink()


@contextlib.asynccontextmanager
async def going(*coroutines: Any) -> AsyncIterator[None]:
    """They go on meanwhile; one that fails ends the block."""
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(coroutine) for coroutine in coroutines]
        yield
        for task in running:
            task.cancel()


async def keep_figures(gate: GateProcess, story: Story, began: float) -> None:
    while True:
        story.figures.append(figures_of(gate.pid, began))
        await asyncio.sleep(1)


class Tasks:
    """What the daemon's tasks do, as `counted_tasks` tells it from inside."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "tasks"
        self.environ = {
            "LLMGATE_TEST_TASKS": str(self._file),
            "PYTHONPATH": f"{Path(__file__).parent / 'counted_tasks'}:{ROOT}",
        }

    async def look(self, gate: GateProcess) -> Counter[str]:
        self._file.unlink(missing_ok=True)
        gate.signal(signal.SIGUSR2)
        await gate.wait(self._file.exists)
        return Counter(self._file.read_text().splitlines())


async def test_f83_soak(folder: Path, servers: dict[str, Server]) -> None:
    story, tasks = Story(caps=dict(CAPS)), Tasks(folder)
    with GateProcess(folder, settings_for(servers), environ=tasks.environ) as gate:
        await wait_for_servers(gate)
        visitors = Visitors(83, SURFACES)
        story.told = visitors.told
        reader = FeedReader(gate.socket, story)
        began = time.monotonic()
        async with going(reader.follow(), keep_figures(gate, story, began)):
            await gate.wait(lambda: reader.connections == 1 and len(story.figures) > 0)
            story.start_files, story.start_threads = story.figures[-1].files, story.figures[-1].threads
            story.start_tasks = await tasks.look(gate)
            await visit_for(SECONDS, visitors, Trouble(servers, gate, story), gate.port)
            await settle(gate)
            story.end_tasks = await tasks.look(gate)
        read_the_end(gate, story)
    for name, server in servers.items():
        if isinstance(server, SoakServer):
            story.read_ledger(name, server.ledger.read_text())
    findings = audit(story)
    text = report(story, findings)
    keep(text, folder)
    assert findings == [], text
    assert {"whole", "left"} <= {told.end for told in story.told}


async def wait_for_servers(gate: GateProcess) -> None:
    """A llama-server takes its time to load its model."""
    async with asyncio.timeout(START_SECONDS):
        while not gate.has_found_its_servers():  # noqa: ASYNC110
            await asyncio.sleep(0.1)


def keep(text: str, folder: Path) -> None:
    Path(os.environ.get("SOAK_REPORT", folder / "soak-report.txt")).write_text(text)
    print(text)


async def visit_for(seconds: float, visitors: Visitors, trouble: Trouble, port: int) -> None:
    stopped, troubled = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        making_trouble = tasks.create_task(trouble.go_on(troubled))
        for _ in range(VISITORS):
            tasks.create_task(visitors.come_and_go(port, stopped))
        await asyncio.sleep(seconds)
        troubled.set()
        await making_trouble
        stopped.set()


async def settle(gate: GateProcess) -> None:
    """Until nothing waits, runs and drains; what is left over after that is the auditor's to find."""
    with contextlib.suppress(AssertionError):
        await gate.wait(gate.is_idle)
    await asyncio.sleep(2.5)  # the feed has told the last of it, and the kernel has closed what was closed


def read_the_end(gate: GateProcess, story: Story) -> None:
    for view in gate.status()["upstreams"]:
        for key in ("waiting", "running", "draining"):
            story.end[f"{view['name']} {key}"] = view[key]
    story.end["files"] = story.figures[-1].files
    told = ("Traceback", " failed inside llmgate", " could not be ")
    story.log_errors = [line for line in gate.log.splitlines() if any(words in line for words in told)]
