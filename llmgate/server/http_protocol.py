"""uvicorn's HTTP/1.1 protocol with three things that a gate cannot do without.

- A second request on a connection whose first is not answered yet (pipelining) is dropped and the connection closes
  after the first answer. uvicorn would stop reading instead, and so never learn that the waiting client has left.
- `scope["extensions"]["llmgate.abort"]()` closes the connection at once: a plain close waits for ever for a client that
  has stopped reading, and an answer that breaks off must not look complete.
- A request that offers an upgrade (Java's HttpClient and `curl --http2` offer h2c with every first one) is answered in
  HTTP/1.1, as RFC 9110 7.8 allows: the parser would take its body for the other protocol.
"""

import asyncio
import re
import socket
import sys
from typing import cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

KEEPALIVE_IDLE_SECONDS = 30
USER_TIMEOUT_MS = 60_000
"""A peer that acknowledges nothing for so long is gone (RFC 5482): a machine that lost power sends no FIN."""


_OFFER = re.compile(rb"\r\nupgrade:", re.IGNORECASE)
_NO_OFFER = b"\r\nx-offer:"


class GateProtocol(HttpToolsProtocol):
    """One client connection."""

    _pipelined = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            _watch_peer(cast("socket.socket", raw))

    def data_received(self, data: bytes) -> None:
        if not self._is_answering:
            data = _OFFER.sub(_NO_OFFER, data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {"llmgate.abort": self._abort}  # type: ignore[dict-item]
        if self._is_answering:
            self._pipelined = True
            self.cycle.keep_alive = False

    @property
    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _abort(self) -> None:
        if self._is_answering:
            self.cycle.disconnected = True  # as it will be when that is told: an answer without an end is no fault now
        self.transport.abort()

    def on_headers_complete(self) -> None:
        if not self._pipelined:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._pipelined:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._pipelined:
            super().on_message_complete()


def _watch_peer(raw: socket.socket) -> None:
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_SECONDS)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS)
