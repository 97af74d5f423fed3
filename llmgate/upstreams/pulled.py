"""An answer's body as an asynchronous iterator, for readers that pull; a slow one slows the upstream down."""

import asyncio
from typing import Self

from llmgate.errors import GateError
from llmgate.upstreams.answer import Answer

PULL_BYTES = 64 * 1024
"""So much may wait to be pulled before the upstream is paused."""


class PulledBody:
    """For one reader. Raises the GateError that ended the body early."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._pieces: list[bytes] = []
        self._size = 0
        self._started = self._over = False
        self._error: GateError | None = None
        self._news = asyncio.Event()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if not self._started:
            self._started = True
            self._answer.start(self)
        while not self._pieces and not self._over:
            self._news.clear()
            await self._news.wait()
        if self._pieces:
            return self._take()
        if self._error is not None:
            raise self._error
        raise StopAsyncIteration

    def feed(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size += len(data)
        if self._size >= PULL_BYTES:
            self._answer.pause()
        self._news.set()

    def end(self, error: GateError | None) -> None:
        self._over = True
        self._error = error
        self._news.set()

    def close(self) -> None:
        self._over = True
        self._answer.close()

    def _take(self) -> bytes:
        data = b"".join(self._pieces)
        self._pieces.clear()
        if self._size >= PULL_BYTES:
            self._answer.resume()
        self._size = 0
        return data
