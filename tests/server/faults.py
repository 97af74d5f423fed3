"""Faults put into the path of one request: at each hook in turn something is raised instead of what should happen."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from llmgate.admission.local import LocalAdmission
from llmgate.admission.place import LocalPlace, Positions
from llmgate.core.routing import Routes
from llmgate.errors import UpstreamFailed
from llmgate.protocols.anthropic import MessagesSurface, MessagesWatch
from llmgate.protocols.speech import Kind
from llmgate.protocols.translate.way import Translated, TranslatedWatch
from llmgate.protocols.way import Direct
from llmgate.server import exchange, identity, sending
from llmgate.server.listener import Listener
from llmgate.server.relay import Relay
from llmgate.server.reply import Reply
from llmgate.server.voice import Voice
from llmgate.telemetry.ledger import Figures, Ledger
from llmgate.upstreams.upstream import Upstream
from llmgate.upstreams.wire import WireAnswer
from tests.server.house import UPSTREAM
from tests.server.stage import EVENT_STREAM, PLAIN, Call, Stage, Wire, settle
from tests.server.states import NO_SUCH_MODEL, NO_SUCH_PATH

HOOKS: list[tuple[Any, str]] = [
    (exchange, "read_body"),
    (exchange, "read_wishes"),
    (exchange, "peer_of"),
    (exchange, "way_of"),
    (exchange, "may_be_learnt"),
    (exchange, "is_no_such_path"),
    (sending, "is_loading"),
    (identity, "client_of"),
    (identity, "session_of"),
    (Routes, "find"),
    (Listener, "__enter__"),
    (LocalAdmission, "enter"),
    (LocalPlace, "__aenter__"),
    (LocalPlace, "position"),
    (LocalPlace, "positions"),
    (LocalPlace, "wait_admitted"),
    (LocalPlace, "wait_for_news"),
    (LocalPlace, "hand_over"),
    (LocalPlace, "note_up"),
    (Positions, "__anext__"),
    (Direct, "headers"),
    (Translated, "headers"),
    (Translated, "is_stream"),
    (Translated, "watch"),
    (Translated, "whole"),
    (Translated, "as_stream"),
    (Upstream, "call"),
    (Upstream, "returned_headers"),
    (WireAnswer, "wait_head"),
    (WireAnswer, "start"),
    (WireAnswer, "read"),
    (Ledger, "record"),
    (Figures, "median_run"),
    (Voice, "tell_wait"),
    (Reply, "start"),
    (Reply, "answer"),
    (Reply, "wait_sent"),
    (Relay, "wait_over"),
    (MessagesSurface, "read_request"),
    (MessagesSurface, "with_model"),
    (MessagesSurface, "queue_frame"),
    (MessagesSurface, "error_body"),
    (MessagesSurface, "error_frame"),
    (MessagesSurface, "upstream_error_body"),
    (MessagesSurface, "upstream_error_frame"),
    (MessagesSurface, "watch"),
    (MessagesWatch, "feed"),
    (MessagesWatch, "finish"),
    (TranslatedWatch, "feed"),
    (TranslatedWatch, "finish"),
]

LATE = {
    "wait_admitted",
    "wait_for_news",
    "__anext__",
    "wait_sent",
    "wait_over",
    "read",
    "wait_head",
    "read_body",
    "tell_wait",
}
"""Hooks that wait: there it may also happen when the wait is over."""


CALLED_BACK = {"feed", "finish", "whole", "as_stream"}
"""Hooks that the transport calls: nothing but an Exception can come up there."""


class Foreign(BaseException):
    """Neither an Exception nor a cancellation."""


ERRORS: list[Callable[[], BaseException]] = [
    lambda: ValueError("boom"),
    asyncio.CancelledError,
    lambda: UpstreamFailed("llmgate: boom (UPSTREAM_ERROR)"),
    Foreign,
]


class Fault:
    """Strikes once, at the first time the hook is reached, or at a later one."""

    def __init__(self, owner: Any, name: str, error: BaseException, *, late: bool, skip: int = 0) -> None:
        self.struck = False
        self.name = name
        self.error = error
        self._owner, self._late = owner, late
        self._skip = self._skipped = skip

    def next(self, error: BaseException) -> "Fault":
        """The same one place later."""
        return Fault(self._owner, self.name, error, late=self._late, skip=self._skipped + 1)

    def _strike(self) -> None:
        if not self.struck and self._skip == 0:
            self.struck = True
            raise self.error
        self._skip -= 1

    @contextmanager
    def installed(self) -> Iterator[None]:
        real = getattr(self._owner, self.name)

        async def waiting(*arguments: Any, **options: Any) -> Any:
            if not self._late:
                self._strike()
            result = await real(*arguments, **options)
            if self._late:
                self._strike()
            return result

        def sudden(*arguments: Any, **options: Any) -> Any:
            self._strike()
            return real(*arguments, **options)

        with patch.object(self._owner, self.name, waiting if inspect.iscoroutinefunction(real) else sudden):
            yield


@dataclass(frozen=True)
class Story:
    """One request from beginning to end, at an upstream with one slot."""

    name: str
    waits: bool = True
    """Somebody else has the slot when it comes; another one is opened for it."""
    stream: bool = True
    model: str = "m"
    status: int = 200
    kind: Kind = "auto"
    """What is known of the upstream."""
    refusal: bytes = b""
    """The upstream answers the first call with a 404 and this."""
    plain: bool = False
    """The upstream answers without a stream although one was asked for."""
    breaks: bool = False
    """The upstream dies mid-stream."""
    max_wait: str = ""
    away: str = ""
    """First the server is not there, or ("loading") its model is not; then it comes back."""

    async def tell(self, stage: Stage) -> Wire:
        """Plays it as far as it goes."""
        number = len(stage.calls)
        wishes = {"llmgate_max_wait": self.max_wait} if self.max_wait else {}
        wire = stage.ask(stream=self.stream, model=self.model, **wishes)
        await settle()
        if self.waits:
            stage.set_cap(2)
            await settle()
        if self.refusal and len(stage.calls) > number:
            await self._refuse(stage.calls[number])
            number += 1
        if self.away and len(stage.calls) > number:
            await self._turn_away(stage.calls[number])
            stage.services.admission.set_endpoint(UPSTREAM, UPSTREAM, up=True)
            await settle()
            number += 1
        if len(stage.calls) > number:
            await self._play(stage.calls[number])
        return wire

    async def _turn_away(self, call: Call) -> None:
        if self.away != "loading":
            call.refuse()
        else:
            call.connect()
            await settle()
        if call.awaited:
            call.head(503, PLAIN)
            await settle()
        if call.speaks:
            call.end(LOADING)
        await settle()

    async def _refuse(self, call: Call) -> None:
        call.connect()
        await settle()
        if call.awaited:
            call.head(404, PLAIN)
            await settle()
        if call.speaks:
            call.end(self.refusal)
        await settle()

    async def _play(self, call: Call) -> None:
        streams = self.stream and self.status == 200 and not self.plain
        call.connect()
        await settle()
        if call.awaited:
            call.head(self.status, EVENT_STREAM if streams else PLAIN)
            await settle()
        if call.speaks and streams:
            call.piece(call.spoken.start)
            await settle()
        if call.speaks and self.breaks:
            call.lose()
        elif call.speaks:
            call.end(call.spoken.rest if streams else call.spoken.whole if self.plain else ERROR)
        await settle()


LOADING = b'{"error":{"message":"Loading model","type":"unavailable_error","code":503}}'
ERROR = b'{"type":"error","error":{"type":"invalid_request_error","message":"no"}}'

STORIES = [
    Story("stream at once", waits=False),
    Story("stream that waits"),
    Story("stream with an alias", model="nick"),
    Story("stream that breaks off", breaks=True),
    Story("whole that waits", stream=False),
    Story("error at once", waits=False, status=400),
    Story("error on an open stream", status=400),
    Story("no room", max_wait="0"),
    Story("refused at first", waits=False, away="refused"),
    Story("refused after a wait", away="refused"),
    Story("loading at first", waits=False, away="loading"),
    Story("whole that meets a model that loads", stream=False, away="loading"),
    Story("translated that breaks off", kind="openai", breaks=True),
    Story("translated whole", kind="openai", stream=False, plain=True),
    Story("translated stream that came whole", kind="openai", plain=True),
    Story("learnt after a wait", refusal=NO_SUCH_PATH),
    Story("a refusal of the model", waits=False, refusal=NO_SUCH_MODEL),
]
