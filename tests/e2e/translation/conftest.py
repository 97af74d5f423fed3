"""One daemon for all tests of a worker, in front of servers that speak no Anthropic Messages; idle after each test.

All its upstreams lead to the same port, on which a test's own ChatServer listens.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from chatserver import ChatServer, OpenServer
from gateprocess import GateProcess
from hands import hold_port

OPENAI = {"kind": "openai"}
UPSTREAMS: dict[str, dict[str, Any]] = {
    "openai": {**OPENAI, "aliases": {"nickname": "openai-real"}},
    "crowd": {**OPENAI, "max_concurrent": 50},
    "hasty": {**OPENAI, "queue_timeout": "300ms"},
    "keyed": {**OPENAI, "forward_auth": True},
    "own-key": {**OPENAI, "api_key_env": "TEST_KEY"},
    "thinker": {**OPENAI, "reasoning_history": "reasoning_content"},
    "dropper": {**OPENAI, "server_tools": "drop"},
    **{f"unknown-{number}": {"kind": "auto"} for number in range(9)},
    **{f"is-{kind}": {"kind": kind} for kind in ("llama-server", "ollama", "vllm", "anthropic")},
}
"""What is unknown is learnt once: each test takes one of them for itself."""


@pytest.fixture(scope="session")
def port() -> Iterator[int]:
    """Where all upstreams are."""
    with hold_port() as holder:
        yield int(holder.getsockname()[1])


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[GateProcess]:
    """Its heart hardly beats: a sign of life would open a stream whose status a test wants to see."""
    own = {"url": f"http://127.0.0.1:{port}", "max_concurrent": 1, "release_timeout": "5ms"}
    upstreams = {name: {**own, "models": [name, f"{name}-*"], **more} for name, more in UPSTREAMS.items()}
    settings = {"waiting": {"heartbeat": "1m"}, "admin": {"history": 5000}, "upstreams": upstreams}
    gate = GateProcess(tmp_path_factory.mktemp("gate"), settings, environ={"TEST_KEY": "our-own"})
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(start(gate, port))
    with contextlib.ExitStack() as stack:
        stack.push(gate.__exit__)
        yield gate


async def start(gate: GateProcess, port: int) -> None:
    """Its servers are there from the beginning."""
    async with ChatServer(port):
        await asyncio.to_thread(gate.start)
        await gate.wait(lambda: is_up(gate))


def is_up(gate: GateProcess) -> bool:
    """It has missed none of its servers, or found it again."""
    return all(view["state"] != "down" for view in gate.status()["upstreams"])


@pytest.fixture
async def gate(daemon: GateProcess) -> AsyncIterator[GateProcess]:
    await daemon.wait(daemon.is_idle)
    yield daemon
    await daemon.wait(daemon.is_idle)
    daemon.assert_no_traceback()


@pytest.fixture
async def open_server(daemon: GateProcess, port: int) -> AsyncIterator[OpenServer]:
    """`await open_server(knows=(...), refusal=(...))`: the one server behind all upstreams."""
    async with contextlib.AsyncExitStack() as stack:

        async def open_one(**options: Any) -> ChatServer:
            server = await stack.enter_async_context(ChatServer(port, **options))
            await daemon.wait(lambda: is_up(daemon))
            return server

        yield open_one


@pytest.fixture
async def server(open_server: OpenServer) -> ChatServer:
    """It knows chat completions only."""
    return await open_server()
