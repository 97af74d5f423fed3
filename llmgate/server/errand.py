"""What is the same for every request that may take a slot: it is listened for its client, and ended from outside once.

A client that leaves cancels the task of its request, from `_client_gone`, in whatever state it is; so does `stop`, at
shutdown. Whoever comes first says how it ended.

An errand, its reply and its answer know each other. When it is over they are taken apart, and so is the trail of the
error that ended it: what a request held goes then, and not when the collector of circles comes, which may take minutes.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.types import Receive, Scope, Send

from llmgate.core.keys import ClientKey
from llmgate.errors import ClientStalled, GateError, Outcome, Unauthorized
from llmgate.server.asgi import CONNECTION, INTERNAL, Connection, Headers, access_of, headers_of, new_request_id
from llmgate.server.listener import Listener
from llmgate.server.permission import counted
from llmgate.server.reply import Reply, nothing
from llmgate.server.services import Services

if TYPE_CHECKING:
    from llmgate.admission.base import Place

logger = logging.getLogger("llmgate")

_KEY_GONE = "llmgate: the key of this request was taken away before it was sent on (UNAUTHORIZED)"


class ClientGone(GateError):
    """Nobody is there to be told."""


class Errand:
    """One request from the moment in which its body is here. A kind of request adds the methods that are not there."""

    __slots__ = (
        "_connection",
        "_headers",
        "_id",
        "_outcome",
        "_place",
        "_receive",
        "_reply",
        "_scope",
        "_services",
        "_stopped_by",
        "_task",
    )

    def __init__(self, services: Services, scope: Scope, receive: Receive, send: Send) -> None:
        self._services = services
        self._scope = scope
        self._receive = receive
        self._headers: Headers = headers_of(scope)
        self._connection: Connection | None = scope.get("extensions", {}).get(CONNECTION)
        self._reply = Reply(send, services.settings.server.client_stall_timeout, self._connection)
        self._id = new_request_id()
        self._outcome: Outcome | None = None
        """Why we cut it, once we do."""
        self._stopped_by: GateError | None = None
        self._place: Place | None = None
        """At the gate of its upstream; None: not yet, or it needs none."""
        self._task: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        """See services.Stoppable."""
        return self._id

    async def _live(self, work: Callable[[], Awaitable[None]]) -> None:
        """Does the work, with an ear on the client. Raises nothing but foreign cancellation."""
        self._task = asyncio.current_task()
        self._services.running.add(self)
        self._reply.on_stalled = self._client_stalled
        try:
            with Listener(self._receive, self._client_gone):
                await self._serve(work)
        finally:
            self._services.running.discard(self)
            self._let_go()

    def _let_go(self) -> None:
        """It is over: nothing that it made leads back to it any more."""
        self._reply.on_stalled = self._reply.on_writable = nothing

    async def _serve(self, work: Callable[[], Awaitable[None]]) -> None:
        """Every way it may end leads through here."""
        try:
            try:
                self._check_key_again()
                with counted(self._services, access_of(self._scope)):
                    await work()
            except Exception as error:
                self._fail(self._as_told(error))
                _forget_trail(error)
            await self._reply.wait_sent()
        except asyncio.CancelledError:
            if self._stopped_by is None or self._task is None:
                self._outcome = self._outcome or "refused"  # not by us: the server shuts down
                raise
            self._task.uncancel()
            self._fail(self._stopped_by)
            await self._reply.wait_sent()

    async def _refuse(self, error: Exception) -> None:
        """Ends it before it was one of those that run."""
        self._fail(self._as_told(error))
        await self._reply.wait_sent()

    def _as_told(self, error: Exception) -> GateError:
        """What a client is told of it; what went wrong in here is for the log."""
        if isinstance(error, GateError):
            return error
        logger.error("request %s failed inside llmgate", self._id, exc_info=error)
        return GateError(INTERNAL)

    def give_up(self) -> None:
        """Ends it without another word, for a client that does not take its error."""
        self._give_up_client()

    def stop(self, error: GateError) -> None:
        """Ends it wherever it is; its client gets `error`."""
        self._cut(error.outcome, error)

    def check_key(self) -> None:
        """The keys of clients are other ones: where its own opens it no more it ends, unless it was sent already, or
        has its answer."""
        is_over = self._stopped_by is not None or self._reply.finished
        if is_over or not self._is_unsent or (error := self._key_error()) is None:
            return
        self.stop(error)
        if self._place is not None:
            self._place.give_up(error.outcome, error.reason)  # at once, so that no slot is given to it any more

    def _check_key_again(self) -> None:
        """A reload may have come while its body was read."""
        if error := self._key_error():
            raise error

    def _key_error(self) -> GateError | None:
        """What its client is told whose key does not open it any more."""
        key, services = access_of(self._scope).key, self._services
        if key is None or (now := services.keys.now(key)) == key:
            return None
        error = Unauthorized(_KEY_GONE) if now is None else self._narrowed_error(now)
        if error is not None:
            services.turned_away.note(error, f"a waiting request with key={key.name}, which changed", key.name)
        return error

    @property
    def _is_unsent(self) -> bool:
        """No call was made for it that may have begun anything."""
        raise NotImplementedError

    def _narrowed_error(self, key: ClientKey) -> GateError | None:
        """The same where its key may not use its model any more."""
        raise NotImplementedError

    def _fail(self, error: GateError) -> None:
        """Tells the client, where it can still be told."""
        raise NotImplementedError

    def _client_gone(self) -> None:
        """The client left. Also called when its answer is complete: then nothing is left to do."""
        raise NotImplementedError

    def _client_stalled(self) -> None:
        if self._stopped_by is not None:
            self._give_up_client()
        self._cut("client_stalled", ClientStalled("llmgate: the client stopped reading (CLIENT_STALLED)"))

    def _cut(self, outcome: Outcome, error: GateError) -> None:
        if self._stopped_by is None and self._task is not None:
            self._stopped_by, self._outcome = error, outcome
            self._task.cancel()

    def _give_up_client(self) -> None:
        """No more can be said on this connection: it is closed at once, so that nothing on it looks complete."""
        self._reply.stop()
        if self._connection is not None:
            self._connection.abort()


def _forget_trail(error: BaseException | None) -> None:
    """The frames that it came through hold the request, and some of them the error itself."""
    while error is not None and error.__traceback__ is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__
