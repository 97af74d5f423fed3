"""Holds the gates' counts against the open connections and against what the servers tell of their slots.

What it decides is in core.drift; what lasts is the alarm `drift`: an event, a line of the log, a remark in status and a
metric. Connections are counted all the time. A server is asked for its slots while it has something of ours, and while
it has not with growing pauses, since the question keeps a llama-server from sleeping (--sleep-idle-seconds); one that
sleeps is not woken. Whoever uses a server beside the gate is noted with the SlotWatch of this server, which then looks
before each request that is sent there.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping

from llmgate.core.account import Account
from llmgate.core.drift import Drift, Look
from llmgate.core.ticket import State
from llmgate.fleet import endpoint_names
from llmgate.protocols.slot_list import Slot
from llmgate.roster import Roster

logger = logging.getLogger("llmgate")

Told = Mapping[str, list[Slot] | None]
"""The busy slots of each endpoint; None of one that does not tell them. Empty: none was asked."""

Sent = Mapping[tuple[str, int], Account | None]
"""See Roster.sent_to."""

LOOK_SECONDS = 2.5
LONGEST_PAUSE_SECONDS = 600.0
"""Between two questions to a server that has nothing of ours, and works for nobody else."""


class _Upstream:
    """What is kept of one."""

    __slots__ = ("ask_at", "drift", "pause")

    def __init__(self) -> None:
        self.drift = Drift()
        self.pause = LOOK_SECONDS
        """To the question after the next, while nothing is going on."""
        self.ask_at = 0.0


class SelfCheck:
    """Of all upstreams of one roster."""

    def __init__(self, roster: Roster, clock: Callable[[], float] = time.monotonic) -> None:
        self._roster = roster
        self._clock = clock
        self._known: dict[str, _Upstream] = {}

    async def run(self) -> None:
        """For ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            upstreams = list(self._roster.admission.upstreams())
            self._known = {name: known for name, known in self._known.items() if name in upstreams}
            for name in upstreams:
                try:
                    await self.look(name)
                except Exception:
                    logger.exception("%s could not be checked", name)

    async def look(self, name: str) -> None:
        """One look at one upstream; raises or clears its alarm."""
        roster = self._roster
        if name not in roster.admission.upstreams():  # a reload took it away while another was looked at
            return
        known = self._known.setdefault(name, _Upstream())
        before, servers = roster.sent_to(name), roster.servers
        told = await self._busy_slots(name, known, idle=not before)
        if roster.servers is not servers:  # a reload came meanwhile: what was told may be another server's
            return
        sent = {**before, **roster.sent_to(name)}
        look = self._make_look(name, told, sent)
        self._note_strangers(name, told, sent)
        if sent or look.busy:
            known.pause, known.ask_at = LOOK_SECONDS, 0.0
        roster.admission.set_alarm(name, "drift", known.drift.judge(look))

    def _make_look(self, name: str, told: Told, sent: Sent) -> Look:
        gate, held_back, slots = self._roster.admission.gate(name), self._held_back(), _all_of(told)
        tickets = gate.in_flight()
        running = frozenset(ticket.number for ticket in tickets if ticket.state is State.RUNNING)
        tasks = None if slots is None else [slot.task for slot in slots]
        return Look(
            at=self._clock(),
            running=running,
            draining=frozenset(ticket.number for ticket in tickets) - running,
            connections=self._roster.in_use(name),
            tasks=None if tasks is None or None in tasks else frozenset(task for task in tasks if task is not None),
            others=len(sent) - len(tickets),
            asides=self._roster.asides(name),
            held_back=sum(held_back[account] for account in set(gate.accounts().values())),
            busy=None if slots is None else len(slots),
        )

    async def _busy_slots(self, name: str, known: _Upstream, *, idle: bool) -> Told:
        """Of all of its servers, each with its endpoint's name; nothing where they are not to be asked yet."""
        if idle:
            if self._clock() < known.ask_at:
                return {}
            known.ask_at = self._clock() + known.pause
            known.pause = min(2 * known.pause, LONGEST_PAUSE_SECONDS)
        found: dict[str, list[Slot] | None] = {}
        gate = self._roster.admission.gate(name)
        endpoints = endpoint_names(name, self._roster.settings.upstreams[name])
        watches = {it: self._roster.lookout.slot_watches.get(it) if gate.is_up(it) else None for it in endpoints}
        for endpoint, watch in watches.items():  # none is looked up after another was asked: a reload may come
            told = await watch.busy_slots(idle=idle) if watch is not None else None
            for slot in told or ():
                slot.model = f"{endpoint} {slot.model}"
            found[endpoint] = told
        return found

    def _note_strangers(self, name: str, told: Told, sent: Sent) -> None:
        """Server by server: one that told nothing this time has those it had."""
        accounts, held_back = self._roster.admission.gate(name).accounts(), self._held_back()
        for endpoint, slots in told.items():
            watch, account = self._roster.lookout.slot_watches.get(endpoint), accounts.get(endpoint)
            if watch is None or account is None or slots is None:
                continue
            ours = sum(there is account for there in sent.values()) - held_back[account]
            watch.has_strangers = len(slots) > max(0, ours)

    def _held_back(self) -> Counter[Account]:
        """By server, how many requests with a slot here were not sent yet, since others use it."""
        count: Counter[Account] = Counter()
        for name in self._roster.admission.upstreams():
            for endpoint, account in self._roster.admission.gate(name).accounts().items():
                watch = self._roster.lookout.slot_watches.get(endpoint)
                count[account] += watch.held_back if watch is not None else 0
        return count


def _all_of(told: Told) -> list[Slot] | None:
    """None where one does not tell, or none was asked."""
    every: list[Slot] = []
    for slots in told.values():
        if slots is None:
            return None
        every += slots
    return every if told else None
