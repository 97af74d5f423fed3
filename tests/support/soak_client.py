"""A client of the soak: asks on any surface, reads to the end, or stalls, or leaves in some way at some moment."""

import asyncio
import contextlib
import itertools
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

import rawclient
from rawclient import Client, CutOff
from soak_story import Told

PATIENCE_SECONDS = 120.0
"""A client that gets nothing for so long has seen no end."""

ENDS = {
    "/v1/messages": b"event: message_stop\n",
    "/v1/chat/completions": b"data: [DONE]\n",
    "/v1/completions": b"data: [DONE]\n",
    "/v1/responses": b"event: response.completed\n",
    "/api/chat": b'"done":true',
    "/api/generate": b'"done":true',
}
"""What a whole stream has near its end, on each surface."""
_CODE = re.compile(rb"\(([A-Z]+_[A-Z]+)\)")
_ERROR = re.compile(rb'^event: error$|^event: response.failed$|^data: \{"error"|^\{"error"', re.MULTILINE)


@dataclass(frozen=True)
class Visit:
    """One request and what its client does."""

    told: Told
    path: str
    stream: bool
    body: bytes
    max_wait: str = ""
    leaves_after: float | None = None
    stalls: float = 0.0


class Visitors:
    """Draws requests; `told` grows by one for each that was sent."""

    def __init__(self, seed: int, surfaces: dict[str, tuple[str, ...]]) -> None:
        """`surfaces`: by upstream (which is its model's name, too) the paths that it is asked on."""
        self.told: list[Told] = []
        self._dice = random.Random(seed)
        self._surfaces = surfaces
        self._numbers = itertools.count()
        rawclient.LIVENESS_SECONDS = PATIENCE_SECONDS

    async def come_and_go(self, port: int, stopped: asyncio.Event) -> None:
        """One client after the other until told to stop."""
        client: Client | None = None
        while not stopped.is_set():
            visit = self._draw()
            try:
                client = await self._visit(port, visit, client)
            except OSError as error:
                visit.told.end = f"no connection: {error}"
                client = None
            await asyncio.sleep(self._dice.random() * 0.2)
        if client is not None:
            self._forget(client)

    def _draw(self) -> Visit:
        dice = self._dice
        upstream = dice.choice(list(self._surfaces))
        path, stream = dice.choice(self._surfaces[upstream]), dice.random() < 0.7
        manner = dice.choices(["reads", "leaves", "stalls", "hurries"], [60, 25, 5, 10])[0]
        told = Told(f"soak-{next(self._numbers)}", upstream, f"{path} {'stream' if stream else 'whole'}, {manner}")
        self.told.append(told)
        return Visit(
            told,
            path,
            stream,
            self._body(upstream, stream=stream),
            max_wait=dice.choice(["0", "50ms", "1s"]) if manner == "hurries" else "",
            leaves_after=dice.choice([0.0, 0.001, 0.01, 0.1, 0.5, 2.0]) * dice.random() if manner == "leaves" else None,
            stalls=dice.random() * 2 if manner == "stalls" else 0.0,
        )

    def _body(self, model: str, *, stream: bool) -> bytes:
        padding = "x" * (self._dice.randrange(200_000) if self._dice.random() < 0.05 else 10)
        messages = [{"role": "user", "content": f"Count. {padding[:400]}"}]
        fields = {"model": model, "max_tokens": 12, "stream": stream, "messages": messages, "user": padding}
        return json.dumps(fields | {"prompt": "Count.", "input": "Count."}).encode()

    async def _visit(self, port: int, visit: Visit, kept: Client | None) -> Client | None:
        """The connection, where it may be used again."""
        client = kept or await Client.connect(port)
        client.next_answer()
        headers = {"llmgate-session": visit.told.tag}
        client.post(visit.path, visit.body, headers | ({"llmgate-max-wait": visit.max_wait} if visit.max_wait else {}))
        try:
            async with asyncio.timeout(visit.leaves_after):
                await self._read(client, visit)
        except TimeoutError:
            if visit.leaves_after is not None:
                visit.told.end = "left"
                self._dice.choice([Client.fin, Client.reset, Client.half_close])(client)
        except (CutOff, ConnectionError):
            visit.told.end = "cut"
        if visit.told.end == "whole" and visit.leaves_after is None and self._dice.random() < 0.5:
            return client
        await self._part(client, visit)
        return None

    async def _part(self, client: Client, visit: Visit) -> None:
        if visit.told.end == "left":  # one that only closed its writing side must be closed by the other side
            with contextlib.suppress(ConnectionError):
                await client.wait_closed()
        self._forget(client)

    @staticmethod
    def _forget(client: Client) -> None:
        client.fin()
        Client.opened.remove(client)

    async def _read(self, client: Client, visit: Visit) -> None:
        head = await client.head()
        visit.told.request_id = head.headers.get("llmgate-request-id", "")
        await asyncio.sleep(visit.stalls)
        body = await client.body()
        if head.status != 200:
            visit.told.end = head.headers.get("llmgate-code") or str(head.status)
        elif not visit.stream:
            visit.told.end = "whole" if json.loads(body) else "an empty answer"
        else:
            visit.told.end = next(end_of(visit.path, body), "a stream without an end")


def end_of(path: str, body: bytes) -> Iterator[str]:
    """How a stream that ended regularly told its end; more than one item would be one too many."""
    if found := _ERROR.search(body):
        code = _CODE.search(body, found.start())
        yield code[1].decode() if code else "error"
    if ENDS[path] in body[-4000:]:
        yield "whole"
