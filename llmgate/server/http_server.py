"""uvicorn's server without its main loop, signals, binding and accepting: on our sockets, stopped when we say so."""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import uvicorn
from starlette.types import ASGIApp

from llmgate.core.bodies import Bodies
from llmgate.peer import set_user_timeout, watch_peer
from llmgate.server.doorman import Doorman
from llmgate.server.http_protocol import GateProtocol
from llmgate.server.tls import TlsConnection

CUT_SECONDS = 0.8
GONE_SECONDS = 60.0
GONE_MARGIN_SECONDS = 10.0


@dataclass(frozen=True)
class WireLimits:
    """What one server allows its clients; None = no limit."""

    header_timeout: float | None = 10.0
    """Seconds to the first byte of a connection, and from there to the end of a head."""
    max_connections: int = 20_000
    connections_name: str = "max_connections"
    """What the log calls that limit."""
    max_bodies: int | None = None
    """Bytes of all request bodies that are held at once."""


class HttpServer:
    """One ASGI application on listening sockets. It wakes up for nothing while nobody asks."""

    def __init__(
        self,
        app: ASGIApp,
        sockets: Sequence[socket.socket],
        stall_seconds: float | None = None,
        limits: WireLimits | None = None,
        protocol: type[GateProtocol] = GateProtocol,
    ) -> None:
        """`stall_seconds`: how long a client may take nothing; the kernel must not give it up before."""
        limits = limits or WireLimits()
        self._tls: ssl.SSLContext | None = None
        own = {
            "user_timeout": user_timeout(stall_seconds),
            "header_timeout": limits.header_timeout,
            "bodies": Bodies(limits.max_bodies),
        }
        self._protocol: type[GateProtocol] = type("ClientProtocol", (protocol,), own)
        config = uvicorn.Config(
            app,
            http=self._protocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=1,
        )
        config.load()
        self._server = uvicorn.Server(config)
        self._server.servers = []
        self._server.lifespan = config.lifespan_class(config)
        self._listening = list(sockets)
        for listening in sockets:  # whatever it accepts has these from it, for nothing
            watch_peer(listening, user_timeout=self._protocol.user_timeout)
        state = self._server.server_state
        self._doorman = Doorman(
            sockets, self._make_protocol, state.connections, limits.max_connections, limits.connections_name
        )

    def _make_protocol(self) -> asyncio.Protocol:
        state = self._server.server_state
        protocol: GateProtocol = self._server.config.http_protocol_class(  # type: ignore[call-arg, assignment]
            config=self._server.config, server_state=state, app_state={}
        )
        if self._tls is None:
            return protocol
        return TlsConnection(protocol, self._tls, state.connections, self._protocol.header_timeout)

    def set_tls(self, context: ssl.SSLContext | None) -> None:
        """For TCP connections that come from now on; None: they speak plain HTTP, as those of Unix sockets do."""
        self._tls = context
        self._doorman.speaks_tls = context is not None

    def set_stall(self, stall_seconds: float | None) -> None:
        """For connections that come from now on."""
        self._protocol.user_timeout = user_timeout(stall_seconds)
        for listening in self._listening:
            if listening.fileno() >= 0:
                set_user_timeout(listening, self._protocol.user_timeout)

    async def start(self) -> None:
        self._doorman.open()

    def close_listeners(self) -> None:
        """Takes no new connection; those that stand go on."""
        self._doorman.close()

    async def stop(self) -> None:
        """Closes what is idle at once and the rest after a second, before uvicorn would cancel it and say so."""
        self._doorman.close()
        cut = asyncio.get_running_loop().call_later(CUT_SECONDS, self._cut)
        await self._server.shutdown()
        cut.cancel()

    def _cut(self) -> None:
        for connection in list(self._server.server_state.connections):
            cast("GateProtocol", connection).abort()


def user_timeout(stall_seconds: float | None) -> float | None:
    """Seconds after which the kernel gives up a client that acknowledges nothing; None where it may stall for ever.

    The kernel does not tell a machine that lost power from a client that has stopped reading.
    """
    return None if stall_seconds is None else max(GONE_SECONDS, stall_seconds + GONE_MARGIN_SECONDS)
