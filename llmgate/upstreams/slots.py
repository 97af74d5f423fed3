"""Watches the slots of a server that tells them: when one that drains is free, whether one of ours waits there, and
whether the server works on what it is silent about.

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
import math
import time
from collections.abc import Callable

import msgspec

from llmgate.core.slots import freed, waits_inside
from llmgate.errors import GateError, UpstreamDown, UpstreamFailed
from llmgate.protocols.slot_list import Slot
from llmgate.upstreams.answer import Timeouts
from llmgate.upstreams.pulse import Pulse
from llmgate.upstreams.slot_source import NotToldError, SlotSource
from llmgate.upstreams.upstream import Upstream

logger = logging.getLogger("llmgate")

FIRST_SECONDS = 0.02
LAST_SECONDS = 0.25
HIDDEN_WAIT_SECONDS = 1.0
"""A llama-server with a free slot sends the head of its answer within 0.1 s (llmgate's own measurement)."""

UNSEEN_SECONDS = 0.25
"""A request without a head may still be in the server's tokenizer for so long, where /slots does not show it. The time
begins when the server has answered a question that was asked after it: one that stood still has read neither, and takes
up connections in their order."""

ROOM_SECONDS = 8.0
"""Longest that a request with a slot here waits for one there: shorter than what the self-check takes for a drift."""

SETTLE_SECONDS = 0.25
"""After a look: what the server had sent until then is here by now."""

_AWAY = (502, 503, 504)
_LIMIT = 16 * 1024 * 1024
_TIMEOUTS = Timeouts(connect=1.0, first_byte=1.0, idle=1.0, total=1.0)


class _Drained(msgspec.Struct):
    release: Callable[[], None]
    seen_at: float
    """From here on the server's count tells of it; for ever: the server has answered nothing since."""
    alarm_at: float
    tasks: frozenset[tuple[str, int]] | None = None
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
        self._source = SlotSource(upstream, clock)
        self._pulse = Pulse(lambda: self._source.tells, lambda: self._news.set())
        upstream.watch_with(self._pulse)
        self._on_down = on_down
        self._on_overdue = on_overdue
        self._on_hidden_wait = on_hidden_wait
        self._clock = clock
        self._draining: list[_Drained] = []
        self._lost: list[Callable[[], None]] = []
        self._news = asyncio.Event()
        self._overdue = self._hidden_wait = self._was_late = False
        self._on_idle: Callable[[], object] | None = None
        self.has_strangers = False
        """When its slots were last looked at, others used some of them. Set by whoever looks."""
        self.held_back = 0
        """How many are in `wait_for_room`: nothing of them is at the server."""
        self._room = asyncio.Lock()
        self._let_in_at = -math.inf

    @property
    def is_source(self) -> bool:
        """Whether the server tells its busy slots."""
        return self._source.tells

    def forget(self) -> None:
        """The server was away: it may tell now what it did not tell before."""
        self._source.forget()

    def follow(self, release: Callable[[], None], seconds: float, *, had_head: bool = True) -> None:
        """One drains: `release` is called when the server is free of it; after `seconds` that is alarming. `had_head`:
        the server had begun to answer it."""
        now = self._clock()
        self._draining.append(_Drained(release, now if had_head else math.inf, now + seconds))
        self._news.set()

    def knock(self, release: Callable[[], None]) -> None:
        """The server broke off a request: `release` is called when it is known whether the server is still there."""
        self._lost.append(release)
        self._news.set()

    async def busy_slots(self, *, idle: bool) -> list[Slot] | None:
        """Those that are at work now; None where the server does not tell. `idle`: nothing of ours is there, so that a
        server that sleeps is not woken."""
        if not self.is_source:
            return None
        try:
            if idle and await self._source.is_asleep():
                return []
            return [slot for slot in await self._source.ask() if slot.is_processing]
        except (GateError, NotToldError):
            return None

    async def wait_for_room(self, seconds: float = math.inf) -> None:
        """Before a request is sent: while others use the server, until it shows a free slot, but `seconds` and
        ROOM_SECONDS at most: who does not go through the gate would have every slot else. One after the other: what was
        just sent may not be seen yet."""
        self.held_back += 1
        try:
            async with asyncio.timeout(min(seconds, ROOM_SECONDS)), self._room:
                await asyncio.sleep(max(0.0, self._let_in_at + UNSEEN_SECONDS - self._clock()))
                while self.has_strangers:
                    if await self._has_room():
                        break
                    await asyncio.sleep(LAST_SECONDS)
                self._let_in_at = self._clock()
        except TimeoutError:
            pass
        finally:
            self.held_back -= 1

    async def _has_room(self) -> bool:
        """True, too, where that cannot be told."""
        try:
            slots = await self._source.ask() if self.is_source else []
        except (GateError, NotToldError):
            return True
        return _busy(slots) < len(slots) or not slots

    def when_idle(self, on_idle: Callable[[], object]) -> None:
        """No more will drain here: `on_idle` is called as soon as nothing does."""
        self._on_idle = on_idle
        self._note_hidden_wait(False)
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
            await self._feel_pulse()
            pause = min(pause * 1.5, LAST_SECONDS)
        await self._feel_pulse()
        if self._on_idle is not None and self._pulse.is_idle:
            self._on_idle()
        await self._look_for_a_hidden_wait()
        self._news.clear()
        if not (self._draining or self._lost or self._pulse.is_wanted):
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
            status, _ = await self._upstream.ask(self._upstream.health_path, timeouts=_TIMEOUTS, limit=_LIMIT)
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
        asked = list(self._draining)
        for drained in await self._freed(asked) if asked else ():
            self._draining.remove(drained)
            drained.release()
        self._note_overdue(any(drained.alarm_at <= self._clock() for drained in self._draining))

    async def _freed(self, asked: list[_Drained]) -> list[_Drained]:
        now = self._clock()
        told = [drained for drained in asked if drained.seen_at <= now]
        before = self._upstream.traffic.with_head()
        try:
            slots = await self._source.ask()
        except UpstreamDown as error:
            if self._may_be_a_lost_packet(error):
                return []
            self._on_down()
            return asked
        except NotToldError:
            return [drained for drained in asked if drained.alarm_at <= self._clock()]
        except GateError:
            return []
        self._was_late = False
        for drained in asked:
            drained.seen_at = min(drained.seen_at, self._clock() + UNSEEN_SECONDS)
        ended = [drained for drained in told if _has_ended(drained, slots)]
        count = freed(len(told), _busy(slots), self._certain(before))
        others = [drained for drained in told if drained not in ended]
        return ended + others[: max(0, count - len(ended))]

    def _may_be_a_lost_packet(self, error: UpstreamDown) -> bool:
        """A refusal is clear at once; a connection that does not stand in time is no death but twice in a row."""
        self._was_late = isinstance(error.__cause__, TimeoutError) and not self._was_late
        return self._was_late

    async def _look_for_a_hidden_wait(self) -> None:
        since = self._upstream.traffic.oldest_without_head()
        if not self.is_source or since is None or self._clock() - since < HIDDEN_WAIT_SECONDS:
            self._note_hidden_wait(False)
            return
        before = self._upstream.traffic.with_head()
        try:
            slots = await self._source.ask()
        except (GateError, NotToldError):
            return
        still = self._upstream.traffic.oldest_without_head() == since
        self._note_hidden_wait(waits_inside(still, _busy(slots), len(slots), self._certain(before)))

    def _certain(self, before: frozenset[str]) -> int:
        return len(before & self._upstream.traffic.with_head())

    async def _feel_pulse(self) -> None:
        """Tells those who ask for it what the server does."""
        askers, look = self._pulse.take(), None
        if not askers:
            return
        try:
            look = await self._source.look()
            await asyncio.sleep(SETTLE_SECONDS)
        except (GateError, NotToldError):
            pass
        finally:
            for asker in askers:
                asker(look)

    def _note_overdue(self, overdue: bool) -> None:
        if overdue != self._overdue:
            self._overdue = overdue
            self._on_overdue(overdue)

    def _note_hidden_wait(self, waits: bool) -> None:
        if waits != self._hidden_wait:
            self._hidden_wait = waits
            self._on_hidden_wait(waits)


def _has_ended(drained: _Drained, slots: list[Slot]) -> bool:
    busy = {slot.task for slot in slots if slot.is_processing}
    if None in busy:
        return False
    tasks = frozenset(task for task in busy if task is not None)
    if drained.tasks is None:
        drained.tasks = tasks
    return not drained.tasks & tasks


def _busy(slots: list[Slot]) -> int:
    return sum(slot.is_processing for slot in slots)
