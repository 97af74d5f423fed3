"""Takes an answer that does not stream to its end, so that a client never gets half of it: see ADR 4."""

import asyncio

from llmgate.errors import GateError, UpstreamFailed
from llmgate.protocols.decoding import is_json
from llmgate.upstreams.answer import Answer


class Whole:
    """The sink of one answer of at most `limit` bytes, which must be one JSON document."""

    __slots__ = ("_answer", "_error", "_left", "_over", "_pieces", "body")

    def __init__(self, answer: Answer, limit: int) -> None:
        self._answer = answer
        self._left = limit
        self._pieces: list[bytes] = []
        self._error: GateError | None = None
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.body = b""

    def feed(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            error = UpstreamFailed("llmgate: the upstream's answer is too long to be held (UPSTREAM_ERROR)")
            self.end(error)
            self._answer.close(error)
        else:
            self._pieces.append(data)

    def take_end(self) -> bool:
        """The upstream's message ended regularly: whether it is a whole document."""
        self.body = b"".join(self._pieces)
        if self._error is not None:
            return False
        if is_json(self.body):
            return True
        self._error = UpstreamFailed("llmgate: the upstream's answer is no JSON document (UPSTREAM_ERROR)")
        return False

    def end(self, error: GateError | None) -> None:
        self._error = self._error or error
        if not self._over.done():
            self._over.set_result(None)

    async def wait_body(self) -> bytes:
        """The document; raises what went wrong with it."""
        await self._over
        if self._error is not None:
            raise self._error
        return self.body
