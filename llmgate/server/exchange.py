"""One request's way, from its headers to its outcome: read it from `run` downwards.

Where its slot is from `enter` on, and who gives it back, is in `sending`; ends from outside are in `errand`.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial

from starlette.types import Receive, Scope, Send

from llmgate.admission.base import Place
from llmgate.config.settings import UpstreamSettings
from llmgate.core.caller import Caller
from llmgate.core.keys import ClientKey
from llmgate.core.routing import Route
from llmgate.errors import ClientStalled, GateError, ModelNotAllowed, Outcome, UpstreamFailed
from llmgate.protocols.gather.gathering import Gathering
from llmgate.protocols.gather.gatherings import gathering_of
from llmgate.protocols.gather.request import as_stream
from llmgate.protocols.speech import LOADING, NO_SUCH_PATH, Speech, is_no_such_path
from llmgate.protocols.surface import ModelRequest, Surface
from llmgate.protocols.translate.request import Options
from llmgate.protocols.upstream_error import UpstreamTold
from llmgate.protocols.way import Way
from llmgate.protocols.ways import may_be_learnt, way_of
from llmgate.server import identity
from llmgate.server.asgi import (
    JSON,
    ClientLeft,
    access_of,
    check_coding,
    peer_of,
    read_aside,
    read_body,
)
from llmgate.server.destination import Destination
from llmgate.server.errand import ClientGone
from llmgate.server.permission import find_route
from llmgate.server.relay import Relay
from llmgate.server.sending import LARGEST_ERROR, Sending, Verdict, check_status
from llmgate.server.services import Services
from llmgate.server.whole import Held, Whole
from llmgate.server.wishes import Wishes, read_wishes
from llmgate.upstreams.answer import Answer, Done
from llmgate.upstreams.upstream import Call, Upstream

LARGEST_ANSWER = 64 * 1024 * 1024
"""Bytes of an answer that does not stream; it is held whole, so that a client never gets half of it."""

GRACE_SECONDS = 0.25
"""How long the upstream may take to end a message after the end of the stream in it: nobody listens any more."""


class Exchange(Sending):
    """One request on one surface."""

    __slots__ = (
        "_destination",
        "_force_stream",
        "_gathering",
        "_grace",
        "_names",
        "_path",
        "_query",
        "_relay",
        "_surface",
        "_whole",
        "_wishes",
    )

    def __init__(
        self,
        services: Services,
        surface: Surface,
        path: str,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        upstream: str = "",
    ) -> None:
        """`path` is the surface's own, without our prefix; `upstream` serves it whatever its model, "": the routes say
        which."""
        super().__init__(services, surface, scope, receive, send)
        self._surface = surface
        self._path = path
        self._query: bytes = scope["query_string"]
        self._destination = Destination(services, upstream) if upstream else None
        """None: not routed yet."""
        self._wishes = Wishes()
        self._force_stream = False
        self._names: tuple[str, ...] = ()
        """Those of its model: as it was asked for, and as it is served."""
        self._relay: Relay | None = None
        self._whole: Whole | None = None
        self._gathering: Gathering | None = None
        """Puts a whole answer together, where the server was asked for a stream instead."""
        self._grace: asyncio.TimerHandle | None = None
        """The upstream may still end the message whose stream told its end."""

    # ---- the way

    async def run(self) -> None:
        """The whole of it. Raises nothing but foreign cancellation."""
        try:
            request = await self._read()
            route = self._route(request.model)
            self._destination = self._voice.destination = destination = self._destination or Destination(
                self._services, route.upstream
            )
            self._names = request.model, route.model
        except ClientLeft:
            return
        except Exception as error:
            await self._refuse(error)
            return
        await self._live(lambda: self._wait_and_run(request, route.model, destination))

    def _let_go(self) -> None:
        super()._let_go()
        self._voice.hush()
        if self._grace is not None:
            self._grace.cancel()
        for sink in (self._relay, self._whole):
            if sink is not None:
                sink.let_go()

    async def _wait_and_run(self, request: ModelRequest, model: str, destination: Destination) -> None:
        """Whatever is awaited before it has a place, a reload may be done meanwhile."""
        find_way = self._ways(request, model, destination.settings)
        way = await _find_aside(find_way, self._services.upstreams[destination.name].speech, request.body)
        settings = destination.settings
        self._force_stream = settings.force_stream

        async def work(place: Place) -> None:
            self._voice.take_place(place, model=request.model, streams=request.stream, wish=self._wishes.queue_events)
            await self._run_until_passed_on(place, way, find_way, request)

        max_wait = self._max_wait(settings, stream=request.stream)
        await self._take_place(destination, self._caller(request), max_wait, work)

    async def _run_until_passed_on(
        self, place: Place, way: Way, find_way: Callable[[Speech], Way], request: ModelRequest
    ) -> None:
        """Waits for a slot, of which the client is told, and asks the server, as often as that comes to nothing."""
        verdict = Verdict.AGAIN
        while verdict is not Verdict.PASSED_ON:
            await self._voice.tell_wait(place)
            verdict = await self._run(place, way, request)
            if verdict is Verdict.OTHER_WAY and self._server is not None:
                way = await _find_aside(find_way, self._server.speech, request.body)

    def _ways(self, request: ModelRequest, model: str, settings: UpstreamSettings) -> Callable[[Speech], Way]:
        """Finds the way of this request to a server that speaks so."""
        options = Options(model=model, reasoning_history=settings.reasoning_history, server_tools=settings.server_tools)
        return lambda speech: way_of(self._surface, self._path, request, speech, options, self._id)

    async def _run(self, place: Place, way: Way, request: ModelRequest) -> Verdict:
        """The slot is there: asks the server."""
        body = await self._body_for(way, request)
        server = await self._find_server(place)
        if server is None:
            return Verdict.AGAIN
        if way.path == self._path and server.speech.speaks(way.path) is False:
            return Verdict.OTHER_WAY  # that was learnt while it waited
        call, stream = self._call(way, server, body), request.stream
        is_streamed = stream or self._gathering is not None  # the head of any other answer comes with its end
        take = partial(self._take, server=server, place=place, way=way, stream=stream)
        return await self._send(call, place, take, server if is_streamed else None)

    async def _body_for(self, way: Way, request: ModelRequest) -> bytes:
        """A whole answer is put together from a stream here: in most servers only who streams can leave. Made when it
        is wanted: one that waits keeps one body."""
        forced = self._force_stream and not request.stream

        def make(_: bytes) -> tuple[bytes, bytes | None]:
            body = way.body
            return body, as_stream(way.path, body) if forced else None

        body, streaming = await read_aside(make, request.body, with_slot=True)
        self._gathering = None
        if streaming is None:
            return body
        self._gathering = gathering_of(way.path)
        return streaming

    def _call(self, way: Way, server: Upstream, body: bytes) -> Call:
        target = way.path.encode("ascii") + (b"?" + self._query if self._query and way.keeps_query else b"")
        headers = way.headers(self._headers)
        return server.call(b"POST", target, headers, body, self._upstream_done, request_id=self._id)

    async def _take(self, answer: Answer, *, server: Upstream, place: Place, way: Way, stream: bool) -> Verdict:
        """An answer's head is here."""
        server.traffic.answered(self._id)
        self._answer_status = answer.status
        try:
            if answer.status in NO_SUCH_PATH or answer.status in LOADING:
                return await self._judge(answer, server, way)
            place.note_up()
            await self._pass(answer, server, way, stream=stream)
        except GateError as error:
            self._fault = self._fault or error  # before the call is closed, which asks for it
            self._outcome = self._outcome or error.outcome
            raise
        return Verdict.PASSED_ON

    async def _judge(self, answer: Answer, server: Upstream, way: Way) -> Verdict:
        """An answer that may say that the request was not begun; if it does not, it is passed on."""
        body = await self._read_judged(answer, LARGEST_ERROR)
        if is_no_such_path(answer.status, body) and may_be_learnt(way.path, server.speech):
            server.speech.messages = None if server.speech.messages else False  # one that knew it is asked once more
            return Verdict.OTHER_WAY
        if self._waits_again(answer, body):
            return Verdict.AGAIN
        self._voice.hush()
        self._tell_upstream_error(answer, server, body)
        self._judged()
        return Verdict.PASSED_ON

    async def _pass(self, answer: Answer, server: Upstream, way: Way, *, stream: bool) -> None:
        check_status(answer)
        _check_coding(answer)
        streams = answer.status < 300 and way.is_stream(_content_type(answer))
        if streams and stream:
            await self._pass_stream(answer, server, way)
            return
        if streams and self._gathering is not None:
            await self._pass_gathered(answer, server, way, self._gathering)
            return
        if stream or answer.status >= 300:
            self._voice.hush()  # else blanks go on until the answer is here: its head may come long before it
        if answer.status >= 400:
            self._tell_upstream_error(answer, server, await answer.read(LARGEST_ERROR))
        elif answer.status >= 300:
            raise UpstreamFailed("llmgate: the upstream redirects, which is not followed (UPSTREAM_ERROR)")
        else:
            await self._pass_whole(answer, server, way, stream=stream)

    async def _pass_stream(self, answer: Answer, server: Upstream, way: Way) -> None:
        watch = way.watch()
        watch.opened = self._reply.started
        watch.hides = server.without_secrets
        if not self._reply.started:
            self._voice.open_stream(server.returned_headers(answer))
        record = self._services.ledger.record(self._id)
        self._relay = relay = Relay(
            answer, self._reply, watch, record, self._voice.hush, lambda: self._grant_grace(relay.give_up)
        )
        answer.start(relay)
        error = await relay.wait_over()
        if not self._reply.finished:
            raise error or UpstreamFailed(
                "llmgate: the upstream ended its stream before the answer was complete (UPSTREAM_ERROR)"
            )

    async def _pass_whole(self, answer: Answer, server: Upstream, way: Way, *, stream: bool) -> None:
        told_as_stream = way.as_stream if stream else None
        if stream and self._reply.started and told_as_stream is None:
            raise UpstreamFailed("llmgate: the upstream answered a streaming request without a stream (UPSTREAM_ERROR)")
        self._whole = whole = Whole(answer, Held(LARGEST_ANSWER), told_as_stream or way.whole)
        answer.start(whole)
        body = await whole.wait_body()
        self._voice.hush()
        if told_as_stream is None:
            self._voice.answer(answer.status, server.returned_headers(answer), body)
            return
        if not self._reply.started:
            self._voice.open_stream([])
        self._reply.finish(body)

    async def _pass_gathered(self, answer: Answer, server: Upstream, way: Way, gathering: Gathering) -> None:
        record = self._services.ledger.record(self._id)

        def note() -> None:
            if record is not None and gathering.started:
                record.first_byte_at = record.first_byte_at or time.monotonic()
                record.output_tokens = gathering.output_tokens
                record.input_tokens = gathering.input_tokens or 0

        self._whole = whole = Whole(answer, gathering, way.whole, note, lambda: self._grant_grace(whole.give_up))
        answer.start(whole)
        body = await whole.wait_body()
        headers = [(name, value) for name, value in server.returned_headers(answer) if name != b"content-type"]
        self._voice.answer(answer.status, [JSON, *headers], body)

    def _tell_upstream_error(self, answer: Answer, server: Upstream, body: bytes) -> None:
        headers = server.returned_headers(answer)
        self._voice.tell_upstream_error(answer.status, headers, server.without_secrets(body))

    # ---- the slot: see Sending

    def _has_told_end(self, done: Done) -> bool | None:
        """See Sending."""
        if self._whole is not None:
            is_whole = (done is Done.ENDED or self._whole.is_told) and self._whole.take_end()
            self._fault = self._fault or self._whole.error
            return is_whole
        if self._relay is not None:
            return self._relay.take_end() if done is Done.ENDED else self._relay.is_told
        promised = self._reply.started and self._answer_status < 400
        return False if promised else None

    @property
    def _stream_failed(self) -> bool:
        """See Sending."""
        return self._relay is not None and self._relay.watch.failed

    # ---- the client's end

    @property
    def _is_unsent(self) -> bool:
        """See Errand."""
        return self._place is None or not self._place.is_handed_over

    def _narrowed_error(self, key: ClientKey) -> GateError | None:
        """See Errand."""
        if key.may_use(*self._names):
            return None
        return ModelNotAllowed("llmgate: this key may not use this model any more (MODEL_NOT_ALLOWED)")

    def _client_gone(self) -> None:
        """See Errand. One that has all of a stream leaves the upstream a moment to end its message."""
        if self._reply.finished:
            return
        if self._relay is not None and self._relay.is_told:
            outcome: Outcome = "upstream_error" if self._relay.watch.failed else "completed"
            self._grant_grace(lambda: self._cut(outcome, ClientGone()))
        else:
            self._cut("client_gone", ClientGone())

    def _grant_grace(self, give_up: Callable[[], None]) -> None:
        """The upstream may take a moment to end a message whose stream told its end."""
        if self._grace is not None:
            self._grace.cancel()
        self._grace = asyncio.get_running_loop().call_later(GRACE_SECONDS, give_up)

    def _fail(self, error: GateError) -> None:
        """See Errand."""
        self._outcome = self._outcome or error.outcome
        self._voice.hush()
        inside_event = self._relay is not None and self._relay.watch.inside_event
        if inside_event or isinstance(error, (ClientGone, ClientStalled)):
            self._give_up_client()
        elif self._reply.finished:
            return
        elif self._relay is not None and self._relay.is_told:
            self._relay.finish()
        else:
            if isinstance(error, UpstreamTold) and self._server is not None:
                error.body = self._server.without_secrets(error.body)
            self._voice.tell_error(error)

    # ---- the request

    async def _read(self) -> ModelRequest:
        server = self._services.settings.server
        check_coding(self._headers)
        body = await read_body(self._headers, self._receive, server.max_body, server.body_timeout)
        self._wishes = read_wishes(self._headers)
        return await read_aside(self._surface.read_request, body)

    def _route(self, model: str) -> Route:
        if self._destination is not None:
            self._destination.check_is_there()  # first: what the key may do there is of no interest any more
        forced = self._destination.name if self._destination is not None else ""
        return find_route(self._services, access_of(self._scope), model, forced)

    def _max_wait(self, settings: UpstreamSettings, *, stream: bool) -> float | None:
        limits = (self._wishes.max_wait, None if stream else settings.queue_timeout_nonstream)
        return min((limit for limit in limits if limit is not None), default=None)

    def _caller(self, request: ModelRequest) -> Caller:
        headers, names = self._headers, self._services.settings.identify
        session, session_from = identity.session_of(headers, names.session, request.session)
        return Caller(
            id=self._id,
            model=request.model,
            api=self._surface.name,
            path=self._path,
            stream=request.stream,
            client=identity.client_of(headers),
            client_version=identity.version_of(headers),
            session=session,
            session_from=session_from,
            purpose=identity.purpose_of(headers, names.purpose) or request.purpose,
            key=access_of(self._scope).key_name,
            peer=peer_of(self._scope),
            body_bytes=len(request.body),
            max_wait=self._wishes.max_wait,
        )


async def _find_aside(find_way: Callable[[Speech], Way], speech: Speech, body: bytes) -> Way:
    """A translation of a large body takes seconds, in which all others must not stand still."""
    return await read_aside(lambda _: find_way(speech), body)


def _check_coding(answer: Answer) -> None:
    """We asked for no coding and pass none on: the client would not know of it."""
    for name, value in answer.headers:
        if name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
            raise UpstreamFailed("llmgate: the upstream answered in a coding that was not asked for (UPSTREAM_ERROR)")


def _content_type(answer: Answer) -> bytes:
    return next((value for name, value in answer.headers if name == b"content-type"), b"")
