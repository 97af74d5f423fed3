"""One request under /upstream/NAME/, passed on to that server as it is, and the answer passed back as it comes.

What could start work there takes a place at the upstream's gate first, and waits for its slot without a word: nothing
is known of such a client. The rest goes straight through, to the first server of an upstream that has several.
The slot is given back as an Exchange does it: by `_upstream_done`, which the transport calls exactly once. So is the
request held, and asked again, while its server is not there or loads its model: its whole body is here.
Once the head of an answer is out, whatever goes wrong is told by closing the client's connection.
"""

import asyncio
import time
from dataclasses import dataclass

from starlette.types import Receive, Scope, Send

from llmgate.admission.base import LOADING_MODEL, NO_CONNECTION, Place
from llmgate.core.caller import Caller
from llmgate.core.keys import ClientKey
from llmgate.errors import ClientStalled, GateError, NotAllowed, NotFound, Outcome, Refused, UpstreamDown
from llmgate.protocols.passthrough import PASSED, Unwatched, is_gated, location_for
from llmgate.protocols.speech import LOADING, is_loading
from llmgate.protocols.surface import Surface
from llmgate.protocols.surfaces import CHAT, MESSAGES, OLLAMA_CHAT
from llmgate.server import identity
from llmgate.server.asgi import (
    ClientLeft,
    Header,
    Headers,
    access_of,
    peer_of,
    read_body,
)
from llmgate.server.errand import ClientGone, Errand, check_status, wait_for_another
from llmgate.server.outcome import outcome_of
from llmgate.server.relay import Relay
from llmgate.server.reply import nothing
from llmgate.server.services import Services
from llmgate.server.voice import Voice
from llmgate.server.wishes import Wishes, read_wishes
from llmgate.upstreams.answer import Answer, Done
from llmgate.upstreams.upstream import Call, Upstream, returned_headers

API = "passthrough"
"""The `api` of log, feed and metrics."""

EVENTS = b"text/event-stream"

LARGEST_JUDGED = 64 * 1024
"""Bytes of a body of known length that is read before it is passed on, where it may say that nothing was begun."""

LARGEST_ERROR = 1024 * 1024
MOST_LOADINGS = 3
"""See Exchange."""

_WORDS = frozenset({b"allow", b"cache-control", b"content-encoding", b"content-type"})
"""Headers whose words are HTTP's: the same word in a header of ours is no secret here."""

_NO_BODY = (204, 304)
_UNBUFFERED: Header = (b"x-accel-buffering", b"no")
"""nginx would hold a stream back otherwise."""


@dataclass(frozen=True, slots=True)
class Leg:
    """Where one request goes on to."""

    upstream: str
    outside: bytes
    """The path under which its paths are passed on, as this client wrote it: "/llm/upstream/a"."""
    path: bytes
    """The server's own, undecoded."""


def shape_of(path: bytes, headers: Headers) -> Surface:
    """In whose shape an error is told, by the server's path."""
    if path.startswith(b"/api/"):
        return OLLAMA_CHAT
    return MESSAGES if b"anthropic-version" in headers else CHAT


class Passage(Errand):
    """One request and its answer."""

    __slots__ = (
        "_answer_status",
        "_call_over",
        "_keeps_slot",
        "_leg",
        "_loadings",
        "_relay",
        "_release_timeout",
        "_requeued",
        "_server",
        "_voice",
    )

    def __init__(self, services: Services, leg: Leg, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(services, scope, receive, send)
        self._leg = leg
        self._voice = Voice(services, shape_of(leg.path, self._headers), self._reply, self._headers, self._id)
        self._release_timeout = 0.0
        self._keeps_slot = False
        """What the answer says decides whether the request is asked again: until then its slot is not given back."""
        self._loadings = 0
        """How often a server said that it was loading its model."""
        self._requeued = False
        """Of a call that sent nothing: the request stands in the line again."""
        self._server: Upstream | None = None
        """Whom it was sent to last."""
        self._relay: Relay | None = None
        self._answer_status = 0
        self._call_over = False
        """The transport is done with it, perhaps before its head was looked at."""

    # ---- the way

    async def run(self) -> None:
        """The whole of it. Raises nothing but foreign cancellation."""
        server = self._services.settings.server
        try:
            body = await read_body(self._headers, self._receive, server.max_body, server.body_timeout)
            wishes = read_wishes(self._headers)
        except ClientLeft:
            return
        except Exception as error:
            await self._refuse(error)
            return
        await self._live(lambda: self._wait_and_run(body, wishes))

    async def _wait_and_run(self, body: bytes, wishes: Wishes) -> None:
        name = self._leg.upstream
        settings = self._services.settings.upstreams.get(name)
        if settings is None:  # a reload took it away while the body came
            raise NotFound(f"llmgate: there is no upstream {name} any more (NOT_FOUND)")
        self._voice.upstream = name
        self._release_timeout = settings.release_timeout
        if not is_gated(self._scope["method"], self._leg.path):
            await self._run_ungated(body)
            return
        limits = [limit for limit in (wishes.max_wait, settings.queue_timeout_nonstream) if limit is not None]
        caller = self._caller(len(body))
        async with self._services.admission.enter(name, caller, max_wait=min(limits, default=None)) as place:
            self._place = place
            # as a stream whose client wants no sign of life: nothing of ours may come before the server's answer
            self._voice.take_place(place, model="", streams=True, wish="off")
            try:
                await self._voice.tell_wait(place)
                while not await self._run(place, body):
                    await self._voice.tell_wait(place)
            except asyncio.CancelledError:
                if self._stopped_by is not None and self._outcome != "client_gone":
                    place.give_up(self._stopped_by.outcome)  # its block would take it for a client that left
                raise

    async def _run_ungated(self, body: bytes) -> None:
        if self._services.draining:
            raise Refused(f"llmgate: upstream {self._leg.upstream} takes no new requests (REFUSED)")
        self._services.ungated += 1
        try:
            call = self._call(self._leg.upstream, body)
            with self._services.upstreams[self._leg.upstream].aside():
                async with call as answer:
                    await self._take(answer)
        except UpstreamDown:
            self._note_down(NO_CONNECTION)
            raise
        finally:
            self._services.ungated -= 1

    async def _run(self, place: Place, body: bytes) -> bool:
        """The slot is there: asks the server. False where that is not there: the request waits again."""
        await self._services.wait_for_room(place)
        if place.endpoint not in self._services.upstreams:
            wait_for_another(place)
            return False
        call = self._call(place.endpoint, body)
        place.hand_over()
        try:
            async with call as answer:
                return await self._take(answer)
        except UpstreamDown:
            if not self._requeued:
                raise
            return False

    def _call(self, endpoint: str, body: bytes) -> Call:
        self._server = server = self._services.upstreams[endpoint]
        self._call_over = False
        query: bytes = self._scope["query_string"]
        target = self._leg.path + (b"?" + query if query else b"")
        method = self._scope["method"].encode("ascii")
        return server.call(method, target, self._headers, body, self._upstream_done, request_id=self._id)

    async def _take(self, answer: Answer) -> bool:
        """An answer's head is here. False where it says that the request was not begun, and it waits again."""
        self._answer_status = answer.status
        try:
            if answer.status in LOADING and 0 <= _length_of(answer) <= LARGEST_JUDGED:
                return await self._judge(answer)
            self._note_head(answer)
            check_status(answer)
            if answer.status >= 400 and not _is_events(answer):
                self._tell_upstream_error(answer, await answer.read(LARGEST_ERROR))
            else:
                await self._pass(answer)
        except BaseException as error:
            # before the call is closed, which asks for it
            self._outcome = self._outcome or (error.outcome if isinstance(error, GateError) else "upstream_error")
            raise
        return True

    async def _judge(self, answer: Answer) -> bool:
        self._keeps_slot = self._place is not None
        body = await answer.read(LARGEST_JUDGED)
        if is_loading(answer.status, body) and self._waits_again():
            return False
        self._tell_upstream_error(answer, body)
        if self._place is not None:
            self._place.leave(self._outcome_of(Done.ENDED, None, None))
        return True

    def _tell_upstream_error(self, answer: Answer, body: bytes) -> None:
        """As it is, but for secrets of ours that are quoted in it."""
        body = self._without_secrets(body)
        self._reply.start(answer.status, [*self._passed_headers(answer, body), *self._voice.headers()])
        self._reply.finish(body)

    def _without_secrets(self, text: bytes) -> bytes:
        return text if self._server is None else self._server.without_secrets(text)

    def _waits_again(self) -> bool:
        """Its server loads its model: nobody else is sent there."""
        self._loadings += 1
        if self._place is not None:
            return self._loadings <= MOST_LOADINGS and self._place.requeue(LOADING_MODEL)
        self._note_down(LOADING_MODEL)
        return False

    def _note_down(self, reason: str) -> None:
        """What went straight through met nobody: those who wait need not find that out for themselves."""
        admission, upstream = self._services.admission, self._leg.upstream
        known = admission.gate(upstream).endpoints() if upstream in admission.upstreams() else {}
        if self._server is not None and self._server.name in known:  # not one that a reload took away
            admission.set_endpoint(upstream, self._server.name, up=False, reason=reason)

    def _note_head(self, answer: Answer) -> None:
        """What the head says of the server. A stream of events is an answer that is being made: it has one of the
        server's slots; of others nobody knows."""
        if self._place is None or self._server is None or self._call_over:
            return
        if answer.status not in LOADING:
            self._place.note_up()
        if _is_events(answer):
            self._server.traffic.sent(self._id, time.monotonic())
            self._server.traffic.answered(self._id)

    async def _pass(self, answer: Answer) -> None:
        headers = [*self._passed_headers(answer), *self._voice.headers()]
        record = self._services.ledger.record(self._id)
        self._relay = relay = Relay(answer, self._reply, Unwatched(), record, nothing)
        self._reply.start(answer.status, headers)
        answer.start(relay)
        error = await relay.wait_over()
        if error is not None:
            raise error

    def _passed_headers(self, answer: Answer, body: bytes | None = None) -> list[Header]:
        """The server's, with the length of `body`, or of the one to come where that is known."""
        passed, length = [], None
        for name, value in returned_headers(answer, PASSED):
            if name == b"content-length":
                length = value
            elif name == b"location":
                passed += [(name, self._without_secrets(value)) for _, value in self._location(value)]
            else:
                passed.append((name, value if name in _WORDS else self._without_secrets(value)))
        if body is not None and self._scope["method"] != "HEAD":  # else it tells of a body that is not sent
            return [*passed, (b"content-length", b"%d" % len(body))]
        if length is None or any(name == b"transfer-encoding" for name, _ in answer.headers):
            return [*passed, _UNBUFFERED]
        return passed if answer.status in _NO_BODY else [*passed, (b"content-length", length)]

    def _location(self, value: bytes) -> list[Header]:
        name = self._leg.upstream
        settings = self._services.settings.upstreams.get(name)
        if settings is None:  # a reload took it away
            return []
        endpoints = dict(zip(self._services.admission.gate(name).endpoints(), settings.all_endpoints, strict=True))
        server = endpoints.get(self._server.name if self._server is not None else name)
        if server is None:  # the same
            return []
        location = location_for(value, server.url, self._leg.outside)
        return [] if location is None else [(b"location", location)]

    # ---- the slot

    def _upstream_done(self, done: Done, error: GateError | None) -> None:
        """The transport knows what became of the call: the slot is free, or drains."""
        self._call_over = True
        told_end = self._take_end(done)
        place = self._place
        if place is None:
            return
        if self._server is not None:
            self._server.traffic.over(self._id)
        keeps, self._keeps_slot = self._keeps_slot, False
        if keeps and done is Done.ENDED:
            place.take_back()
            return
        if done is Done.UNSENT and self._outcome is None and isinstance(error, UpstreamDown):
            self._requeued = place.requeue(NO_CONNECTION)
            if self._requeued:
                return
        outcome = self._outcome_of(done, error, told_end)
        if done in (Done.CUT, Done.LOST):
            lost, had_head = done is Done.LOST, self._answer_status > 0
            self._services.drain(place, outcome, self._release_timeout, lost=lost, had_head=had_head)
        else:
            place.leave(outcome)

    def _outcome_of(self, done: Done, error: GateError | None, told_end: bool | None) -> Outcome:
        return outcome_of(
            done,
            status=self._answer_status,
            told_end=told_end,
            stream_failed=False,
            cut=self._outcome,
            error=error,
        )

    def _take_end(self, done: Done) -> bool | None:
        """Whether the client gets all of an answer; None: all of one that is an error."""
        if done is not Done.ENDED or self._outcome is not None:
            return False
        if self._relay is not None and not self._relay.take_end():
            return False
        return None if self._answer_status >= 400 else self._relay is not None

    # ---- the client's end

    @property
    def _is_unsent(self) -> bool:
        """See Errand. One without a place is under way."""
        return self._place is not None and not self._place.is_handed_over

    def _narrowed_error(self, key: ClientKey) -> GateError | None:
        """See Errand."""
        if not key.models:
            return None
        return NotAllowed(
            "llmgate: this key may use some models only now, so nothing is passed on for it but requests that name one "
            "(NOT_ALLOWED)"
        )

    def _client_gone(self) -> None:
        """See Errand."""
        if not self._reply.finished:
            self._cut("client_gone", ClientGone())

    def _fail(self, error: GateError) -> None:
        """See Errand. Once the head of an answer is out nothing more can be told."""
        self._outcome = self._outcome or error.outcome
        if isinstance(error, (ClientGone, ClientStalled)):
            self._give_up_client()
        elif self._reply.finished:
            return
        elif self._reply.started:
            self._give_up_client()
        else:
            self._voice.tell_error(error)

    def _caller(self, body_bytes: int) -> Caller:
        headers, names = self._headers, self._services.settings.identify
        session, session_from = identity.session_of(headers, names.session, "")
        return Caller(
            id=self._id,
            api=API,
            path=identity.clean(self._leg.path),
            client=identity.client_of(headers),
            client_version=identity.version_of(headers),
            session=session,
            session_from=session_from,
            purpose=identity.purpose_of(headers, names.purpose),
            key=access_of(self._scope).key_name,
            peer=peer_of(self._scope),
            body_bytes=body_bytes,
        )


def _is_events(answer: Answer) -> bool:
    return any(name == b"content-type" and value.startswith(EVENTS) for name, value in answer.headers)


def _length_of(answer: Answer) -> int:
    """Of its body; -1 where that is not known before it is here."""
    if any(name == b"transfer-encoding" for name, _ in answer.headers):
        return -1
    return next((int(value) for name, value in answer.headers if name == b"content-length" and value.isdigit()), -1)
