"""A connection to the admin socket: it knows the uid of its peer, for which ASGI has no word."""

import asyncio

from llmgate.server.admin_peer import Peer, peer_of
from llmgate.server.http_protocol import GateProtocol

PEER = "llmgate.peer"
"""The name in `scope["extensions"]` of the Peer."""


class AdminProtocol(GateProtocol):
    """As for clients, with the peer in the scope."""

    _peer = Peer(None)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        raw = transport.get_extra_info("socket")
        if raw is not None:
            self._peer = peer_of(raw.fileno())

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"][PEER] = self._peer  # type: ignore[assignment]
