"""One request under /upstream/NAME/, passed on to that server as it is, and the answer passed back as it comes.

What could start work there takes a place at the upstream's gate first, and waits for its slot without a word: nothing
is known of such a client. The rest goes straight through, to the first server of an upstream that has several.
Its slot is held and given back as that of an Exchange: see `sending`. So is the request held, and asked again, while
its server is not there or loads its model: its whole body is here.
Once the head of an answer is out, whatever goes wrong is told by closing the client's connection.
"""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.types import Receive, Scope, Send

from llmgate.admission.base import LOADING_MODEL, NO_CONNECTION, Place
from llmgate.core.caller import Caller
from llmgate.core.closing import Closing, refusal
from llmgate.core.keys import ClientKey
from llmgate.errors import ClientStalled, GateError, NotAllowed, UpstreamDown
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
    headers_of,
    peer_of,
    read_body,
)
from llmgate.server.destination import Destination
from llmgate.server.errand import ClientGone
from llmgate.server.relay import Relay
from llmgate.server.reply import nothing
from llmgate.server.sending import LARGEST_ERROR, Sending, Verdict, check_status
from llmgate.server.services import Services
from llmgate.server.wishes import Wishes, read_wishes
from llmgate.upstreams.answer import Answer, Done
from llmgate.upstreams.upstream import Call, Upstream

if TYPE_CHECKING:
    from llmgate.core.account import Account

API = "passthrough"
"""The `api` of log, feed and metrics."""

EVENTS = b"text/event-stream"

LARGEST_JUDGED = 64 * 1024
"""Bytes of a body of known length that is read before it is passed on, where it may say that nothing was begun."""

_NO_BODY = (204, 304)
_UNBUFFERED: Header = (b"x-accel-buffering", b"no")
"""nginx would hold a stream back otherwise."""


@dataclass(frozen=True, slots=True)
class Leg:
    """Where one request goes on to."""

    upstream: str
    outside: bytes
    """What stands before that name in the paths that are passed on, as this client wrote it: "/llm/upstream/"."""
    path: bytes
    """The server's own, undecoded."""


def shape_of(path: bytes, headers: Headers) -> Surface:
    """In whose shape an error is told, by the server's path."""
    if path.startswith(b"/api/"):
        return OLLAMA_CHAT
    return MESSAGES if b"anthropic-version" in headers else CHAT


class Passage(Sending):
    """One request and its answer."""

    __slots__ = ("_account", "_call_over", "_destination", "_leg", "_relay")

    def __init__(self, services: Services, leg: Leg, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(services, shape_of(leg.path, headers_of(scope)), scope, receive, send)
        self._leg = leg
        self._destination = Destination(services, leg.upstream)
        self._account: Account | None = None
        """Of the server that it was sent to last: a reload may give that another name, or another upstream."""
        self._relay: Relay | None = None
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
        settings = self._destination.settings
        self._voice.destination = self._destination
        if not is_gated(self._scope["method"], self._leg.path):
            await self._run_ungated(body)
            return

        async def work(place: Place) -> None:
            # as a stream whose client wants no sign of life: nothing of ours may come before the server's answer
            self._voice.take_place(place, model="", streams=True, wish="off")
            verdict = Verdict.AGAIN
            while verdict is Verdict.AGAIN:
                await self._voice.tell_wait(place)
                verdict = await self._run(place, body)

        limits = [limit for limit in (wishes.max_wait, settings.queue_timeout_nonstream) if limit is not None]
        caller = self._caller(len(body), wishes.max_wait)
        await self._take_place(self._destination, caller, min(limits, default=None), work)

    async def _run_ungated(self, body: bytes) -> None:
        name = self._destination.name
        if self._services.draining:
            raise refusal(Closing.STOP, name)
        self._services.ungated += 1
        try:
            self._server = server = self._services.upstreams[name]
            call = self._call(server, name, body)
            with server.aside():
                async with call as answer:
                    await self._take(answer, server)
        except UpstreamDown:
            self._note_down(NO_CONNECTION)
            raise
        finally:
            self._services.ungated -= 1

    async def _run(self, place: Place, body: bytes) -> Verdict:
        """The slot is there: asks the server."""
        server = await self._find_server(place)
        if server is None:
            return Verdict.AGAIN
        call = self._call(server, place.endpoint, body)
        return await self._send(call, place, lambda answer: self._take(answer, server))

    def _call(self, server: Upstream, endpoint: str, body: bytes) -> Call:
        self._account = self._destination.gate.accounts().get(endpoint)
        self._call_over = False
        query: bytes = self._scope["query_string"]
        target = self._leg.path + (b"?" + query if query else b"")
        method = self._scope["method"].encode("ascii")
        return server.call(method, target, self._headers, body, self._upstream_done, request_id=self._id)

    async def _take(self, answer: Answer, server: Upstream) -> Verdict:
        """An answer's head is here."""
        self._answer_status = answer.status
        try:
            if answer.status in LOADING and 0 <= _length_of(answer) <= LARGEST_JUDGED:
                return await self._judge(answer, server)
            self._note_head(answer, server)
            check_status(answer)
            if answer.status >= 400 and not _is_events(answer):
                self._tell_upstream_error(answer, server, await answer.read(LARGEST_ERROR))
            else:
                await self._pass(answer, server)
        except BaseException as error:
            fault = error if isinstance(error, GateError) else None
            self._fault = self._fault or fault  # before the call is closed, which asks for it
            self._outcome = self._outcome or (fault.outcome if fault is not None else "upstream_error")
            raise
        return Verdict.PASSED_ON

    async def _judge(self, answer: Answer, server: Upstream) -> Verdict:
        body = await self._read_judged(answer, LARGEST_JUDGED)
        if self._waits_again(answer, body):
            return Verdict.AGAIN
        if self._place is None and is_loading(answer.status, body):
            self._note_down(LOADING_MODEL)
        self._tell_upstream_error(answer, server, body)
        self._judged()
        return Verdict.PASSED_ON

    def _tell_upstream_error(self, answer: Answer, server: Upstream, body: bytes) -> None:
        """As it is, but for secrets of ours that are quoted in it."""
        body = server.without_secrets(body)
        self._reply.start(answer.status, [*self._passed_headers(answer, server, body), *self._voice.headers()])
        self._reply.finish(body)

    def _note_down(self, reason: str) -> None:
        """What went straight through met nobody: those who wait need not find that out for themselves."""
        endpoint = self._endpoint_now()
        if endpoint is not None:  # not one that a reload took away
            self._services.admission.set_endpoint(self._destination.name, endpoint, up=False, reason=reason)

    def _endpoint_now(self) -> str | None:
        """The name of the server that it was sent to last; None where a reload took that from this upstream."""
        if not self._destination.is_there:
            return None
        accounts = self._destination.gate.accounts()
        return next((name for name, account in accounts.items() if account is self._account), None)

    def _note_head(self, answer: Answer, server: Upstream) -> None:
        """What the head says of the server. A stream of events is an answer that is being made: it has one of the
        server's slots; of others nobody knows."""
        if self._place is None or self._call_over:
            return
        if answer.status not in LOADING:
            self._place.note_up()
        if _is_events(answer):
            server.traffic.sent(self._id, time.monotonic())
            server.traffic.answered(self._id)

    async def _pass(self, answer: Answer, server: Upstream) -> None:
        headers = [*self._passed_headers(answer, server), *self._voice.headers()]
        record = self._services.ledger.record(self._id)
        self._relay = relay = Relay(answer, self._reply, Unwatched(), record, nothing)
        self._reply.start(answer.status, headers)
        answer.start(relay)
        error = await relay.wait_over()
        if error is not None:
            raise error

    def _passed_headers(self, answer: Answer, server: Upstream, body: bytes | None = None) -> list[Header]:
        """The server's, with the length of `body`, or of the one to come where that is known."""
        passed = [*server.returned_headers(answer, PASSED), *self._location(answer, server)]
        if body is not None and self._scope["method"] != "HEAD":  # else it tells of a body that is not sent
            return [*passed, (b"content-length", b"%d" % len(body))]
        length = next((value for name, value in answer.headers if name == b"content-length"), None)
        if length is None or any(name == b"transfer-encoding" for name, _ in answer.headers):
            return [*passed, _UNBUFFERED]
        return passed if answer.status in _NO_BODY else [*passed, (b"content-length", length)]

    def _location(self, answer: Answer, server: Upstream) -> list[Header]:
        """Where its clients find what a redirect leads to; none where a reload took the server away."""
        values = [value for name, value in answer.headers if name == b"location"]
        endpoint = self._endpoint_now() if values else None
        if endpoint is None:
            return []
        destination = self._destination
        servers = zip(destination.gate.endpoints(), destination.settings.all_endpoints, strict=True)
        url = dict(servers)[endpoint].url
        outside = self._leg.outside + destination.name.encode("ascii")
        found = [location_for(value, url, outside) for value in values]
        return [(b"location", server.without_secrets(value)) for value in found if value is not None]

    # ---- the slot

    def _upstream_done(self, done: Done, error: GateError | None) -> None:
        """See Sending. One without a slot must know as well whether its answer is whole."""
        self._call_over = True
        if self._place is None:
            self._has_told_end(done)
        super()._upstream_done(done, error)

    def _has_told_end(self, done: Done) -> bool | None:
        """See Sending. Whether the client gets all of an answer; None: all of one that is an error."""
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

    def _caller(self, body_bytes: int, max_wait: float | None) -> Caller:
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
            max_wait=max_wait,
        )


def _is_events(answer: Answer) -> bool:
    return any(name == b"content-type" and value.startswith(EVENTS) for name, value in answer.headers)


def _length_of(answer: Answer) -> int:
    """Of its body; -1 where that is not known before it is here."""
    if any(name == b"transfer-encoding" for name, _ in answer.headers):
        return -1
    return next((int(value) for name, value in answer.headers if name == b"content-length" and value.isdigit()), -1)
