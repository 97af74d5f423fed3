"""Looks after the servers: asks those that are down whether they are back, and raises the alarms that they tell.

A question is `GET /health`, or `/v1/models` of a server of kind openai, which load no model anywhere: llama-server and
vLLM answer the one, and any other server's "no such path" is an answer as well. One that is down is asked again and
again, with growing pauses; one that has nothing to do now and then. While requests are there, they tell more than a
question would.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

from llmgate.admission.base import LOADING_MODEL, NO_CONNECTION
from llmgate.admission.local import LocalAdmission
from llmgate.core.events import Alarm, EndpointChanged, Event
from llmgate.errors import GateError, UpstreamDown
from llmgate.protocols.speech import is_loading
from llmgate.upstreams.answer import Timeouts
from llmgate.upstreams.slots import SlotWatch
from llmgate.upstreams.upstream import Upstream

logger = logging.getLogger("llmgate")

FIRST_PAUSE_SECONDS = 0.5
LAST_PAUSE_SECONDS = 5.0
IDLE_SECONDS = 15.0

NO_ANSWER = "it does not answer"

_AWAY = (502, 503, 504)
_LIMIT = 64 * 1024
_TIMEOUTS = Timeouts(connect=5.0, first_byte=10.0, idle=10.0, total=10.0)

_TEXTS: Mapping[Alarm, str] = {
    "draining": "draining: the server is still busy with a request that is over, for longer than release_timeout",
    "hidden_wait": "hidden wait: the server holds back a request that has a slot here; who else uses this server?",
}


class _Watched:
    """One endpoint."""

    __slots__ = ("answers", "down", "next_at", "upstream", "why")

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.answers = False
        """It was well once, by its own word. Of one that never was, no answer of another kind is held against it: there
        are proxies that know nothing of /health."""
        self.down = asyncio.Event()
        self.why = ""
        self.next_at = 0.0
        """When it is asked next, on the monotonic clock."""


class Lookout:
    """Of all endpoints of one daemon. Every event of the gates must be told to `apply`."""

    def __init__(
        self,
        endpoints: Mapping[str, Upstream],
        owners: Mapping[str, str],
        admission: LocalAdmission,
        on_back: Callable[[str], None],
    ) -> None:
        """`endpoints` and `owners` (the upstream) by the endpoint's name; `on_back`: that one was down and is back."""
        self._endpoints = endpoints
        self._admission = admission
        self._on_back = on_back
        self._watched: dict[str, _Watched] = {}
        self.slot_watches: dict[str, SlotWatch] = {}
        self._gone: set[_Watched] = set()
        """Those that are there no more, and where something drains still."""
        self._overdue: set[_Watched] = set()
        self._hidden: set[_Watched] = set()
        self._group: asyncio.TaskGroup | None = None
        """That of `run`."""
        self._tasks: dict[str, list[asyncio.Task[None]]] = {}
        for name in endpoints:
            self._add(name, owners[name])

    def apply(self, event: Event) -> None:
        """Takes in one event of a gate."""
        if isinstance(event, EndpointChanged):
            watched = self._watched.get(event.endpoint)
            if watched is None:  # a reload takes it away
                return
            if event.up:
                watched.down.clear()
            else:
                watched.why = event.reason
                watched.next_at = time.monotonic() + FIRST_PAUSE_SECONDS
                watched.down.set()

    def detail(self, upstream: str) -> str:
        """Why it is down and when it is asked next, for a person; "" where none of its endpoints is."""
        down = [watched for watched in self._watched.values() if watched.upstream == upstream and watched.down.is_set()]
        if not down:
            return ""
        soonest = min(down, key=lambda watched: watched.next_at)
        seconds = max(0, round(soonest.next_at - time.monotonic()))
        return f"{soonest.why}, next probe in {seconds}s"

    async def run(self) -> None:
        """For ever."""
        async with asyncio.TaskGroup() as self._group:
            for name in self._endpoints:
                self._begin(name)
            await asyncio.Event().wait()

    def rename(self, names: Mapping[str, str]) -> None:
        """Upstreams that are called otherwise now: the new name by the old one."""
        for watched in (*self._watched.values(), *self._gone):
            watched.upstream = names.get(watched.upstream, watched.upstream)

    def replace(self, endpoints: Mapping[str, Upstream], owners: Mapping[str, str], kept: Mapping[str, str]) -> None:
        """Other servers, after a reload; `kept` is the old name of each that was one before. One that is the same
        object under the same name is looked after as before.

        The slots that drain at one that is gone are watched until the last of them is free.
        """
        answered = {name for name, watched in self._watched.items() if watched.answers}
        for name, endpoint in list(self._endpoints.items()):
            if endpoints.get(name) is not endpoint:
                self._drop(name)
        self._endpoints = endpoints
        for name in endpoints.keys() - self._watched.keys():
            self._add(name, owners[name])
            self._watched[name].answers = kept.get(name) in answered
            self._begin(name)

    def _add(self, name: str, upstream: str) -> None:
        watched = self._watched[name] = _Watched(upstream)
        self.slot_watches[name] = self._slot_watch(name, self._endpoints[name])
        state = self._admission.gate(upstream).endpoints().get(name)
        if state is not None and not state.up:
            watched.why = state.reason
            watched.down.set()

    def _begin(self, name: str) -> None:
        if self._group is not None:
            looking = self._group.create_task(self._follow(name, self._watched[name]))
            self._tasks[name] = [looking, self._group.create_task(self.slot_watches[name].run())]

    def _drop(self, name: str) -> None:
        watched, watch = self._watched.pop(name), self.slot_watches.pop(name)
        if not self._tasks:
            return
        looking, watching = self._tasks.pop(name)
        looking.cancel()
        self._gone.add(watched)

        def end() -> None:
            watching.cancel()
            self._gone.discard(watched)

        watch.when_idle(end)

    async def _follow(self, name: str, watched: _Watched) -> None:
        while True:
            try:
                if not watched.down.is_set():
                    await self._look_at_one_that_is_up(name, watched)
                else:
                    await self._wait_for_one_that_is_down(name, watched)
            except Exception:
                logger.exception("%s could not be looked after", name)
                await asyncio.sleep(LAST_PAUSE_SECONDS)

    async def _look_at_one_that_is_up(self, name: str, watched: _Watched) -> None:
        if not self._in_flight(name, watched):
            away = await self._ask(name)
            if away == NO_ANSWER:  # once is no death
                await asyncio.sleep(FIRST_PAUSE_SECONDS)
                away = await self._ask(name)
            if away and not self._in_flight(name, watched):
                self._admission.set_endpoint(watched.upstream, name, up=False, reason=away)
                return
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                await watched.down.wait()
        except TimeoutError:
            pass

    async def _wait_for_one_that_is_down(self, name: str, watched: _Watched) -> None:
        pause = FIRST_PAUSE_SECONDS
        while watched.down.is_set():
            watched.next_at = time.monotonic() + pause
            await asyncio.sleep(pause)
            away = await self._ask(name)
            if not away:
                self._come_back(name, watched)
                return
            watched.why = away
            pause = min(pause * 2, LAST_PAUSE_SECONDS)

    def _come_back(self, name: str, watched: _Watched) -> None:
        self.slot_watches[name].forget()
        self._on_back(name)
        self._admission.set_endpoint(watched.upstream, name, up=True)

    def _in_flight(self, name: str, watched: _Watched) -> int:
        return self._admission.gate(watched.upstream).endpoints()[name].in_flight

    async def _ask(self, name: str) -> str:
        """Why it cannot take a request, for a person; "" where it can."""
        watched = self._watched[name]
        try:
            endpoint = self._endpoints[name]
            status, body = await endpoint.ask(endpoint.health_path, timeouts=_TIMEOUTS, limit=_LIMIT)
        except UpstreamDown:
            return NO_CONNECTION
        except GateError:
            return NO_ANSWER if watched.answers else ""
        if is_loading(status, body):
            return LOADING_MODEL
        if status in _AWAY:
            return "it says that it is not available" if watched.answers else ""
        watched.answers = True
        return ""

    # ---- alarms

    def _slot_watch(self, name: str, endpoint: Upstream) -> SlotWatch:
        watched = self._watched[name]
        return SlotWatch(
            endpoint,
            lambda: self._note_down(watched, name, endpoint),
            lambda overdue: self._note(self._overdue, watched, overdue, "draining"),
            lambda waits: self._note(self._hidden, watched, waits, "hidden_wait"),
        )

    def _note_down(self, watched: _Watched, name: str, endpoint: Upstream) -> None:
        if self._endpoints.get(name) is endpoint:  # not one that a reload took away
            self._admission.set_endpoint(watched.upstream, name, up=False, reason=NO_CONNECTION)

    def _note(self, those: set[_Watched], watched: _Watched, raised: bool, alarm: Alarm) -> None:
        """An upstream has an alarm while one of its endpoints has it."""
        (those.add if raised else those.discard)(watched)
        upstream = watched.upstream
        still = any(other.upstream == upstream for other in those)
        if upstream in self._admission.upstreams():
            self._admission.set_alarm(upstream, alarm, _TEXTS[alarm] if still else None)
