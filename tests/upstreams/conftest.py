"""Every asynchronous test of this folder runs on asyncio's loop and on uvloop, against a scripted upstream."""

import asyncio
import contextlib
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

import pytest
import uvloop
from puppet import Puppet, Script

from llmgate.upstreams.transport import WireTransport

StartPuppet = Callable[..., Awaitable[Puppet]]
MakeTransport = Callable[..., WireTransport]


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Callable[[], object]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def start_puppet() -> AsyncIterator[StartPuppet]:
    """`await start_puppet(script)`: a Puppet that is closed, with its script's failures raised, after the test."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(script: Script, *, ssl_context: ssl.SSLContext | None = None) -> Puppet:
            return await stack.enter_async_context(Puppet(script, ssl_context=ssl_context))

        yield start


@pytest.fixture
async def connect_to() -> AsyncIterator[MakeTransport]:
    """`connect_to(url)`: a WireTransport that is closed after the test; nothing is swept before, to hide a fault."""
    async with contextlib.AsyncExitStack() as stack:

        def make(url: str, **options: object) -> WireTransport:
            transport = WireTransport(url, **{"idle_limit_seconds": 600, "rest_seconds": 0, **options})  # type: ignore[arg-type]
            stack.push_async_callback(transport.aclose)
            return transport

        yield make


class Tls(NamedTuple):
    server: ssl.SSLContext
    client: ssl.SSLContext
    """Trusts the server's certificate, and nothing else."""


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=puppet"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    return Tls(server, ssl.create_default_context(cafile=certificate))
