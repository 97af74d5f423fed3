"""The same transport on stock httpx, for what the own one does not speak; also the oracle of its tests.

One AsyncHTTPTransport per request over one SSL context: a shared one loses pool places and sockets when requests are
cancelled (httpx 0.28.1). Each request is one task of ours; whoever opened it only waits on futures, so httpx never sees
a cancellation but ours, and sees it once.
No piece is known to be the last one when it is fed (`ended` is false then): httpx tells the end only when it is asked
for more.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Mapping

import httpx

from llmgate.core.lateness import REREAD_SECONDS
from llmgate.core.work import Look
from llmgate.errors import GateError, UpstreamDown, UpstreamFailed
from llmgate.upstreams.answer import Answer, Collector, Done, Headers, OnDone, Sink, Timeouts
from llmgate.upstreams.deadlines import Deadlines, timeout_error
from llmgate.upstreams.pulse import Pulse
from llmgate.upstreams.request import Origin, request_head

CLOSE_SECONDS = 2.0
"""How long the closing of one connection may take (TLS goodbye)."""

_DOWN = (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol)


class StockTransport:
    """Speaks to the origin of `url`; every request has its own connection."""

    def __init__(self, url: str, *, ssl_context: ssl.SSLContext | None = None) -> None:
        self._url = httpx.URL(url)
        self._origin = Origin.of(self._url)
        self._ssl_context = ssl_context or ssl.create_default_context()
        self._tasks: dict[asyncio.Task[None], StockAnswer] = {}
        self._closed = False

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
        answer = StockAnswer(timeouts, on_done)
        try:
            # for its checks: h11 lets some of it through
            request_head(method, target, headers, self._origin.authority, len(body))
            self._begin(answer, self._request(method, target, headers, body))
            await answer.wait_head()
        except GateError as error:
            answer.give_up(error)
            raise
        except BaseException:
            answer.give_up()
            raise
        return answer

    @property
    def in_use(self) -> int:
        """See `llmgate.upstreams.answer.Transport.in_use`."""
        return len(self._tasks)

    def retire(self) -> None:
        """See `llmgate.upstreams.answer.Transport.retire`: none is kept anyway."""

    async def aclose(self) -> None:
        """Comes back when every connection is closed; running exchanges are cut."""
        self._closed = True
        tasks = list(self._tasks)
        for answer in list(self._tasks.values()):
            answer.cut(UpstreamFailed("llmgate: the connection to the upstream was closed by us (UPSTREAM_ERROR)"))
        if tasks:
            await asyncio.wait(tasks)

    def _begin(self, answer: "StockAnswer", request: httpx.Request) -> None:
        if self._closed:
            raise UpstreamDown("llmgate: the connections to the upstream are closed (UPSTREAM_DOWN)")
        task = asyncio.get_running_loop().create_task(answer.run(request, self._ssl_context))
        answer.task = task
        self._tasks[task] = answer
        task.add_done_callback(self._tasks.pop)
        task.add_done_callback(answer.on_task_over)

    def _request(self, method: bytes, target: bytes, headers: Headers, body: bytes) -> httpx.Request:
        try:
            url = self._url.copy_with(raw_path=target, username="", password="")
        except httpx.InvalidURL as error:
            raise ValueError("the target of a request is not the path of a URL") from error
        return httpx.Request(
            method.decode("ascii"),
            url,
            headers=list(headers),
            content=body or None,
        )


class StockAnswer:
    """See `llmgate.upstreams.answer.Answer`."""

    def __init__(self, timeouts: Timeouts, on_done: OnDone) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.task: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._deadlines = Deadlines(timeouts, self._loop.time())
        self._pulse = timeouts.pulse
        self._timer: asyncio.TimerHandle | None = None
        self._on_done: OnDone | None = on_done
        self._sent = self._complete = self._ending = self._over = self._closed = False
        self._error: GateError | None = None
        self._head = asyncio.Event()
        self._taken = asyncio.Event()
        """Somebody wants the body, or wants no more of it."""
        self._flowing = asyncio.Event()
        self._sink: Sink | None = None

    # for the transport

    async def wait_head(self) -> None:
        await self._head.wait()
        if self.status == 0:
            raise self._error or UpstreamDown("llmgate: the request was given up (UPSTREAM_DOWN)")

    def give_up(self, error: GateError | None = None) -> None:
        if self.task is None:
            self._report(Done.UNSENT, error)
        else:
            self.close()

    def cut(self, error: GateError | None) -> None:
        """Cancels the exchange, once; `on_done` follows when its connection is closed."""
        if not self._complete and not self._ending and self.task is not None:
            self._ending = True
            self._error = error
            self.task.cancel()

    async def run(self, request: httpx.Request, context: ssl.SSLContext) -> None:
        """The whole exchange, to the end of the body."""
        request.extensions["trace"] = self._trace
        transport = httpx.AsyncHTTPTransport(verify=context, trust_env=False)
        done = Done.CUT
        try:
            self._arm()
            done = await self._exchange(transport, request)
        except asyncio.CancelledError:
            if not self._ending:
                self._error = UpstreamFailed("llmgate: the exchange with the upstream was ended (UPSTREAM_ERROR)")
        finally:
            self._ending = True  # from here on nothing cancels it
            self._stop_timer()
            if self._complete:
                self._finish(Done.ENDED)
            with contextlib.suppress(Exception):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await transport.aclose()
            self._finish(done if self._sent else Done.UNSENT)

    def on_task_over(self, _task: asyncio.Task[None]) -> None:
        """A task that is cancelled before its first step never runs at all."""
        self._finish(Done.UNSENT)

    # for the reader

    @property
    def ended(self) -> bool:
        return self._over and self._complete

    def start(self, sink: Sink) -> None:
        if self._closed:
            return
        self._sink = sink
        self._taken.set()
        if self._over:
            self._loop.call_soon(self._push_end)
        else:
            self.resume()

    def pause(self) -> None:
        self._flowing.clear()
        self._deadlines.pause(self._loop.time())

    def resume(self) -> None:
        if self._sink is not None:
            self._flowing.set()
            self._deadlines.resume(self._loop.time())
            self._arm()

    def close(self, error: GateError | None = None) -> None:
        self._closed = True
        self._sink = None
        self._taken.set()
        self.cut(error)

    async def read(self, limit: int) -> bytes:
        return await Collector(self, limit).wait_body()

    # own

    async def _exchange(self, transport: httpx.AsyncHTTPTransport, request: httpx.Request) -> Done:
        try:
            response = await transport.handle_async_request(request)
            await self._relay(response)
        except _DOWN as error:
            self._error = UpstreamDown("llmgate: no connection to the upstream (UPSTREAM_DOWN)")
            self._error.__cause__ = error
            self._sent = False
            return Done.UNSENT
        except Exception as error:
            self._error = UpstreamFailed("llmgate: the upstream broke off or answered badly (UPSTREAM_ERROR)")
            self._error.__cause__ = error
            return Done.LOST
        return Done.ENDED

    async def _relay(self, response: httpx.Response) -> None:
        self.headers = [(name.lower(), value) for name, value in response.headers.raw]
        self.status = response.status_code
        self._head.set()
        stream = response.stream
        assert isinstance(stream, httpx.AsyncByteStream)  # noqa: S101 - for mypy: httpx's own declared union
        async for piece in stream:
            if self._deadlines.received(self._loop.time()):
                self._arm()
            if not self._flowing.is_set():
                self._deadlines.pause(self._loop.time())
                await self._flowing.wait()
            if self._sink is not None and piece:
                self._sink.feed(piece)
        await stream.aclose()
        self._complete = True
        self._stop_timer()
        await self._taken.wait()

    async def _trace(self, event: str, _info: Mapping[str, object]) -> None:
        if event.endswith("send_request_headers.started"):
            self._sent = True
            self._deadlines.connected()
            self._arm()
            if self._pulse is not None:
                self._pulse.join(self._deadlines)

    def _finish(self, done: Done) -> None:
        if self._over:
            return
        self._over = True
        if self._pulse is not None:
            self._pulse.leave(self._deadlines)
        self._report(done, None if done is Done.ENDED else self._error)
        self._head.set()
        if self._sink is not None:
            self._loop.call_soon(self._push_end)

    def _push_end(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.end(self._error)

    def _report(self, done: Done, error: GateError | None) -> None:
        on_done, self._on_done = self._on_done, None
        if on_done is not None:
            on_done(done, error)

    def _arm(self) -> None:
        self._stop_timer()
        deadline = self._deadlines.next_deadline()
        if deadline is not None and not self._complete and not self._ending:
            self._timer = self._loop.call_at(deadline, self._handle_timer)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _handle_timer(self) -> None:
        self._timer = None
        if self._pulse is not None and self._deadlines.wants_look(self._loop.time()):
            self._look(self._pulse)
        else:
            self._judge()

    def _judge(self) -> None:
        now = self._loop.time()
        clock = self._deadlines.expired(now)
        if clock is None:
            self._arm()
        elif self._deadlines.wants_reread(now):
            self._stop_timer()
            self._timer = self._loop.call_at(now + REREAD_SECONDS, self._handle_timer)
        else:
            self.cut(timeout_error(clock))

    def _look(self, pulse: Pulse) -> None:
        def told(look: Look | None) -> None:
            if not (self._complete or self._ending):
                heard = pulse.heard(self._deadlines.look_at, self._deadlines)
                self._deadlines.end_look(look, heard, self._loop.time())
                self._judge()

        if not pulse.tells:
            told(None)
            return
        self._deadlines.begin_look(self._loop.time())
        pulse.ask(told)
        self._arm()
