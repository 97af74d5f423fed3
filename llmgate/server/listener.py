"""Listens on `receive()` for the whole life of a request, so that a client that leaves is noticed at once."""

from collections.abc import Callable
from typing import Any, Self

from starlette.types import Receive

from llmgate.server.drive import Drive


class Listener:
    """Calls `on_gone` once when the client has gone. Begin it when the body has been read."""

    __slots__ = ("_drive", "_on_gone", "_receive")

    def __init__(self, receive: Receive, on_gone: Callable[[], object]) -> None:
        self._receive = receive
        self._on_gone = on_gone
        self._drive: Drive | None = None

    def __enter__(self) -> Self:
        self._drive = Drive(self._listen(), self._heard)
        return self

    def __exit__(self, *_: object) -> None:
        if self._drive is not None:
            self._drive.stop()
            self._drive = None  # it knows this listener

    async def _listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def _heard(self, _: Any, __: Exception | None) -> None:
        self._on_gone()
