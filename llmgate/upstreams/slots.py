"""Asks a llama-server for its busy slots, to know when one that drains is free, and whether one of ours waits there.

`GET /slots` (llama-server; on unless it was started with --no-slots) lists each slot with `is_processing`. It answers
at once, also in the middle of a batch, and is true to about 50 ms (llmgate's own measurement). It does not show
requests that the server holds back.

Invariants:
- A slot that drains is given back once: by the server's own count, or, where the server does not tell it, after the
  time that whoever drained it allows. A server that takes no connection has no busy slots; that it is down is told
  before they are given back, so that nobody is sent to it.
- A drained request can only be among the tasks that are busy when its server is first asked after it; once none of
  them is busy any more, it is gone, whatever else came meanwhile.
- Only requests that had their head before a question was asked, and were not over when it was answered, count as busy
  slots of ours: see core.slots. Only those that drained before it was asked are given back by its answer.
"""

import asyncio
import logging
import time
from collections.abc import Callable

import msgspec

from llmgate.core.slots import freed, waits_inside
from llmgate.errors import GateError, UpstreamDown, UpstreamFailed
from llmgate.protocols.decoding import decoded
from llmgate.upstreams.answer import Timeouts
from llmgate.upstreams.upstream import Upstream

logger = logging.getLogger("llmgate")

FIRST_SECONDS = 0.02
LAST_SECONDS = 0.25
HIDDEN_WAIT_SECONDS = 1.0
"""A llama-server with a free slot sends the head of its answer within 0.1 s (llmgate's own measurement)."""

UNSEEN_SECONDS = 0.25
"""A request without a head may still be in the server's tokenizer for so long, where /slots does not show it."""

REFUSED_SECONDS = 60.0
"""How long a server that does not tell its slots is not asked for them again."""

_OK = 200
_AWAY = (502, 503, 504)
_LIMIT = 16 * 1024 * 1024
_TIMEOUTS = Timeouts(connect=1.0, first_byte=1.0, idle=1.0, total=1.0)


class _Slot(msgspec.Struct):
    is_processing: bool
    id_task: int | None = None
    """Of the request that it works on; older servers do not tell it."""


_SLOTS = msgspec.json.Decoder(list[_Slot])


class _NotToldError(Exception):
    """This server does not tell its slots."""


class _Drained(msgspec.Struct):
    release: Callable[[], None]
    seen_at: float
    """From here on the server's count tells of it."""
    alarm_at: float
    tasks: frozenset[int] | None = None
    """Those that were busy at the first look after it; None: there was none yet, or the server does not tell them."""


class SlotWatch:
    """Of one server. `run` must be running for anything to be given back."""

    def __init__(
        self,
        upstream: Upstream,
        on_down: Callable[[], None],
        on_overdue: Callable[[bool], None],
        on_hidden_wait: Callable[[bool], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_down`: it takes no connection. With every change: `on_overdue`, whether one drains for longer than it
        should, and `on_hidden_wait`, whether one of ours waits in the server."""
        self._upstream = upstream
        self._on_down = on_down
        self._on_overdue = on_overdue
        self._on_hidden_wait = on_hidden_wait
        self._clock = clock
        self._draining: list[_Drained] = []
        self._lost: list[Callable[[], None]] = []
        self._news = asyncio.Event()
        self._refused_until = 0.0
        self._overdue = self._hidden_wait = False

    @property
    def is_source(self) -> bool:
        """Whether the server tells its busy slots."""
        return self._upstream.speech.kind == "llama-server" and self._clock() >= self._refused_until

    def forget(self) -> None:
        """The server was away: it may tell now what it did not tell before."""
        self._refused_until = 0.0

    def follow(self, release: Callable[[], None], seconds: float, *, had_head: bool = True) -> None:
        """One drains: `release` is called when the server is free of it; after `seconds` that is alarming. `had_head`:
        the server had begun to answer it."""
        now = self._clock()
        self._draining.append(_Drained(release, now if had_head else now + UNSEEN_SECONDS, now + seconds))
        self._news.set()

    def knock(self, release: Callable[[], None]) -> None:
        """The server broke off a request: `release` is called when it is known whether the server is still there."""
        self._lost.append(release)
        self._news.set()

    async def run(self) -> None:
        """For ever: looks closely while one drains, and now and then whether one waits for its head."""
        while True:
            try:
                await self._look()
            except Exception:
                logger.exception("the slots of %s could not be watched", self._upstream.name)
                await asyncio.sleep(LAST_SECONDS)

    async def _look(self) -> None:
        pause = FIRST_SECONDS
        while self._lost or self._draining:
            await asyncio.sleep(pause)
            await self._release_lost()
            await self._release_drained()
            await self._look_for_a_hidden_wait()
            pause = min(pause * 1.5, LAST_SECONDS)
        await self._look_for_a_hidden_wait()
        self._news.clear()
        if not (self._draining or self._lost):
            try:
                async with asyncio.timeout(HIDDEN_WAIT_SECONDS):
                    await self._news.wait()
            except TimeoutError:
                pass

    async def _release_lost(self) -> None:
        lost, self._lost = self._lost, []
        if not lost:
            return
        try:
            status, _ = await self._upstream.ask(b"/health", timeouts=_TIMEOUTS, limit=_LIMIT)
            if status in _AWAY:
                self._on_down()
        except (UpstreamDown, UpstreamFailed):
            self._on_down()
        except GateError:
            pass  # it may be there, and busy
        finally:
            for release in lost:
                release()

    async def _release_drained(self) -> None:
        """Those that the server has certainly left; which of several that are alike is no matter."""
        now = self._clock()
        told = [drained for drained in self._draining if drained.seen_at <= now]
        for drained in await self._freed(told) if told else ():
            self._draining.remove(drained)
            drained.release()
        self._note_overdue(any(drained.alarm_at <= self._clock() for drained in self._draining))

    async def _freed(self, told: list[_Drained]) -> list[_Drained]:
        before = self._upstream.traffic.with_head()
        try:
            slots = await self._ask()
        except UpstreamDown:
            self._on_down()
            return told
        except _NotToldError:
            return [drained for drained in told if drained.alarm_at <= self._clock()]
        except GateError:
            return []
        ended = [drained for drained in told if _has_ended(drained, slots)]
        count = freed(len(told), _busy(slots), self._certain(before))
        others = [drained for drained in told if drained not in ended]
        return ended + others[: max(0, count - len(ended))]

    async def _look_for_a_hidden_wait(self) -> None:
        since = self._upstream.traffic.oldest_without_head()
        if not self.is_source or since is None or self._clock() - since < HIDDEN_WAIT_SECONDS:
            self._note_hidden_wait(False)
            return
        before = self._upstream.traffic.with_head()
        try:
            slots = await self._ask()
        except (GateError, _NotToldError):
            return
        still = self._upstream.traffic.oldest_without_head() == since
        self._note_hidden_wait(waits_inside(still, _busy(slots), len(slots), self._certain(before)))

    def _certain(self, before: frozenset[str]) -> int:
        return len(before & self._upstream.traffic.with_head())

    async def _ask(self) -> list[_Slot]:
        status, body = await self._upstream.ask(b"/slots", timeouts=_TIMEOUTS, limit=_LIMIT)
        slots = decoded(_SLOTS, body) if status == _OK else None
        if slots is None:  # such as a router of several models, one that asks for a key, another server in its place
            self._refused_until = self._clock() + REFUSED_SECONDS
            raise _NotToldError
        return slots

    def _note_overdue(self, overdue: bool) -> None:
        if overdue != self._overdue:
            self._overdue = overdue
            self._on_overdue(overdue)

    def _note_hidden_wait(self, waits: bool) -> None:
        if waits != self._hidden_wait:
            self._hidden_wait = waits
            self._on_hidden_wait(waits)


def _has_ended(drained: _Drained, slots: list[_Slot]) -> bool:
    busy = {slot.id_task for slot in slots if slot.is_processing}
    if None in busy:
        return False
    tasks = frozenset(task for task in busy if task is not None)
    if drained.tasks is None:
        drained.tasks = tasks
    return not drained.tasks & tasks


def _busy(slots: list[_Slot]) -> int:
    return sum(slot.is_processing for slot in slots)
