"""Connections for which there is no room: each is told so and closed, in a way in which its client can read that.

A socket that is closed with unread input sends a reset, which can overtake the answer. So each is held for a moment in
which what comes is thrown away; only a few are, and a new one takes the place of the oldest.
"""

import asyncio
import socket

from llmgate.errors import TooManyConnections
from llmgate.protocols.wire_answer import wire_answer
from llmgate.server.tls import ALERT

HELD_SECONDS = 1.0
RETRY_SECONDS = 1
_READ = 1 << 16


class Surplus:
    """At most `most` sockets at once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: dict[socket.socket, asyncio.TimerHandle] = {}
        """The oldest first."""
        error = TooManyConnections("llmgate: too many connections, try again later (TOO_MANY_CONNECTIONS)")
        self._answer = wire_answer(error, RETRY_SECONDS)

    def __len__(self) -> int:
        return len(self._held)

    def take(self, raw: socket.socket, *, secure: bool = False) -> None:
        """Answers and closes it, now or soon. `secure`: its client speaks TLS, and gets no more than an alert."""
        if len(self._held) >= self._most:
            self._close(next(iter(self._held)))
        raw.setblocking(False)
        try:
            raw.send(ALERT if secure else self._answer)
            raw.shutdown(socket.SHUT_WR)
        except OSError:
            raw.close()
            return
        loop = asyncio.get_running_loop()
        loop.add_reader(raw, self._throw_away, raw)
        self._held[raw] = loop.call_later(HELD_SECONDS, self._close, raw)

    def close(self) -> None:
        """All of them."""
        for raw in list(self._held):
            self._close(raw)

    def _throw_away(self, raw: socket.socket) -> None:
        try:
            is_gone = not raw.recv(_READ)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            is_gone = True
        if is_gone:
            self._close(raw)

    def _close(self, raw: socket.socket) -> None:
        self._held.pop(raw).cancel()
        asyncio.get_running_loop().remove_reader(raw)
        raw.close()
