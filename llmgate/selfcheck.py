"""Holds the gates' counts against the open connections and against what the servers tell of their slots.

What it decides is in core.drift; what lasts is the alarm `drift`: an event, a line of the log, a remark in status and a
metric. Nobody is asked while nothing runs.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from llmgate.core.drift import Drift, Look, Task
from llmgate.core.gate import State
from llmgate.fleet import endpoint_names
from llmgate.roster import Roster

logger = logging.getLogger("llmgate")

LOOK_SECONDS = 2.5


class SelfCheck:
    """Of all upstreams of one roster."""

    def __init__(self, roster: Roster, clock: Callable[[], float] = time.monotonic) -> None:
        self._roster = roster
        self._clock = clock
        self._drifts: dict[str, Drift] = {}

    async def run(self) -> None:
        """For ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for name in list(self._roster.admission.upstreams()):
                try:
                    await self.look(name)
                except Exception:
                    logger.exception("%s could not be checked", name)

    async def look(self, name: str) -> None:
        """One look at one upstream; raises or clears its alarm."""
        admission = self._roster.admission
        if name not in admission.upstreams():  # a reload took it away while another was looked at
            return
        if not admission.gate(name).in_flight():
            self._drifts.pop(name, None)
            admission.set_alarm(name, "drift", None)
            return
        tasks = await self._tasks(name)
        if name not in admission.upstreams():  # a reload took it away meanwhile
            return
        tickets = admission.gate(name).in_flight()
        running = frozenset(ticket.number for ticket in tickets if ticket.state is State.RUNNING)
        look = Look(
            at=self._clock(),
            running=running,
            draining=frozenset(ticket.number for ticket in tickets) - running,
            connections=self._roster.in_use(name),
            tasks=tasks,
        )
        admission.set_alarm(name, "drift", self._drifts.setdefault(name, Drift()).judge(look))

    async def _tasks(self, name: str) -> frozenset[Task] | None:
        """What all of its servers work on, each task under its endpoint's name; None where one does not tell."""
        found: set[Task] = set()
        for endpoint in endpoint_names(name, self._roster.settings.upstreams[name]):
            watch = self._roster.lookout.slot_watches.get(endpoint)
            told = await watch.busy_tasks() if watch is not None else None
            if told is None:
                return None
            found |= {(f"{endpoint} {model}", task) for model, task in told}
        return frozenset(found)
