"""A storm of requests on one hall, many cancelled at the worst moments; it checks what it can see from inside."""

import asyncio
import random
from itertools import pairwise

from llmgate.admission.place import LocalPlace
from llmgate.core.events import Admitted, Event, Limits, Queued
from llmgate.core.gate import State
from llmgate.errors import GateError
from tests.admission.hall import Hall

CAP = 3


class Storm:
    """Many requests, many of which are cancelled at some moment, some in the very tick in which they get their slot."""

    def __init__(self, seed: int, requests: int) -> None:
        self.chance = random.Random(seed)
        self.requests = requests
        self.hall = Hall(Limits(CAP, max_queued=requests // 2, queue_timeout=600.0))
        self.hall.desk._listener = self.hear
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.inside = self.most_inside = 0
        self.in_the_tick = 0

    def hear(self, event: Event) -> None:
        self.hall.events.append(event)
        figures = self.hall.gate.statistics()
        self.most_inside = max(self.most_inside, figures.running + figures.draining)
        if isinstance(event, (Admitted, Queued)) and self.chance.random() < 0.1:
            self.in_the_tick += isinstance(event, Admitted) and event.queued
            self.tasks[event.caller.id].cancel()

    async def ask(self, name: str) -> None:
        await self.pass_turns()
        max_wait = self.chance.choice([None, None, None, 0.0, 0.01])
        async with self.hall.place(name, max_wait) as place:
            if self.chance.random() < 0.5:
                await self.follow(place)
            else:
                await place.wait_admitted()
            assert place._taken().state is State.RUNNING
            await self.work(place)

    async def follow(self, place: LocalPlace) -> None:
        told = [position.position async for position in place.positions()]
        assert all(after < before for before, after in pairwise(told))

    async def work(self, place: LocalPlace) -> None:
        self.inside += 1
        try:
            assert self.inside <= CAP
            await self.pass_turns()
            if self.chance.random() < 0.1:
                raise ZeroDivisionError
        finally:
            self.inside -= 1
            self.hand_over(place)

    def hand_over(self, place: LocalPlace) -> None:
        way = self.chance.random()
        if way < 0.1:
            place.hand_over()
            asyncio.get_running_loop().call_soon(place.leave, "upstream_error")
        elif way < 0.2:
            place.hand_over()
            place.drain("client_gone", self.chance.choice([0.0, 0.001]))

    async def pass_turns(self) -> None:
        for _ in range(self.chance.randrange(4)):
            await asyncio.sleep(0)

    async def canceller(self) -> None:
        """With those that `hear` cancels: a good three in ten."""
        victims = self.chance.sample(sorted(self.tasks), self.requests * 3 // 10)
        for victim in victims:
            self.tasks[victim].cancel()
            if self.chance.random() < 0.3:
                await asyncio.sleep(0)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        self.tasks = {str(number): loop.create_task(self.ask(str(number))) for number in range(self.requests)}
        cancelling = loop.create_task(self.canceller())
        ends = await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        await cancelling
        await self.rest()
        expected = (type(None), asyncio.CancelledError, GateError, ZeroDivisionError)
        assert [end for end in ends if not isinstance(end, expected)] == []

    async def rest(self) -> None:
        """Until the last drained slot is back: its timer ends before this one."""
        await asyncio.sleep(0.02)
