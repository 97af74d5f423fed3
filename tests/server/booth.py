"""A booth: one client alone with the voice that speaks to it, before an upstream with one slot, in a virtual loop."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from virtual_loop import this_loop

from llmgate.admission.place import LocalPlace
from llmgate.core.caller import Caller
from llmgate.protocols.surface import Surface
from llmgate.protocols.surfaces import MESSAGES
from llmgate.server.destination import Destination
from llmgate.server.reply import Reply
from llmgate.server.voice import Voice
from llmgate.server.wishes import QueueEvents
from tests.server.house import UPSTREAM, Guests, services_for
from tests.server.stage import play, settle

SSE = "text/event-stream; charset=utf-8"


class Booth(Guests):
    """One client, whose voice speaks into `body`; the slot of its upstream is taken once `occupy` was called."""

    def __init__(self, surface: Surface = MESSAGES, **sections: Any) -> None:
        super().__init__()
        self.services = services_for("http://upstream.invalid", self.on_event, self.ledger, **sections)
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.body = b""
        self.ended = False
        self._readable: asyncio.Future[None] | None = None
        self.reply = Reply(self._send, None)
        self.voice = Voice(self.services, surface, self.reply, "req_1")
        self.place: LocalPlace

    async def _send(self, message: Any) -> None:
        if self._readable is not None:
            await self._readable
        if message["type"] == "http.response.start":
            assert self.status is None
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            assert len(self.headers) == len(message["headers"]), "a header twice"
        else:
            assert not self.ended
            self.body += message["body"]
            self.ended = not message["more_body"]

    def block(self) -> None:
        """It stops reading."""
        self._readable = this_loop().create_future()

    def unblock(self) -> None:
        assert self._readable is not None
        self._readable.set_result(None)
        self._readable = None

    def enter(self, number: int = 0) -> LocalPlace:
        return self.services.admission.enter(UPSTREAM, Caller(id=f"req_{number}"))

    async def occupy(self, count: int = 1) -> list[LocalPlace]:
        """So many requests came before: the first has the slot."""
        places = [self.enter(number) for number in range(count)]
        for place in places:
            await place.__aenter__()
        return places

    async def come(self, *, streams: bool = True, wish: QueueEvents | None = None) -> "asyncio.Task[None]":
        """The request takes its place, and its wait is told from now on."""
        self.voice.destination = Destination(self.services, UPSTREAM)
        self.place = self.enter(99)
        await self.place.__aenter__()
        self.voice.take_place(self.place, model="m", streams=streams, wish=wish)
        telling = asyncio.ensure_future(self.voice.tell_wait(self.place))
        await settle()
        return telling

    def close(self) -> None:
        self.voice.hush()
        self.services.admission.stop()
        assert this_loop().timers == []


def on_stage(main: Callable[[], Any]) -> Callable[[], None]:
    """The test runs in a virtual loop."""

    def test() -> None:
        play(main())

    test.__name__ = main.__name__
    return test


def queue(position: int, depth: int, waited_ms: int = 0) -> bytes:
    told = {"type": "ping", "position": position, "depth": depth, "waited_ms": waited_ms}
    return b"event: queue\ndata: " + json.dumps(told, separators=(",", ":")).encode() + b"\n\n"
