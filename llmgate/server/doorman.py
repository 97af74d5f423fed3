"""Accepts connections on listening sockets, up to a number; whoever comes then is told, and closed.

We accept by ourselves, since a loop's own server takes all that wait in one go, before any protocol can say no: that
ends in EMFILE, of which asyncio's writes thousands of lines and uvloop's drops connections without a word. Should files
run out all the same, accepting rests for a moment; what has connected waits in the kernel.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from llmgate.core.capacity import SURPLUS
from llmgate.peer import is_tcp
from llmgate.server.drive import Drive
from llmgate.server.surplus import Surplus

logger = logging.getLogger("llmgate")

AT_ONCE = 64
"""Connections accepted before others in the loop have their turn, at most: one at first, since to ask for another that
is not there costs as much as to accept one; twice as many each time while all of them were there."""
REST_SECONDS = 0.1
QUIET_SECONDS = 60.0
"""At least that lies between two lines of the same kind in the log."""

_NO_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Doorman:
    """Begins with `open`, ends with `close`, which closes the listening sockets too."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        make_protocol: Callable[[], asyncio.Protocol],
        connections: AbstractSet[object],
        limit: int,
        limit_name: str = "max_connections",
    ) -> None:
        """`connections` are the protocols of those that stand, at each moment; at `limit` nobody else gets in.

        `limit_name` is what the log calls it.
        """
        self._sockets = list(sockets)
        self._make_protocol = make_protocol
        self._connections = connections
        self._limit = limit
        self._limit_name = limit_name
        self._arriving: set[object] = set()
        """The protocols of those that are accepted and may not be among the connections yet."""
        self._at_once = 1
        self.speaks_tls = False
        """On TCP: whoever is turned away there cannot read an answer of HTTP."""
        self._surplus = Surplus(SURPLUS)
        self._rests: list[asyncio.TimerHandle] = []
        self._told: dict[str, float] = {}

    def open(self) -> None:
        """Begins to accept."""
        for listening in self._sockets:
            listening.setblocking(False)
            self._listen(listening)

    def close(self) -> None:
        """Accepts nobody any more. Those who came in stay."""
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            if listening.fileno() >= 0:
                loop.remove_reader(listening)
            listening.close()
        for rest in self._rests:
            rest.cancel()
        self._sockets.clear()
        self._rests.clear()
        self._surplus.close()

    def _listen(self, listening: socket.socket) -> None:
        asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        turned_away, at_once = 0, self._at_once
        self._at_once = 1
        for _ in range(at_once):
            try:
                raw = listening.accept()[0]
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest(listening, error)
                return
            if len(self._connections) + len(self._arriving - self._connections) < self._limit:
                self._let_in(raw)
                continue
            self._tell("connections", "%s is reached (%d): others are turned away", self._limit_name, self._limit)
            self._surplus.take(raw, secure=self.speaks_tls and is_tcp(raw))
            turned_away += 1
            if turned_away == SURPLUS:  # they get a turn of the loop in which to be read
                return
        self._at_once = min(2 * at_once, AT_ONCE)

    def _let_in(self, raw: socket.socket) -> None:
        protocol: asyncio.Protocol | None = None

        def make() -> asyncio.Protocol:
            nonlocal protocol
            protocol = self._make_protocol()
            self._arriving.add(protocol)
            return protocol

        def came(_: Any, error: Exception | None) -> None:
            self._arriving.discard(protocol)
            if error is not None:
                raw.close()

        Drive(asyncio.get_running_loop().connect_accepted_socket(make, raw), came)

    def _rest(self, listening: socket.socket, error: OSError) -> None:
        """Whatever it is, it must not be met again at once."""
        reason = errno.errorcode.get(error.errno or 0, "error")
        hint = "; raise the limit on open files" if error.errno in _NO_FILES else ""
        self._tell(reason, "no connection can be accepted now (%s)%s", reason, hint)
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        self._rests = [rest for rest in self._rests if rest.when() > loop.time()]
        self._rests.append(loop.call_later(REST_SECONDS, self._listen, listening))

    def _tell(self, kind: str, text: str, *values: object) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._told.get(kind, -QUIET_SECONDS) >= QUIET_SECONDS:
            self._told[kind] = now
            logger.warning(text, *values)
