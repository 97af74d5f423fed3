"""One daemon for all tests of a worker, in front of servers that speak no Anthropic Messages; idle after each test.

All its upstreams lead to the same port, where a test's own ChatServer answers.
"""

import asyncio
import contextlib
import socket
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
    **{f"quoted-{place}": {"kind": "auto"} for place in ("role", "block", "tool", "choice")},
    **{f"is-{kind}": {"kind": kind} for kind in ("llama-server", "ollama", "vllm", "anthropic")},
}
"""What is unknown is learnt once: each test takes one of them for itself."""


@pytest.fixture(scope="session")
def listening() -> Iterator[socket.socket]:
    """Where the server is; it listens all along, so that nobody finds it down between two tests."""
    with hold_port() as holder:
        holder.listen(1024)
        yield holder


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory, listening: socket.socket) -> Iterator[GateProcess]:
    """Its heart hardly beats: a sign of life would open a stream whose status a test wants to see."""
    own = {"url": f"http://127.0.0.1:{listening.getsockname()[1]}", "max_concurrent": 1, "release_timeout": "5ms"}
    upstreams = {name: {**own, "models": [name, f"{name}-*"], **more} for name, more in UPSTREAMS.items()}
    settings = {"waiting": {"heartbeat": "1m"}, "admin": {"history": 5000}, "upstreams": upstreams}
    with GateProcess(tmp_path_factory.mktemp("gate"), settings, environ={"TEST_KEY": "our-own"}) as gate:
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(let_it_ask(gate, listening))
        yield gate


async def let_it_ask(gate: GateProcess, listening: socket.socket) -> None:
    """Until the daemon has found out that the servers do not tell what they are; it asks for their models last."""
    async with ChatServer(listening) as server:
        await gate.wait(lambda: server.questions[b"GET /v1/models"] >= len(UPSTREAMS))
        await gate.wait(lambda: server.questions[b"GET /api/ps"] >= 1)


@pytest.fixture
async def gate(daemon: GateProcess) -> AsyncIterator[GateProcess]:
    await daemon.wait(daemon.is_idle)
    yield daemon
    await daemon.wait(daemon.is_idle)
    daemon.assert_no_traceback()


@pytest.fixture
async def open_server(listening: socket.socket, daemon: GateProcess) -> AsyncIterator[OpenServer]:
    """`await open_server(knows=(...), refusal=(...))`: the one server behind all upstreams.

    Between two tests none answers, so that the daemon may have to find it again first.
    """
    async with contextlib.AsyncExitStack() as stack:

        async def open_one(**options: Any) -> ChatServer:
            server = await stack.enter_async_context(ChatServer(listening, **options))
            await daemon.wait(daemon.has_found_its_servers)
            return server

        yield open_one


@pytest.fixture
async def server(open_server: OpenServer) -> ChatServer:
    """It knows chat completions only."""
    return await open_server()
