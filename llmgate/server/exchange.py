"""One request's way, from its headers to its outcome: read it from `run` downwards.

The slot is given back by `_upstream_done`, which the transport calls exactly once for every call it was asked for: at
the upstream's end of message, so that the next request is dispatched before the last bytes go out here; or when the
socket is closed. Nothing else gives back a slot that was handed over.
A client that leaves cancels this task, from `_client_gone`, in whatever state it is; so does `stop`, at shutdown.
"""

import asyncio
import logging
from datetime import UTC, datetime

from starlette.types import Receive, Scope, Send

from llmgate.admission.base import Place
from llmgate.config.settings import UpstreamSettings
from llmgate.core.caller import Caller
from llmgate.core.line import Position
from llmgate.core.routing import Route
from llmgate.errors import BodyTimeout, BodyTooLarge, ClientStalled, GateError, Outcome, QueueError, UpstreamFailed
from llmgate.protocols.surface import ModelRequest, Opening, Surface
from llmgate.server import identity
from llmgate.server.asgi import (
    CONNECTION,
    JSON,
    ClientLeft,
    Connection,
    Header,
    Headers,
    headers_of,
    new_request_id,
    peer_of,
    read_body,
)
from llmgate.server.heartbeat import Heartbeat
from llmgate.server.listener import Listener
from llmgate.server.outcome import outcome_of
from llmgate.server.relay import Relay
from llmgate.server.reply import Reply, nothing
from llmgate.server.services import Services
from llmgate.server.whole import Whole
from llmgate.server.wishes import Wishes, manner_of, read_wishes
from llmgate.upstreams.answer import Answer, Done
from llmgate.upstreams.upstream import returned_headers

logger = logging.getLogger("llmgate")

LARGEST_ANSWER = 64 * 1024 * 1024
"""Bytes of an answer that does not stream; it is held whole, so that a client never gets half of it."""
LARGEST_ERROR = 1024 * 1024

GRACE_SECONDS = 0.25
"""How long the upstream may take to end a message after the end of the stream in it, when nobody listens any more."""

STREAM_HEADERS: tuple[Header, ...] = ((b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))
"""X-Accel-Buffering: nginx would hold frames back otherwise."""

_INTERNAL = "llmgate: an internal error, see the log of llmgate (INTERNAL)"


class Exchange:
    """One request on one surface."""

    __slots__ = (
        "_answer_status",
        "_arrival",
        "_connection",
        "_grace",
        "_headers",
        "_heartbeat",
        "_id",
        "_opening",
        "_outcome",
        "_path",
        "_place",
        "_query",
        "_receive",
        "_relay",
        "_release_timeout",
        "_reply",
        "_scope",
        "_services",
        "_stopped_by",
        "_surface",
        "_task",
        "_told",
        "_upstream_name",
        "_whole",
        "_wishes",
    )

    def __init__(
        self, services: Services, surface: Surface, path: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """`path` is the surface's own, without our prefix."""
        self._services = services
        self._surface = surface
        self._path = path
        self._query: bytes = scope["query_string"]
        self._scope = scope
        self._receive = receive
        self._headers: Headers = headers_of(scope)
        self._connection: Connection | None = scope.get("extensions", {}).get(CONNECTION)
        self._reply = Reply(send, services.settings.server.client_stall_timeout, self._connection)
        self._id = new_request_id()
        self._wishes = Wishes()
        self._opening: Opening | None = None
        """Of a stream that is told of its wait; None: nothing of ours is sent before the answer."""
        self._upstream_name = ""
        self._arrival: list[Header] = []
        """Position and depth when it came, where it had to wait."""
        self._told: int | None = None
        """The position that was told last."""
        self._release_timeout = 0.0
        self._place: Place | None = None
        self._relay: Relay | None = None
        self._whole: Whole | None = None
        self._answer_status = 0
        self._heartbeat: Heartbeat | None = None
        self._grace: asyncio.TimerHandle | None = None
        """The upstream may still end the message of a client that left with all of it."""
        self._outcome: Outcome | None = None
        """Why we cut it, once we do."""
        self._stopped_by: GateError | None = None
        self._task: asyncio.Task[None] | None = None

    # ---- the way

    async def run(self) -> None:
        """The whole of it. Raises nothing but foreign cancellation."""
        try:
            request = await self._read()
            route = self._services.routes.find(request.model)
        except ClientLeft:
            return
        except GateError as error:
            self._fail(error)
            await self._reply.wait_sent()
            return
        self._task = asyncio.current_task()
        self._services.running.add(self)
        try:
            with Listener(self._receive, self._client_gone):
                await self._serve(request, route)
        finally:
            self._services.running.discard(self)
            self._stop_heartbeat()
            if self._grace is not None:
                self._grace.cancel()

    async def _serve(self, request: ModelRequest, route: Route) -> None:
        """Waits, runs, answers; every way it may end leads through here."""
        try:
            try:
                await self._wait_and_run(request, route)
            except GateError as error:
                self._fail(error)
            except Exception:
                logger.exception("request %s failed inside llmgate", self._id)
                self._fail(GateError(_INTERNAL))
            await self._reply.wait_sent()
        except asyncio.CancelledError:
            if self._stopped_by is None or self._task is None:
                self._outcome = self._outcome or "refused"  # not by us: the server shuts down
                raise
            self._task.uncancel()
            self._fail(self._stopped_by)
            await self._reply.wait_sent()

    async def _wait_and_run(self, request: ModelRequest, route: Route) -> None:
        settings = self._services.settings.upstreams[route.upstream]
        self._upstream_name = route.upstream
        self._release_timeout = settings.release_timeout
        caller = self._caller(request)
        self._reply.on_stalled = self._client_stalled
        max_wait = self._max_wait(settings, stream=request.stream)
        async with self._services.admission.enter(route.upstream, caller, max_wait=max_wait) as place:
            self._place = place
            if request.stream:
                self._prepare_stream(request.model)
            position = place.position()
            if position is not None:
                self._arrival = [
                    (b"llmgate-position", b"%d" % position.position),
                    (b"llmgate-depth", b"%d" % position.depth),
                ]
                await self._wait(place)
            body = request.body if route.model == request.model else self._surface.with_model(request.body, route.model)
            await self._run(place, body, stream=request.stream)

    async def _wait(self, place: Place) -> None:
        """Until the slot is there."""
        try:
            await self._wait_and_tell(place)
        except asyncio.CancelledError:
            if self._stopped_by is not None and self._outcome != "client_gone":
                place.leave(self._stopped_by.outcome)  # its block would take it for a client that left
            raise

    async def _wait_and_tell(self, place: Place) -> None:
        """Meanwhile the client is told where it stands."""
        if self._opening is None:
            await place.wait_admitted()
            return
        self._reply.on_writable = lambda: self._tell(place.position())
        async for position in place.positions():
            if not self._reply.started:
                self._open_stream([])
            self._tell(position)
        self._reply.on_writable = nothing

    def _tell(self, position: Position | None) -> None:
        """A slow client is told the newest when it has caught up: its slot does not wait for that."""
        if position is None or position.position == self._told or self._reply.blocked or self._opening is None:
            return
        self._told = position.position
        self._reply.write(self._surface.queue_frame(position, self._opening))

    async def _run(self, place: Place, body: bytes, *, stream: bool) -> None:
        """The slot is there: asks the upstream and passes on what it says."""
        upstream = self._services.upstreams[self._upstream_name]
        target = self._path.encode("ascii") + (b"?" + self._query if self._query else b"")
        call = upstream.call(b"POST", target, self._headers, body, self._upstream_done, request_id=self._id)
        place.hand_over()
        async with call as answer:
            self._answer_status = answer.status
            try:
                await self._pass(answer, stream=stream)
            except GateError as error:
                self._outcome = self._outcome or error.outcome  # before the call is closed, which asks for it
                raise

    async def _pass(self, answer: Answer, *, stream: bool) -> None:
        _check_coding(answer)
        if answer.status < 300 and stream and self._surface.is_stream(_content_type(answer)):
            await self._pass_stream(answer)
            return
        self._stop_heartbeat()
        if answer.status >= 400:
            await self._pass_error(answer)
        elif answer.status >= 300:
            raise UpstreamFailed("llmgate: the upstream redirects, which is not followed (UPSTREAM_ERROR)")
        else:
            await self._pass_whole(answer)

    async def _pass_stream(self, answer: Answer) -> None:
        watch = self._surface.watch()
        watch.opened = self._reply.started
        if not self._reply.started:
            self._open_stream(returned_headers(answer))
        record = self._services.ledger.record(self._id)
        self._relay = relay = Relay(answer, self._reply, watch, record, self._stop_heartbeat)
        answer.start(relay)
        error = await relay.wait_over()
        if not self._reply.finished:
            raise error or UpstreamFailed(
                "llmgate: the upstream ended its stream before the answer was complete (UPSTREAM_ERROR)"
            )

    async def _pass_whole(self, answer: Answer) -> None:
        if self._reply.started:
            raise UpstreamFailed("llmgate: the upstream answered a streaming request without a stream (UPSTREAM_ERROR)")
        self._whole = whole = Whole(answer, LARGEST_ANSWER)
        answer.start(whole)
        body = await whole.wait_body()
        self._reply.answer(answer.status, [*returned_headers(answer), *self._own_headers()], body)

    async def _pass_error(self, answer: Answer) -> None:
        """The upstream's own error: with its status while there is none yet, as an error event on an open stream."""
        body = await answer.read(LARGEST_ERROR)
        if self._reply.started:
            self._reply.finish(self._surface.upstream_error_frame(answer.status, body, self._id))
            return
        status, body = self._surface.upstream_error_body(answer.status, body, self._id)
        headers = [(name, value) for name, value in returned_headers(answer) if name != b"content-type"]
        self._reply.answer(status, [JSON, *headers, *self._own_headers()], body)

    # ---- the slot

    def _upstream_done(self, done: Done, error: GateError | None) -> None:
        """The transport knows what became of the call: the slot is free, or drains."""
        if self._place is None:
            return
        outcome = outcome_of(
            done,
            status=self._answer_status,
            told_end=self._has_told_end(done),
            stream_failed=self._relay is not None and self._relay.watch.failed,
            cut=self._outcome,
            error=error,
        )
        if done is Done.CUT:
            self._place.drain(outcome, self._release_timeout)
        else:
            self._place.leave(outcome)

    def _has_told_end(self, done: Done) -> bool | None:
        if self._whole is not None:
            return self._whole.take_end() if done is Done.ENDED else False
        if self._relay is not None:
            return self._relay.take_end() if done is Done.ENDED else self._relay.is_told
        promised = self._reply.started and self._answer_status < 400
        return False if promised else None

    # ---- ends from outside

    def give_up(self) -> None:
        """Ends it without another word, for a client that does not take its error."""
        self._give_up_client()

    def stop(self, error: GateError) -> None:
        """Ends it wherever it is; its client gets `error`."""
        self._cut(error.outcome, error)

    def _client_gone(self) -> None:
        """The client left. Also called when its answer is complete: then nothing is left to do."""
        if self._reply.finished:
            return
        if self._relay is not None and self._relay.is_told:
            outcome: Outcome = "upstream_error" if self._relay.watch.failed else "completed"
            self._grace = asyncio.get_running_loop().call_later(GRACE_SECONDS, self._cut, outcome, _ClientGone())
        else:
            self._cut("client_gone", _ClientGone())

    def _client_stalled(self) -> None:
        if self._stopped_by is not None:
            self._give_up_client()
        self._cut("client_stalled", ClientStalled("llmgate: the client stopped reading (CLIENT_STALLED)"))

    def _cut(self, outcome: Outcome, error: GateError) -> None:
        if self._stopped_by is None and self._task is not None:
            self._stopped_by, self._outcome = error, outcome
            self._task.cancel()

    # ---- answers of our own

    def _fail(self, error: GateError) -> None:
        """As status and body before the stream is open, as an error event after it."""
        self._outcome = self._outcome or error.outcome
        self._stop_heartbeat()
        inside_event = self._relay is not None and self._relay.watch.inside_event
        if inside_event or isinstance(error, (_ClientGone, ClientStalled)):
            self._give_up_client()
        elif self._reply.finished:
            return
        elif self._relay is not None and self._relay.is_told:
            self._relay.finish()
        elif self._reply.started:
            client = identity.client_of(self._headers)
            self._reply.finish(self._surface.error_frame(error, self._id, client))
        else:
            headers = [JSON, *self._own_headers(), *self._error_headers(error)]
            self._reply.answer(error.status, headers, self._surface.error_body(error, self._id))

    def _give_up_client(self) -> None:
        """No more can be said on this connection: it is closed at once, so that nothing on it looks complete."""
        self._reply.stop()
        if self._connection is not None:
            self._connection.abort()

    def _error_headers(self, error: GateError) -> list[Header]:
        headers = [(b"llmgate-code", error.code.encode("ascii"))]
        if isinstance(error, (BodyTooLarge, BodyTimeout)):
            headers.append((b"connection", b"close"))  # the rest of its body is not read
        if isinstance(error, QueueError):
            headers += [(b"x-should-retry", b"false"), (b"retry-after", b"%d" % self._retry_after())]
            if not self._arrival:
                headers.append((b"llmgate-depth", b"%d" % error.depth))
            if error.limit is not None:
                headers.append((b"llmgate-limit", b"%d" % error.limit))
        return headers

    def _retry_after(self) -> int:
        """Seconds until a slot falls free about now: the median run shared by the slots, within 1 and the setting."""
        settings = self._services.settings
        median = self._services.ledger.figures(self._upstream_name).median_run()
        slots = self._services.admission.gate(self._upstream_name).limits.max_concurrent or 1
        return round(min(max(1.0, median / slots), settings.waiting.retry_after_max))

    def _own_headers(self) -> list[Header]:
        headers = [(b"llmgate-request-id", self._id.encode("ascii"))]
        if self._upstream_name:
            headers.append((b"llmgate-upstream", self._upstream_name.encode("ascii")))
        if self._place is not None and self._arrival and self._place.position() is None:
            headers.append((b"llmgate-queued-ms", b"%d" % round(self._place.waited * 1000)))
        return headers + self._arrival

    def _open_stream(self, headers: list[Header]) -> None:
        own = [*self._own_headers(), *STREAM_HEADERS]
        if not any(name == b"content-type" for name, _ in headers):
            own.append((b"content-type", self._surface.stream_type))
        self._reply.start(200, [*headers, *own])

    def _prepare_stream(self, model: str) -> None:
        """Decides what its client is told before the answer begins, and starts the heartbeat."""
        waiting = self._services.settings.waiting
        keepalive = waiting.openai_keepalive if self._surface.follows_keepalive else None
        manner = manner_of(self._wishes.queue_events, keepalive)
        if manner is not None:
            self._opening = Opening(request_id=self._id, model=model, at=datetime.now(UTC), manner=manner)
            self._heartbeat = Heartbeat(waiting.heartbeat, lambda: self._reply.last_write, self._beat)
            self._heartbeat.start()

    def _stop_heartbeat(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.stop()

    def _beat(self) -> None:
        if self._reply.blocked or self._reply.finished or self._place is None or self._opening is None:
            return
        if not self._reply.started:
            self._open_stream([])
        self._reply.write(self._surface.heartbeat(self._place.position(), self._opening))

    # ---- the request

    async def _read(self) -> ModelRequest:
        server = self._services.settings.server
        body = await read_body(self._headers, self._receive, server.max_body, server.body_timeout)
        self._wishes = read_wishes(self._headers)
        return self._surface.read_request(body)

    def _max_wait(self, settings: UpstreamSettings, *, stream: bool) -> float | None:
        limits = (self._wishes.max_wait, None if stream else settings.nonstream_queue_timeout)
        return min((limit for limit in limits if limit is not None), default=None)

    def _caller(self, request: ModelRequest) -> Caller:
        headers, names = self._headers, self._services.settings.identify
        return Caller(
            id=self._id,
            model=request.model,
            api=self._surface.name,
            path=self._path,
            stream=request.stream,
            client=identity.client_of(headers),
            session=identity.session_of(headers, names.session, request.session),
            purpose=identity.purpose_of(headers, names.purpose) or request.purpose,
            peer=peer_of(self._scope),
            body_bytes=len(request.body),
        )


class _ClientGone(GateError):
    """Nobody is there to be told."""


def _check_coding(answer: Answer) -> None:
    """We asked for no coding and pass none on: the client would not know of it."""
    for name, value in answer.headers:
        if name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
            raise UpstreamFailed("llmgate: the upstream answered in a coding that was not asked for (UPSTREAM_ERROR)")


def _content_type(answer: Answer) -> bytes:
    return next((value for name, value in answer.headers if name == b"content-type"), b"")
