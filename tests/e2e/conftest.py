"""One daemon for all tests of a worker, in front of upstreams that a test answers by hand; it must be idle after each.

Its upstreams differ in their limits and all lead to the same port, on which a test's own server listens. A test that
needs a daemon of its own makes a GateProcess.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from canaries import assert_no_leak
from gateprocess import GateProcess, allow_many_files
from hands import Hands, hold_port
from llamaserver import assemble_model
from rawclient import Client

UPSTREAMS = {
    "one": {"models": ["one", "one-*"], "aliases": {"nickname": "one-real"}, "max_concurrent": 1},
    "two": {"models": ["two"], "max_concurrent": 2},
    "three": {"models": ["three"], "max_concurrent": 3},
    "small": {"models": ["small"], "max_concurrent": 1, "max_queued": 1},
    "none": {"models": ["none"], "max_concurrent": 1, "max_queued": 0},
    "hasty": {"models": ["hasty"], "max_concurrent": 1, "queue_timeout": "300ms"},
    "silent": {"models": ["silent"], "max_concurrent": 1, "queue_timeout_nonstream": "300ms"},
    "free": {"models": ["free"], "max_concurrent": 0},
    "httpx": {"models": ["httpx"], "max_concurrent": 1, "transport": "httpx"},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The file of the small model, for a real llama-server."""
    path = assemble_model(tmp_path_factory.mktemp("model") / "model.gguf")
    yield path
    path.unlink()


@pytest.fixture(scope="session")
def listening() -> Iterator[socket.socket]:
    """Where the upstreams of `gate` are. It listens all along: the daemon must not find them down between two tests."""
    with hold_port() as holder:
        holder.listen(1024)
        yield holder


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory, listening: socket.socket) -> Iterator[GateProcess]:
    allow_many_files()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    upstreams = {
        name: {"url": url, "release_timeout": "5ms", "on_down": "fail", **limits} for name, limits in UPSTREAMS.items()
    }
    settings = {
        "admin": {"history": 20_000},
        "server": {"max_body": "1MiB"},
        "waiting": {"heartbeat": "60s"},  # on a slow machine none of its signs of life is between what tests wait for
        "upstreams": upstreams,
    }
    with GateProcess(tmp_path_factory.mktemp("gate"), settings) as gate:
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(let_it_ask(gate, listening))
        yield gate


async def let_it_ask(gate: GateProcess, listening: socket.socket) -> None:
    """Until the daemon knows what kind of servers its upstreams are, so that no test meets what it says of that."""
    async with Hands(listening=listening):
        await gate.wait(lambda: gate.log.count(" speaks Messages") == len(UPSTREAMS))


@pytest.fixture(autouse=True)
async def close_clients() -> AsyncIterator[None]:
    """No client of a test outlives it, and none was told a secret."""
    yield
    heard = [client.heard for client in Client.opened]
    await Client.close_all()
    assert_no_leak("\n".join(heard))


@pytest.fixture
async def gate(daemon: GateProcess, hands: Hands) -> AsyncIterator[GateProcess]:
    """The shared daemon; nothing waits, runs or drains in it before and after.

    While the tests of other files ran its servers answered nothing, so that it may have to find them again first.
    """
    await daemon.wait(lambda: daemon.is_idle() and daemon.has_found_its_servers())
    daemon.mark_log()
    yield daemon
    await daemon.wait(daemon.is_idle)
    daemon.assert_no_traceback()


@pytest.fixture
async def hands(listening: socket.socket) -> AsyncIterator[Hands]:
    """The server behind all upstreams of `gate`."""
    async with Hands(listening=listening) as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A short path for a daemon of the test's own: a Unix socket lies in it."""
    return tmp_path
