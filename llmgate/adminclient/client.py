"""The daemon behind one admin socket: every call of its API as a method, for commands and for programs with a loop."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

from llmgate.adminapi import (
    Config,
    LimitsAnswer,
    Reloaded,
    RequestDetail,
    Requests,
    Status,
    UpstreamAnswer,
    Upstreams,
)
from llmgate.adminclient import calls
from llmgate.adminclient.watch import Watch
from llmgate.adminclient.wire import Ask, perform, perform_async

if TYPE_CHECKING:
    from llmgate.adminclient.limits import Limit

Kind = TypeVar("Kind")


def find_socket(candidates: Iterable[Path]) -> Path:
    """The first candidate that exists, else the first: so that an error names the one that is expected.

    One in a folder that we may not enter counts as existing: the error then says what to do about that.
    """
    paths = list(candidates)
    return next((path for path in paths if _may_exist(path)), paths[0])


def _may_exist(path: Path) -> bool:
    try:
        path.stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def _nothing(_: str) -> None:
    """Nobody listens."""


class _Client:
    """`command` is what the advice in errors tells to run again; `limit` how many seconds a call may take, where that
    is less than it may usually; `told` hears of each call that was answered, and of each watch; `settings` is the file
    that the command line named, with which the daemon is to be started."""

    def __init__(
        self,
        socket: Path,
        *,
        command: str = "status",
        limit: float | None = None,
        told: Callable[[str], None] | None = None,
        settings: Path | None = None,
    ) -> None:
        self.socket = socket
        self._command = command
        self._limit = limit
        self._told = told or _nothing
        self._settings = settings

    def within(self, seconds: float | None) -> Self:
        """The same client, whose calls get so many seconds at most; None = as long as they usually may take."""
        return type(self)(self.socket, command=self._command, limit=seconds, told=self._told, settings=self._settings)

    def watch(self, last_event_id: str = "", *, events: int | None = None) -> Watch:
        """The feed from now on, or from after that event (Watch.last_event_id). Its snapshot has so many of the newest
        events, if they are kept; None = as many as is usual. Use it as `async with`, `async for`."""
        self._told(f"{self.socket}: GET /v1/events")
        return Watch(self.socket, self._command, last_event_id, events, self._settings)


class AdminClient(_Client):
    """Every call raises DaemonNotRunning when nobody answers, AdminRefusal where the daemon does not do it, with its
    code, and AdminError for everything else."""

    def status(self) -> Status:
        return self._do(calls.status())

    def upstreams(self) -> Upstreams:
        return self._do(calls.upstreams())

    def upstream(self, name: str) -> UpstreamAnswer:
        return self._do(calls.upstream(name))

    def requests(self, **filters: Unpack[calls.Filters]) -> Requests:
        """Those that wait, run or drain, or those of one state (a WantedState); `session` may be cut short."""
        return self._do(calls.requests(filters))

    def request(self, request_id: str) -> RequestDetail:
        return self._do(calls.request(request_id))

    def pause(self, name: str) -> UpstreamAnswer:
        return self._do(calls.change_mode(name, "pause"))

    def resume(self, name: str) -> UpstreamAnswer:
        return self._do(calls.change_mode(name, "resume"))

    def drain(self, name: str) -> UpstreamAnswer:
        return self._do(calls.change_mode(name, "drain"))

    def set_limits(self, name: str, **limits: "Limit") -> LimitsAnswer:
        """Any of max_concurrent (also "auto"), max_queued (None: no limit), queue_timeout (seconds; None: for ever).
        `persisted=True` sets nothing, but tells that they stand in the settings file, too."""
        return self._do(calls.set_limits(name, limits))

    def cancel(self, request_id: str) -> RequestDetail:
        return self._do(calls.cancel(request_id))

    def move(self, request_id: str) -> RequestDetail:
        """To the front of its line."""
        return self._do(calls.move(request_id))

    def config(self) -> Config:
        return self._do(calls.config())

    def reload(self) -> Reloaded:
        return self._do(calls.reload())

    def metrics(self) -> bytes:
        return self._do(calls.metrics())

    def openapi(self) -> bytes:
        """The OpenAPI document of the admin API, as JSON."""
        return self._do(calls.openapi())

    def _do(self, ask: Ask[Kind]) -> Kind:
        return perform(ask, self.socket, self._command, self._limit, self._told, self._settings)


class AsyncAdminClient(_Client):
    """The same for programs with a loop."""

    async def status(self) -> Status:
        return await self._do(calls.status())

    async def upstreams(self) -> Upstreams:
        return await self._do(calls.upstreams())

    async def upstream(self, name: str) -> UpstreamAnswer:
        return await self._do(calls.upstream(name))

    async def requests(self, **filters: Unpack[calls.Filters]) -> Requests:
        """Those that wait, run or drain, or those of one state (a WantedState); `session` may be cut short."""
        return await self._do(calls.requests(filters))

    async def ended(self) -> Requests:
        """The requests that ended, the newest first."""
        return await self._do(calls.requests({"state": "done"}))

    async def request(self, request_id: str) -> RequestDetail:
        return await self._do(calls.request(request_id))

    async def pause(self, name: str) -> UpstreamAnswer:
        return await self._do(calls.change_mode(name, "pause"))

    async def resume(self, name: str) -> UpstreamAnswer:
        return await self._do(calls.change_mode(name, "resume"))

    async def drain(self, name: str) -> UpstreamAnswer:
        return await self._do(calls.change_mode(name, "drain"))

    async def set_limits(self, name: str, **limits: "Limit") -> LimitsAnswer:
        """Any of max_concurrent (also "auto"), max_queued (None: no limit), queue_timeout (seconds; None: for ever).
        `persisted=True` sets nothing, but tells that they stand in the settings file, too."""
        return await self._do(calls.set_limits(name, limits))

    async def cancel(self, request_id: str) -> RequestDetail:
        return await self._do(calls.cancel(request_id))

    async def move(self, request_id: str) -> RequestDetail:
        """To the front of its line."""
        return await self._do(calls.move(request_id))

    async def config(self) -> Config:
        return await self._do(calls.config())

    async def reload(self) -> Reloaded:
        return await self._do(calls.reload())

    async def metrics(self) -> bytes:
        return await self._do(calls.metrics())

    async def openapi(self) -> bytes:
        """The OpenAPI document of the admin API, as JSON."""
        return await self._do(calls.openapi())

    async def _do(self, ask: Ask[Kind]) -> Kind:
        return await perform_async(ask, self.socket, self._command, self._limit, self._told, self._settings)
