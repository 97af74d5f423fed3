"""uvicorn's server without its own main loop, signals and binding: started on our sockets, stopped when we say so."""

import socket
from collections.abc import Sequence

import uvicorn
from starlette.types import ASGIApp

from llmgate.server.http_protocol import GateProtocol

KEEP_ALIVE_SECONDS = 75
GONE_SECONDS = 60.0
GONE_MARGIN_SECONDS = 10.0


class HttpServer:
    """One ASGI application on listening sockets. It wakes up for nothing while nobody asks."""

    def __init__(self, app: ASGIApp, sockets: Sequence[socket.socket], stall_seconds: float | None = None) -> None:
        """`stall_seconds`: how long a client may take nothing; the kernel must not give it up before."""
        self._sockets = list(sockets)
        config = uvicorn.Config(
            app,
            http=type("ClientProtocol", (GateProtocol,), {"user_timeout": user_timeout(stall_seconds)}),
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=1,
            backlog=4096,
        )
        config.load()
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)

    async def start(self) -> None:
        await self._server.startup(sockets=self._sockets)

    def close_listeners(self) -> None:
        """Takes no new connection; those that stand go on."""
        for server in self._server.servers:
            server.close()

    async def stop(self) -> None:
        """Closes what is idle at once and the rest after a second."""
        await self._server.shutdown(sockets=self._sockets)


def user_timeout(stall_seconds: float | None) -> float | None:
    """Seconds after which the kernel gives up a client that acknowledges nothing; None where it may stall for ever.

    The kernel does not tell a machine that lost power from a client that has stopped reading.
    """
    return None if stall_seconds is None else max(GONE_SECONDS, stall_seconds + GONE_MARGIN_SECONDS)
