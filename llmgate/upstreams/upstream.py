"""One upstream as the conductor calls it: which headers go out, with which key, over which transport."""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from llmgate import __version__
from llmgate.errors import GateError
from llmgate.protocols.speech import Kind, Speech
from llmgate.upstreams.answer import NO_TIMEOUTS, Answer, Done, OnDone, Timeouts, Transport
from llmgate.upstreams.pulse import Pulse
from llmgate.upstreams.traffic import Traffic

if TYPE_CHECKING:
    from llmgate.protocols.model_card import ModelCard

Header = tuple[bytes, bytes]

FORWARDED = frozenset(
    {
        b"accept",
        b"anthropic-beta",
        b"anthropic-dangerous-direct-browser-access",
        b"anthropic-version",
        b"content-encoding",
        b"content-type",
        b"openai-beta",
        b"openai-organization",
        b"openai-project",
        b"traceparent",
        b"tracestate",
        b"user-agent",
        b"x-request-id",
    }
)
"""Request headers of the client that the upstream gets; no other, so that no framing and no secret slips through."""

AUTHORIZATION = frozenset({b"authorization", b"x-api-key"})
_OWN_HEADERS = {b"user-agent": f"llmgate/{__version__}".encode()}
_OWN_ANTHROPIC_HEADERS = {**_OWN_HEADERS, b"anthropic-version": b"2023-06-01"}
"""Anthropic answers nothing without it; other servers may answer in its shape with it."""

RETURNED = frozenset(
    {
        b"content-type",
        b"openai-model",
        b"openai-processing-ms",
        b"openai-version",
        b"request-id",
        b"retry-after",
        b"x-request-id",
    }
)
WORDS = frozenset({b"allow", b"cache-control", b"content-encoding", b"content-type"})
"""Headers whose words are HTTP's: the same word in a header of ours is no secret here."""
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
RETURNED_PREFIXES = (b"anthropic-ratelimit-", b"x-ratelimit-")
"""Response headers of the upstream that the client gets: never its CORS, cookies, or anything about the connection."""


SHORTEST_SECRET = 8
"""Bytes; what is shorter could be any word."""


class Upstream:
    """A named server. `headers` are sent with every request; with `forward_auth` a client's key goes before ours."""

    def __init__(
        self,
        name: str,
        transport: Transport,
        *,
        base_path: str = "",
        timeouts: Timeouts = NO_TIMEOUTS,
        headers: Sequence[Header] = (),
        api_key: str = "",
        forward_auth: bool = False,
        kind: Kind = "auto",
    ) -> None:
        self.name = name
        self._transport = transport
        self._base_path = base_path.rstrip("/").encode("ascii")
        self._timeouts = timeouts
        self._fixed: list[Header] = [(name.lower(), value) for name, value in headers]
        self._fixed_names = {name for name, _ in self._fixed}
        self._api_key = api_key.encode()
        values = {part for _, value in self._fixed for part in (value, value.rpartition(b" ")[2])}
        secrets = {secret for secret in {*values, self._api_key} if len(secret) >= SHORTEST_SECRET}
        self._secrets = sorted(secrets, key=len, reverse=True)  # one may be a part of another
        self.speech = Speech(kind)
        """What the server speaks, as far as that is known."""
        self.traffic = Traffic()
        self.asides = 0
        """Calls under way that need no slot: questions of our own, and what is passed on without one."""
        self.cards: Mapping[str, ModelCard] = {}
        """What the server told of its models, by the name that it lists them under."""
        self._passed = FORWARDED | AUTHORIZATION if forward_auth else FORWARDED

    @property
    def health_path(self) -> bytes:
        """What is asked to see whether it is there. Newer SGLangs, of kind openai here, generate a token for
        /health (its http_server.py)."""
        return b"/v1/models" if self.speech.kind == "openai" else b"/health"

    def watch_with(self, pulse: Pulse) -> None:
        """The clocks of its requests ask this before they run out because nothing was heard."""
        if self._timeouts.first_byte is not None or self._timeouts.idle is not None:
            self._timeouts = dataclasses.replace(self._timeouts, pulse=pulse)

    def call(
        self,
        method: bytes,
        path: bytes,
        headers: Mapping[bytes, bytes],
        body: bytes,
        on_done: OnDone,
        *,
        request_id: str = "",
        timeouts: Timeouts | None = None,
    ) -> "Call":
        """One request, sent when its `async with` begins; inside, the head of the answer is here.

        `path` is path and query as the surface has them, `headers` are the client's (names in lower case).
        `on_done` is told when the server is free of it: see `upstreams.answer`.
        """
        sent = self._headers_for(path, headers, request_id)
        return Call(self._transport, (method, self._base_path + path, sent, body, timeouts or self._timeouts, on_done))

    async def ask(
        self, path: bytes, *, timeouts: Timeouts, limit: int, method: bytes = b"GET", body: bytes = b""
    ) -> tuple[int, bytes]:
        """A question of our own, which takes no slot: status and body of its answer, of at most `limit` bytes.

        Raises GateError where there is no answer.
        """
        headers = _OWN_ANTHROPIC_HEADERS if self.speech.kind == "anthropic" else _OWN_HEADERS
        with self.aside():
            async with self.call(method, path, headers, body, _ignore, timeouts=timeouts) as answer:
                return answer.status, await answer.read(limit)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Around a call that needs no slot."""
        self.asides += 1
        try:
            yield
        finally:
            self.asides -= 1

    def _headers_for(self, path: bytes, headers: Mapping[bytes, bytes], request_id: str) -> list[Header]:
        sent = [
            (name, value)
            for name, value in headers.items()
            if name in self._passed and name not in self._fixed_names and (value or name not in AUTHORIZATION)
        ]
        if b"content-type" not in headers:
            sent.append((b"content-type", b"application/json"))
        sent.append((b"accept-encoding", b"identity"))
        if request_id:
            sent.append((b"llmgate-request-id", request_id.encode("ascii")))
        if self._api_key and not any(name in AUTHORIZATION for name, _ in sent):
            sent.append((b"authorization", b"Bearer " + self._api_key))
            if self.speech.kind == "anthropic" or path.startswith(b"/v1/messages"):
                sent.append((b"x-api-key", self._api_key))
        return sent + self._fixed

    @property
    def in_use(self) -> int:
        """Connections with a request on them, questions of ours included."""
        return self._transport.in_use

    def retire(self) -> None:
        """Another one takes its place: what runs here goes on, no connection is kept."""
        self._transport.retire()

    def take_over(self, old: "Upstream") -> None:
        """It is the same server as `old`, asked with other settings: what is known of it stays known."""
        self.traffic, self.cards = old.traffic, old.cards
        if self.speech.kind in ("auto", old.speech.kind):
            self.speech = old.speech

    def without_secrets(self, text: bytes) -> bytes:
        """What the server says, without our key for it and the values of our headers: some tell a key that they do not
        take."""
        for secret in self._secrets:
            text = text.replace(secret, b"***")
        return text

    def returned_headers(self, answer: Answer, also: frozenset[bytes] = frozenset()) -> list[Header]:
        """The answer's headers that a client may see, without secrets of ours; `also` names more of them."""
        return [
            (name, value if name in WORDS else self.without_secrets(value))
            for name, value in answer.headers
            if (name in RETURNED or name in also or name.startswith(RETURNED_PREFIXES)) and not _CONTROL.search(value)
        ]

    async def aclose(self) -> None:
        """Closes every connection to the server."""
        await self._transport.aclose()


class Call:
    """One request at an upstream: `async with call as answer`."""

    __slots__ = ("_answer", "_request", "_transport")

    def __init__(
        self, transport: Transport, request: tuple[bytes, bytes, list[Header], bytes, Timeouts, OnDone]
    ) -> None:
        self._transport = transport
        self._request = request
        self._answer: Answer | None = None

    async def __aenter__(self) -> Answer:
        self._answer = await self._transport.open(*self._request)
        return self._answer

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._answer is not None:
            self._answer.close()


def _ignore(_: Done, __: GateError | None) -> None:
    """A question has no slot."""
