"""Takes an answer that does not stream to its end, so that a client never gets half of it: see ADR 4."""

import asyncio
import logging
from collections.abc import Callable

from llmgate.errors import GateError, UpstreamFailed
from llmgate.upstreams.answer import Answer

logger = logging.getLogger("llmgate")


class Whole:
    """The sink of one answer of at most `limit` bytes; `read` makes of it what the client gets, or raises."""

    __slots__ = ("_answer", "_body", "_error", "_left", "_over", "_pieces", "_read")

    def __init__(self, answer: Answer, limit: int, read: Callable[[bytes], bytes]) -> None:
        self._answer = answer
        self._left = limit
        self._read = read
        self._pieces: list[bytes] = []
        self._error: GateError | None = None
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._body = b""

    def feed(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            error = UpstreamFailed("llmgate: the upstream's answer is too long to be held (UPSTREAM_ERROR)")
            self.end(error)
            self._answer.close(error)
        else:
            self._pieces.append(data)

    def take_end(self) -> bool:
        """The upstream's message ended regularly: whether it is a whole answer."""
        if self._error is not None:
            return False
        try:
            self._body = self._read(b"".join(self._pieces))
        except GateError as error:
            self._error = error
        except Exception:
            logger.exception("an answer could not be passed on")
            self._error = GateError("llmgate: an internal error, see the log of llmgate (INTERNAL)")
        return self._error is None

    def end(self, error: GateError | None) -> None:
        self._error = self._error or error
        if not self._over.done():
            self._over.set_result(None)

    async def wait_body(self) -> bytes:
        """What the client gets; raises what went wrong with it."""
        await self._over
        if self._error is not None:
            raise self._error
        return self._body
