"""A hall of one upstream: an admission whose events are kept, and requests that write down what they are told."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from virtual_loop import this_loop

from llmgate.admission.local import LocalAdmission
from llmgate.admission.place import LocalPlace
from llmgate.core.caller import Caller
from llmgate.core.events import Admitted, Event, Limits, TicketEvent
from llmgate.core.gate import Gate
from llmgate.errors import GateError, Outcome

if TYPE_CHECKING:
    from llmgate.admission.desk import Desk

UPSTREAM = "reasoning"


class Hall:
    """`story` has what everybody noticed, in the order in which they noticed it."""

    def __init__(
        self,
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
        *,
        endpoints: Mapping[str, int] | None = None,
        holds: bool = True,
    ) -> None:
        self.events: list[Event] = []
        self.story: list[str] = []
        self.heard: dict[str, list[int]] = {}
        self.admission = LocalAdmission([Gate(UPSTREAM, limits, endpoints, holds=holds)], self.events.append, clock)
        self.desk: Desk = self.admission._desks[UPSTREAM]

    @property
    def gate(self) -> Gate:
        return self.desk.gate

    def place(self, name: str, max_wait: float | None = None) -> LocalPlace:
        return self.admission.enter(UPSTREAM, Caller(id=name), max_wait=max_wait)

    async def take(self, name: str, max_wait: float | None = None) -> LocalPlace:
        """A place that is not given back by any block."""
        return await self.place(name, max_wait).__aenter__()

    async def listen(self, name: str, place: LocalPlace) -> None:
        """Follows the positions of a place to the end."""
        try:
            async for position in place.positions():
                self.heard.setdefault(name, []).append(position.position)
                self.story.append(f"{name}:{position.position}")
        except GateError as error:
            self.story.append(f"{name}:{error.code}")
        else:
            self.story.append(f"{name}:runs")

    def outcomes(self) -> dict[str, list[Outcome]]:
        """Every outcome that each request was given: one and only one is right."""
        told: dict[str, list[Outcome]] = {}
        for event in self.events:
            outcome = getattr(event, "outcome", None)
            if outcome is not None:
                told.setdefault(event.caller.id, []).append(outcome)
        return told

    def admitted(self) -> list[str]:
        return [event.caller.id for event in self.events if isinstance(event, Admitted)]

    def entered(self) -> list[str]:
        """Who came, in this order, those who found no room left out."""
        return list(dict.fromkeys(event.caller.id for event in self.events if isinstance(event, TicketEvent)))

    def check_empty(self) -> None:
        """Nothing is left behind, and everybody had one outcome."""
        figures = self.gate.statistics()
        assert (figures.running, figures.waiting, figures.draining) == (0, 0, 0)
        assert self.desk._places == {}
        assert self.desk._timer is None
        told = self.outcomes()
        assert all(len(outcomes) == 1 for outcomes in told.values())
        assert set(told) >= set(self.entered())
        assert Counter(outcome for outcomes in told.values() for outcome in outcomes) == figures.outcomes

    def check_order(self) -> None:
        """First come first served among those who got a slot."""
        admitted = set(self.admitted())
        assert self.admitted() == [name for name in self.entered() if name in admitted]


async def settle(turns: int = 6) -> None:
    """Lets what is ready happen, in any loop."""
    for _ in range(turns):
        await asyncio.sleep(0)


def hall_of(cap: int = 1, **limits: Any) -> Hall:
    """In the virtual loop's time."""
    return Hall(Limits(cap, **limits), this_loop().time)


async def queue_up(hall: Hall, names: list[str], tasks: asyncio.TaskGroup) -> list[LocalPlace]:
    """They enter in this order, and listen."""
    places = [await hall.take(name) for name in names]
    for name, place in zip(names, places, strict=True):
        tasks.create_task(hall.listen(name, place))
    await settle()
    return places


def leave_all(hall: Hall, places: list[LocalPlace]) -> None:
    for place in reversed(places):
        place.leave("completed")
