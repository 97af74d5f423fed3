"""Keeps what a transport tells about one exchange, in the order in which it was told."""

import asyncio

from puppet import LIVENESS_SECONDS

from llmgate.errors import GateError
from llmgate.upstreams.answer import Answer, Done, Headers, Timeouts, Transport

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class Recorder:
    """A sink and an on_done in one; `story` has "done:ended", each piece of the body, "end" or "error:CODE"."""

    def __init__(self) -> None:
        self.story: list[str | bytes] = []
        self.dones: list[Done] = []
        self.error: GateError | None = None
        self.done = asyncio.Event()
        self.ended = asyncio.Event()

    def on_done(self, done: Done, error: GateError | None) -> None:
        self.story.append(f"done:{done.value}")
        self.dones.append(done)
        self.done.set()

    def feed(self, data: bytes) -> None:
        assert data
        assert not self.ended.is_set()
        self.story.append(data)

    def end(self, error: GateError | None) -> None:
        assert not self.ended.is_set()
        self.error = error
        self.story.append("end" if error is None else f"error:{error.code}")
        self.ended.set()

    @property
    def body(self) -> bytes:
        return b"".join(entry for entry in self.story if isinstance(entry, bytes))

    @property
    def told(self) -> list[str]:
        """The story without the body."""
        return [entry for entry in self.story if isinstance(entry, str)]

    async def wait_ended(self) -> None:
        async with asyncio.timeout(LIVENESS_SECONDS):
            await self.ended.wait()

    async def wait_done(self) -> None:
        async with asyncio.timeout(LIVENESS_SECONDS):
            await self.done.wait()


async def ask(
    transport: Transport,
    recorder: Recorder,
    *,
    target: bytes = b"/v1/messages",
    body: bytes = b"{}",
    method: bytes = b"POST",
    headers: Headers = (),
    timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
) -> Answer:
    """One request within the liveness bound."""
    async with asyncio.timeout(LIVENESS_SECONDS):
        return await transport.open(method, target, headers, body, timeouts, recorder.on_done)


async def fetch(transport: Transport, recorder: Recorder, **options: object) -> bytes:
    """One request and its whole body."""
    answer = await ask(transport, recorder, **options)  # type: ignore[arg-type]
    async with asyncio.timeout(LIVENESS_SECONDS):
        return await answer.read(1 << 30)
