"""The daemon's feed as an iterator of items."""

import asyncio
import json
import os
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Self

from llmgate.adminapi import SCHEMA, FeedItem
from llmgate.adminclient.complaint import check_answer, closed, decode, explain, garbage
from llmgate.adminclient.wire import ANSWER_SECONDS, ORIGIN, no_tls
from llmgate.errors import AdminError

if TYPE_CHECKING:
    from types import TracebackType

    import httpx

SILENCE_SECONDS = 15.0
"""The feed says something once a second: after so long the connection is dead, or the daemon, and another one is tried.
That nothing is heard is for the viewer to say, and long before."""
MAX_LINE = 64 * 1024 * 1024


class Watch:
    """One connection to the feed: an iterator of FeedItem that connects at the first item asked for.

    It never ends by itself: the end of the connection, 15 s of silence and garbage raise AdminError.
    An object and not a generator, so that leaving the `async with` closes the socket there and then.
    """

    def __init__(
        self,
        socket: Path,
        command: str,
        last_event_id: str,
        events: int | None = None,
        settings: Path | None = None,
    ) -> None:
        self._socket = socket
        self._query = {} if events is None else {"events": str(events)}
        self._command = command
        self._settings = settings
        self._after = last_event_id
        self._parser = FeedParser(socket)
        self._items: deque[FeedItem] = deque()
        self._client: httpx.AsyncClient | None = None
        self._chunks: AsyncIterator[bytes] | None = None

    @property
    def last_event_id(self) -> str:
        """With which another one can go on after the newest item that came; "" before any came."""
        return self._parser.last_id or self._after

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: "TracebackType | None"
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> FeedItem:
        try:
            while not self._items:
                self._items.extend(self._parser.feed(await self._chunk()))
        except BaseException:
            await self.aclose()
            raise
        return self._items.popleft()

    async def aclose(self) -> None:
        client, self._client, self._chunks = self._client, None, None
        if client is not None:
            await client.aclose()

    async def _chunk(self) -> bytes:
        import httpx

        try:
            if self._chunks is None:
                self._chunks = await self._connect()
            return await anext(self._chunks)
        except StopAsyncIteration:
            raise closed(self._socket) from None
        except (httpx.HTTPError, OSError) as error:
            raise explain(error, self._socket, self._command, self._settings) from error

    async def _connect(self) -> AsyncIterator[bytes]:
        import httpx

        transport = httpx.AsyncHTTPTransport(uds=os.fspath(self._socket), verify=no_tls())
        timeout = httpx.Timeout(ANSWER_SECONDS, read=SILENCE_SECONDS)
        self._client = client = httpx.AsyncClient(transport=transport, trust_env=False, timeout=timeout)
        headers = {"accept": "text/event-stream"}
        if self._after:
            headers["last-event-id"] = self._after
        request = client.build_request("GET", f"{ORIGIN}/v1/events", params=self._query, headers=headers)
        async with asyncio.timeout(ANSWER_SECONDS):
            answer = await client.send(request, stream=True)
        if answer.status_code != 200:
            check_answer(answer.status_code, await answer.aread(), self._socket, "GET /v1/events")
        return answer.aiter_raw()


class FeedParser:
    """The server-sent events of the feed, taken apart: `feed(bytes)` gives the items that are now complete."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._rest = bytearray()
        self._data: list[bytes] = []
        self.last_id = ""
        """The `id` of the newest event."""

    def feed(self, chunk: bytes) -> list[FeedItem]:
        start = len(self._rest)
        self._rest += chunk
        end = self._rest.rfind(b"\n", start)
        if end < 0:
            if len(self._rest) > MAX_LINE:
                raise garbage(self._socket)
            return []
        lines = bytes(self._rest[:end]).split(b"\n")
        del self._rest[: end + 1]
        return [item for line in lines if (item := self._line(line.removesuffix(b"\r"))) is not None]

    def _line(self, line: bytes) -> FeedItem | None:
        if line.startswith(b"data:"):
            self._data.append(line[5:])
        elif line.startswith(b"id:"):
            self.last_id = line[3:].strip().decode("latin-1")
        elif not line and self._data:
            data, self._data = b"\n".join(self._data), []
            return self._item(data)
        elif line and not line.startswith((b":", b"event:", b"retry:")):
            raise garbage(self._socket)
        return None

    def _item(self, data: bytes) -> FeedItem | None:
        try:
            return decode(data, FeedItem, self._socket)
        except AdminError:
            if _is_unknown_item(data):
                return None
            raise


def _is_unknown_item(data: bytes) -> bool:
    """Whether a newer daemon sent a kind of item that we have never heard of, in whatever shape."""
    try:
        plain = json.loads(data)
        return bool(plain["schema"] > SCHEMA) and plain["type"] not in ("snapshot", "event", "progress")
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
