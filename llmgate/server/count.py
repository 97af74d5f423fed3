"""POST /v1/messages/count_tokens: how many tokens a request has, without a place in the queue.

Tried in this order, each where the one before gave no number:

    upstream    the server itself, on the same path
    tokenizer   the server's tokenizer, told the request as it is translated, without images: that of a llama-server or
                of a vLLM; where nobody knows which it has, it is asked for both until it says that there is none
    estimate    four bytes a token, images and files left out

The header llmgate-token-count says which it was. A server that is down, or that takes longer than UPSTREAM_SECONDS for
all of it, is not waited for: clients ask this beside their work, and a rough number is more use to them than an error.
"""

import asyncio
import contextlib
from typing import Literal, NamedTuple

from starlette.responses import Response
from starlette.types import Receive, Scope

from llmgate.config.settings import UpstreamSettings
from llmgate.core.routing import Route
from llmgate.errors import BadRequest, GateError, UpstreamDown, UpstreamFailed, UpstreamTimeout
from llmgate.protocols.counting import (
    COUNT_PATH,
    blames_request,
    chat_of,
    estimate_body,
    read_count,
    read_prompt,
    read_tokens,
    render_count,
    text_of,
)
from llmgate.protocols.speech import MESSAGES_PATH, is_no_such_path
from llmgate.protocols.surfaces import MESSAGES
from llmgate.protocols.translate.request import Options, Translated, translate
from llmgate.server.asgi import (
    ClientLeft,
    Headers,
    access_of,
    check_coding,
    headers_of,
    new_request_id,
    read_aside,
    read_body,
)
from llmgate.server.listener import Listener
from llmgate.server.permission import find_route
from llmgate.server.refusal import refuse
from llmgate.server.services import Services
from llmgate.upstreams.answer import NO_TIMEOUTS, Done
from llmgate.upstreams.upstream import Upstream

UPSTREAM_SECONDS = 5.0

Source = Literal["upstream", "tokenizer", "estimate"]

_LIMIT = 64 * 1024 * 1024
"""Bytes of an answer: a tokenizer answers with every token."""

_TOKENIZERS = ("llama-server", "vllm")
_NO_TOKENIZER = ("ollama", "anthropic")
"""Kinds; of the others it is not known."""


class TokenCount:
    """One request for a count. While it asks the server it can be ended from outside, as an exchange can."""

    def __init__(self, services: Services, scope: Scope, receive: Receive) -> None:
        self._services = services
        self._receive = receive
        self._access = access_of(scope)
        self._headers = headers_of(scope)
        self._query: bytes = scope["query_string"]
        self._id = new_request_id()
        self._task: asyncio.Task[None] | None = None
        self._cut_by: GateError | ClientLeft | None = None

    @property
    def id(self) -> str:
        """See services.Stoppable."""
        return self._id

    async def answer(self) -> Response:
        """What the client gets; empty where it left. Whatever is being asked is closed as soon as it leaves."""
        server = self._services.settings.server
        try:
            check_coding(self._headers)
            body = await read_body(self._headers, self._receive, server.max_body, server.body_timeout)
            request = await read_aside(MESSAGES.read_request, body)
            route = find_route(self._services, self._access, request.model)
            return await self._while_there(body, route)
        except ClientLeft:
            return Response()
        except GateError as error:
            return refuse(MESSAGES, error, request_id=self._id)

    async def _while_there(self, body: bytes, route: Route) -> Response:
        """Raises whatever cut it: ClientLeft, or the error of `stop`."""
        self._task = asyncio.current_task()
        self._services.running.add(self)
        try:
            with Listener(self._receive, self.give_up):
                return await self._count(body, route)
        except asyncio.CancelledError:
            if self._cut_by is None or self._task is None:
                raise
            self._task.uncancel()
            raise self._cut_by from None
        finally:
            self._services.running.discard(self)
            self._cut_by = None  # raised, it knows the frames that it comes through, and they know this

    def stop(self, error: GateError) -> None:
        """Ends it; its client gets `error`."""
        self._cut(error)

    def check_key(self) -> None:
        """See services.Stoppable. It waits for nobody, and goes on."""

    def give_up(self) -> None:
        """Ends it without a word."""
        self._cut(ClientLeft())

    def _cut(self, error: GateError | ClientLeft) -> None:
        if self._cut_by is None and self._task is not None:
            self._cut_by = error
            self._task.cancel()

    async def _count(self, body: bytes, route: Route) -> Response:
        settings = self._services.settings.upstreams[route.upstream]
        sent = Sent(self._headers, self._query, self._id)
        counter = Counter(self._server_of(route.upstream), settings, route.model, body, sent)
        headers = {"llmgate-request-id": self._id, "llmgate-upstream": route.upstream}
        try:
            tokens, source = await counter.count()
        except Blamed as blamed:
            status, fault = MESSAGES.upstream_error_body(blamed.status, blamed.body, self._id)
            return Response(fault, status, headers, media_type="application/json")
        return Response(
            render_count(tokens), headers={**headers, "llmgate-token-count": source}, media_type="application/json"
        )

    def _server_of(self, upstream: str) -> Upstream:
        """Its first endpoint that is up, as far as is known: all serve the same models."""
        endpoints = self._services.admission.gate(upstream).endpoints()
        name = next((name for name, endpoint in endpoints.items() if endpoint.up), next(iter(endpoints)))
        return self._services.upstreams[name]


class Sent(NamedTuple):
    """What goes to the server beside a body."""

    headers: Headers
    query: bytes
    request_id: str


class Blamed(Exception):
    """The server says that the request is at fault: its error answer."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.body = body


class Counter:
    """Counts one request's tokens by what its upstream offers."""

    def __init__(self, upstream: Upstream, settings: UpstreamSettings, model: str, body: bytes, sent: Sent) -> None:
        self._upstream = upstream
        self._options = Options(
            model=model, reasoning_history=settings.reasoning_history, server_tools=settings.server_tools
        )
        self._body = body
        self._sent = sent

    async def count(self) -> tuple[int, Source]:
        """The number and where it is from. Raises Blamed, BadRequest."""
        with contextlib.suppress(TimeoutError, UpstreamDown, UpstreamFailed, UpstreamTimeout):
            async with asyncio.timeout(UPSTREAM_SECONDS):
                if (tokens := await self._ask_upstream()) is not None:
                    return tokens, "upstream"
                if (tokens := await self._ask_tokenizer()) is not None:
                    return tokens, "tokenizer"
        translated = await self._translate()
        if translated is not None:
            return translated.asked.input_estimate, "estimate"
        return await read_aside(estimate_body, self._body), "estimate"

    async def _ask_upstream(self) -> int | None:
        speech = self._upstream.speech
        if not speech.counts or speech.speaks(MESSAGES_PATH) is False:
            return None
        query = b"?" + self._sent.query if self._sent.query else b""
        body = await read_aside(lambda body: MESSAGES.with_model(body, self._options.model), self._body)
        status, answer = await self._post(COUNT_PATH.encode() + query, body)
        if is_no_such_path(status, answer):
            speech.counts = False
        return read_count(answer) if status == 200 else None

    async def _ask_tokenizer(self) -> int | None:
        speech = self._upstream.speech
        if speech.kind in _NO_TOKENIZER or not speech.tokenizes or (translated := await self._translate()) is None:
            return None
        asked = await read_aside(chat_of, translated.body)
        if speech.kind != "vllm":
            prompt = await self._ask_template(asked)
            if prompt is None and speech.kind == "llama-server":
                return None
            asked = asked if prompt is None else text_of(self._options.model, prompt)
        status, answer = await self._post(b"/tokenize", asked, may_blame=speech.kind in _TOKENIZERS)
        if is_no_such_path(status, answer):
            speech.tokenizes = False
        return await read_aside(read_tokens, answer) if status == 200 else None

    async def _ask_template(self, chat: bytes) -> str | None:
        """The text that the model would get, of a server that tells it."""
        speech = self._upstream.speech
        if not speech.templates:
            return None
        status, answer = await self._post(b"/apply-template", chat, may_blame=speech.kind in _TOKENIZERS)
        if is_no_such_path(status, answer):
            speech.templates = False
        return await read_aside(read_prompt, answer) if status == 200 else None

    async def _post(self, target: bytes, body: bytes, *, may_blame: bool = True) -> tuple[int, bytes]:
        """Status and body. `may_blame`: the server knows the path, so that a refusal is about the request."""
        headers, _, request_id = self._sent
        call = self._upstream.call(b"POST", target, headers, body, _ignore, request_id=request_id, timeouts=NO_TIMEOUTS)
        with self._upstream.aside():
            async with call as answer:
                status, told = answer.status, await answer.read(_LIMIT)
        if may_blame and blames_request(status, told):
            raise Blamed(status, self._upstream.without_secrets(told))
        return status, told

    async def _translate(self) -> Translated | None:
        """None where the request cannot be translated, and need not be. Raises BadRequest where it must be."""
        try:
            return await read_aside(lambda body: translate(body, self._options), self._body)
        except BadRequest:
            if self._upstream.speech.speaks(MESSAGES_PATH) is False:
                raise
            return None


def _ignore(_: Done, __: GateError | None) -> None:
    """It has no slot."""
