"""Who runs at the moment, and waiting until nobody does."""

import asyncio

from virtual_loop import turns

from llmgate.errors import GateError
from llmgate.server.services import Running
from tests.server.house import UPSTREAM, House


class Runner:
    def stop(self, error: GateError) -> None:
        raise NotImplementedError


async def test_who_runs() -> None:
    running, one, two = Running(), Runner(), Runner()
    assert (len(running), list(running)) == (0, [])
    running.add(one)
    running.add(two)
    running.add(one)
    assert (len(running), set(running)) == (2, {one, two})
    running.discard(one)
    running.discard(one)
    assert list(running) == [two]


async def test_one_may_end_while_they_are_looked_at() -> None:
    running = Running()
    for _ in range(3):
        running.add(Runner())
    for runner in running:
        running.discard(runner)
    assert len(running) == 0


async def test_waiting_until_nobody_runs() -> None:
    running, one, two = Running(), Runner(), Runner()
    await running.wait_empty()
    running.add(one)
    waiting = [asyncio.ensure_future(running.wait_empty()) for _ in range(2)]
    await turns()
    running.add(two)
    running.discard(one)
    await turns()
    assert not any(task.done() for task in waiting)
    running.discard(two)
    await asyncio.gather(*waiting)


async def test_a_newcomer_in_the_same_turn_is_waited_for_too() -> None:
    running, one, two = Running(), Runner(), Runner()
    running.add(one)
    waiting = asyncio.ensure_future(running.wait_empty())
    await turns()
    running.discard(one)
    running.add(two)
    await turns()
    assert not waiting.done()
    running.discard(two)
    await waiting


async def test_services_begin_with_nobody(house: House) -> None:
    services = house.services
    assert (len(services.running), services.draining) == (0, False)
    assert set(services.upstreams) == {UPSTREAM}
