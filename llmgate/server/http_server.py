"""uvicorn's server without its own main loop, signals and binding: started on our sockets, stopped when we say so."""

import socket
from collections.abc import Sequence

import uvicorn
from starlette.types import ASGIApp

from llmgate.server.http_protocol import GateProtocol

KEEP_ALIVE_SECONDS = 75


class HttpServer:
    """One ASGI application on listening sockets. It wakes up for nothing while nobody asks."""

    def __init__(self, app: ASGIApp, sockets: Sequence[socket.socket]) -> None:
        self._sockets = list(sockets)
        config = uvicorn.Config(
            app,
            http=GateProtocol,
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
