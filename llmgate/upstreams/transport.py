"""The HTTP/1.1 client of one upstream: connects, keeps connections for reuse, never queues and has no limit.

Invariants:
- `open` awaits twice, the connection and the head; whatever ends it there, nothing is awaited on the way out, so a
  second cancellation finds nothing to break.
- A request is written at most once. A kept connection is looked at before its first byte (`Link.is_usable`); after that
  byte its death is the request's failure.
- Idle links stand in the order in which they became idle: the newest is taken, the oldest are swept by one timer.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator

import httpx

from llmgate.errors import GateError, UpstreamDown, UpstreamFailed, UpstreamTimeout
from llmgate.upstreams.answer import Answer, Done, Headers, OnDone, Timeouts
from llmgate.upstreams.deadlines import Clock, Deadlines, timeout_error
from llmgate.upstreams.link import Link
from llmgate.upstreams.pulled import PulledBody
from llmgate.upstreams.request import Origin, request_head
from llmgate.upstreams.wire import WireAnswer

TLS_GOODBYE_SECONDS = 1.0
"""How long a closed TLS connection may wait for the server's own goodbye."""

_NO_CONNECTION = "llmgate: no connection to the upstream (UPSTREAM_DOWN)"
_CLOSED = "llmgate: the connections to the upstream are closed (UPSTREAM_DOWN)"


class WireTransport(httpx.AsyncBaseTransport):
    """Speaks to the origin of `url` (http or https). `open` is the way in; httpx's interface is there for the rest."""

    def __init__(
        self,
        url: str,
        *,
        ssl_context: ssl.SSLContext | None = None,
        idle_limit_seconds: float = 3.0,
        rest_seconds: float = 0.05,
    ) -> None:
        """`idle_limit_seconds` must be less than the server's own keep-alive limit (5 s: cpp-httplib, uvicorn).

        `rest_seconds`: how long a connection is left alone after a streamed answer, see `on_idle`.
        """
        self._origin = Origin.of(url)
        self._ssl_context = (ssl_context or _default_ssl_context()) if self._origin.secure else None
        self._idle_limit = idle_limit_seconds
        self._rest_seconds = rest_seconds
        self._keeps_after_stream = False
        """Whether the last connection that was looked at some time after a streamed answer was still open."""
        self._idle: dict[Link, None] = {}
        self._links: set[Link] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._retired = False
        """No connection is kept any more."""
        self._resting: set[Link] = set()
        self._dialling = 0
        self._emptied: asyncio.Event | None = None

    async def open(
        self,
        method: bytes,
        target: bytes,
        headers: Headers,
        body: bytes,
        timeouts: Timeouts,
        on_done: OnDone,
    ) -> Answer:
        """See `llmgate.upstreams.answer.Transport.open`."""
        answer = WireAnswer(timeouts, on_done)
        reused = None
        try:
            head = request_head(method, target, headers, self._origin.authority, len(body))
            reused = self._take_idle()
            link = reused or await self._connect(answer)
            link.begin(answer, head, body, head_only=method == b"HEAD")
            await answer.wait_head()
        except GateError as error:
            if reused is not None:
                self._keeps_after_stream = False
            answer.give_up(error)
            raise
        except BaseException:
            answer.give_up()
            raise
        return answer

    async def aclose(self) -> None:
        """Comes back when every connection is closed. One that is still being made fails when it is there.

        A later `open` raises UpstreamDown.
        """
        if self._emptied is None:
            self._emptied = asyncio.Event()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        self._idle.clear()
        if not self._links:
            self._emptied.set()
        for link in list(self._links):
            link.cut(UpstreamFailed("llmgate: the connection to the upstream was closed by us (UPSTREAM_ERROR)"))
        await self._emptied.wait()

    def retire(self) -> None:
        """Other settings take its place: what runs here goes on, and each connection is closed after it."""
        self._retired = True
        for link in list(self._idle):
            link.close_idle()
        self._idle.clear()

    @property
    def in_use(self) -> int:
        """Connections with a request on them, and those that are being made for one."""
        return len(self._links) - len(self._idle) - len(self._resting) + self._dialling

    # for the links

    def on_made(self, link: Link) -> bool:
        self._links.add(link)
        return self._emptied is None

    def on_idle(self, link: Link, *, streamed: bool) -> None:
        """llmgate's own measurement: llama-server closes the connection right after each streamed answer, though its
        head offers to keep it. A request that is written meanwhile is lost. So after a stream a link rests until that
        is clear, unless this server was seen to keep one.
        """
        if streamed and self._rest_seconds and not self._keeps_after_stream:
            self._resting.add(link)
            asyncio.get_running_loop().call_later(self._rest_seconds, self._rested, link)
        else:
            self._keep(link)

    def _rested(self, link: Link) -> None:
        self._resting.discard(link)
        if self._emptied is not None:
            return
        self._keeps_after_stream = link.is_usable()
        if self._keeps_after_stream:
            self._keep(link)
        else:
            link.give_up()

    def _keep(self, link: Link) -> None:
        if self._retired:
            link.give_up()
            return
        loop = asyncio.get_running_loop()
        link.idle_since = loop.time()
        self._idle[link] = None
        if self._sweeper is None:
            self._sweeper = loop.call_at(link.idle_since + self._idle_limit, self._sweep)

    def on_lost(self, link: Link) -> None:
        if link in self._idle:
            del self._idle[link]
            if asyncio.get_running_loop().time() - link.idle_since < self._rest_seconds:
                self._keeps_after_stream = False
        self._links.discard(link)
        self._resting.discard(link)
        if self._emptied is not None and not self._links:
            self._emptied.set()

    # own

    def _take_idle(self) -> Link | None:
        if not self._idle:
            return None
        oldest = asyncio.get_running_loop().time() - self._idle_limit
        while self._idle:
            link, _ = self._idle.popitem()
            if link.idle_since > oldest and link.is_usable():
                return link
            link.give_up()
        return None

    def _sweep(self) -> None:
        """Close what was idle too long, and come back for the next oldest."""
        loop = asyncio.get_running_loop()
        self._sweeper = None
        stale = []
        for link in self._idle:
            due = link.idle_since + self._idle_limit
            if due > loop.time():
                self._sweeper = loop.call_at(due, self._sweep)
                break
            stale.append(link)
        for link in stale:
            del self._idle[link]
            link.close_idle()

    async def _connect(self, answer: WireAnswer) -> Link:
        if self._emptied is not None:
            raise UpstreamDown(_CLOSED)
        link = Link(self)
        deadlines = answer.deadlines
        self._dialling += 1
        try:
            async with asyncio.timeout_at(deadlines.next_deadline() if deadlines else None) as limit:
                await self._dial(link)
        except (OSError, UnicodeError) as error:
            self._abandon(link)
            if limit.expired():
                raise _connect_timeout(deadlines) from error
            raise UpstreamDown(_NO_CONNECTION) from error
        except BaseException:
            self._abandon(link)
            raise
        finally:
            self._dialling -= 1
        if not link.is_open:
            raise UpstreamDown(_NO_CONNECTION)  # accepted and closed at once: nothing was written yet
        return link

    def _abandon(self, link: Link) -> None:
        """Nobody waits for this connection any more. uvloop may have closed it without a word to the link."""
        link.give_up()
        self.on_lost(link)

    async def _dial(self, link: Link) -> None:
        loop, origin = asyncio.get_running_loop(), self._origin
        if self._ssl_context is None:
            await loop.create_connection(lambda: link, origin.host, origin.port)
        else:
            await loop.create_connection(
                lambda: link,
                origin.host,
                origin.port,
                ssl=self._ssl_context,
                server_hostname=origin.host,
                ssl_shutdown_timeout=TLS_GOODBYE_SECONDS,
            )

    # httpx

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """For `httpx.AsyncClient(transport=...)`: `read` of its timeouts bounds the wait for the body, and its gaps."""
        limits = request.extensions.get("timeout", {})
        timeouts = Timeouts(connect=limits.get("connect"), first_byte=limits.get("read"), idle=limits.get("read"))
        headers = [(name, value) for name, value in request.headers.raw if name.lower() != b"transfer-encoding"]
        with _as_httpx_errors(request):
            answer = await self.open(
                request.method.encode("ascii"),
                request.url.raw_path,
                headers,
                await request.aread(),
                timeouts,
                _ignore,
            )
        return httpx.Response(
            answer.status, headers=answer.headers, stream=_ResponseStream(PulledBody(answer), request), request=request
        )


class _ResponseStream(httpx.AsyncByteStream):
    def __init__(self, body: PulledBody, request: httpx.Request) -> None:
        self._body = body
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx_errors(self._request):
            async for piece in self._body:
                yield piece

    async def aclose(self) -> None:
        self._body.close()


@contextlib.contextmanager
def _as_httpx_errors(request: httpx.Request) -> Iterator[None]:
    try:
        yield
    except UpstreamDown as error:
        late = isinstance(error.__cause__, TimeoutError)
        raise (httpx.ConnectTimeout if late else httpx.ConnectError)(str(error), request=request) from error
    except UpstreamTimeout as error:
        raise httpx.ReadTimeout(str(error), request=request) from error
    except GateError as error:
        raise httpx.RemoteProtocolError(str(error), request=request) from error
    except ValueError as error:
        raise httpx.LocalProtocolError(str(error), request=request) from error


def _connect_timeout(deadlines: Deadlines | None) -> GateError:
    clock = deadlines.expired(asyncio.get_running_loop().time()) if deadlines is not None else None
    return timeout_error(clock or Clock.CONNECT)


def _ignore(done: Done, error: GateError | None) -> None:
    """httpx has no use for it."""


def _default_ssl_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
