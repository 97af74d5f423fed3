"""F07, F13: a client leaves in the moment in which something else happens to it; at the end nobody is missed."""

import asyncio
import contextlib
import random

import pytest
from hands import ANSWER, Hands, Turn
from rawclient import Client

from llmgate.core.events import Limits
from tests.server.house import UPSTREAM, House, OpenHouse
from tests.server.states import (
    STOPPING,
)


async def answer_all(hands: Hands) -> None:
    while True:
        turn = await hands.turn()
        with contextlib.suppress(ConnectionError):
            await turn.complete()


@pytest.mark.parametrize("cap", [1, 3])
class TestStorms:
    """F07, F13: a client leaves in the moment in which something else happens to it; at the end nobody is missed."""

    ROUNDS = 1000

    async def test_f07_leaving_as_the_slot_falls_free(self, open_house: OpenHouse, hands: Hands, cap: int) -> None:
        house = await open_house(upstream={"max_concurrent": cap, "release_timeout": 0.001})
        chance = random.Random(cap)
        answering = asyncio.ensure_future(answer_all(hands))
        clients: list[Client] = []
        for _ in range(self.ROUNDS // 2):
            clients.append(await house.ask(stream=chance.random() < 0.7))
            if chance.random() < 0.5:
                await asyncio.sleep(chance.choice([0, 0, 0.001]))
            if len(clients) > cap:
                client = clients.pop(chance.randrange(len(clients)))
                chance.choice([client.fin, client.reset])()
        await self.finish(house, hands, cap, answering, clients)

    async def test_f13_leaving_as_the_wait_runs_out(self, open_house: OpenHouse, hands: Hands, cap: int) -> None:
        house = await open_house(upstream={"max_concurrent": cap, "queue_timeout": 0.005, "release_timeout": 0.001})
        chance = random.Random(cap)
        held = [await house.ask() for _ in range(cap)]
        turns = [await hands.turn() for _ in range(cap)]
        clients: list[Client] = []
        for number in range(self.ROUNDS):
            clients.append(await house.ask(stream=chance.random() < 0.7))
            if number % 4 == 3:
                await asyncio.sleep(0.005)
                for client in clients:
                    chance.choice([client.fin, client.reset])()
                clients.clear()
        await house.wait(lambda: house.figures.waiting == 0 and len(house.services.running) == cap)
        assert set(house.outcomes) <= {"queue_timeout", "abandoned"}
        for turn in turns:
            await turn.complete()
        await self.finish(house, hands, cap, asyncio.ensure_future(answer_all(hands)), held)

    async def test_f13_leaving_as_it_is_stopped(self, open_house: OpenHouse, hands: Hands, cap: int) -> None:
        house = await open_house(upstream={"max_concurrent": cap, "release_timeout": 0.001})
        chance = random.Random(cap)
        clients: list[Client] = []
        for number in range(self.ROUNDS):
            clients.append(await house.ask(stream=chance.random() < 0.7))
            if number % 5 == 4:
                await asyncio.sleep(chance.choice([0, 0, 0.001]))
                for client in clients:
                    chance.choice([client.fin, client.reset])()
                await asyncio.sleep(0)
                for running in house.services.running:
                    running.stop(STOPPING)
                clients.clear()
        await house.wait(lambda: len(house.services.running) == 0)
        assert set(house.outcomes) <= {"abandoned", "client_gone", "refused", "upstream_error"}
        await self.finish(house, hands, cap, asyncio.ensure_future(answer_all(hands)), clients)

    async def finish(
        self, house: House, hands: Hands, cap: int, answering: "asyncio.Future[None]", clients: list[Client]
    ) -> None:
        """Everybody is answered, and fifty more; so many run at once as may, and one more does not; no connection to
        the server is in use, or lost."""
        for client in clients:
            assert (await client.head()).status == 200
            await client.body()
        await house.wait(lambda: house.taken == (0, 0, 0))
        house.check_empty()
        house.services.admission.set_limits(UPSTREAM, Limits(cap))  # those that wait may do so for long
        fifty = [await house.ask() for _ in range(50)]
        for client in fifty:
            assert (await client.body()).endswith(ANSWER)
        await house.wait(lambda: house.taken == (0, 0, 0))
        answering.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await answering
        probes = [await house.ask() for _ in range(cap + 1)]
        await house.wait(lambda: house.taken == (1, cap, 0))
        for _ in probes:
            await (await self.fresh_turn(hands)).complete()
        for probe in probes:
            await probe.body()
        await house.wait(lambda: house.taken == (0, 0, 0))
        house.services.upstreams[UPSTREAM].retire()
        await hands.wait_all_closed()

    async def fresh_turn(self, hands: Hands) -> Turn:
        """One whose client is still there."""
        while True:
            turn = await hands.turn()
            if turn.connection.is_open:
                return turn
