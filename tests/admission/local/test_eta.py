"""What a waiter is told of how long it will wait."""

import asyncio

from virtual_loop import run, this_loop

from llmgate.core.eta import ENOUGH
from llmgate.core.events import Limits
from tests.admission.hall import UPSTREAM, Hall

RUN_SECONDS = 10.0


async def hall_with_a_past() -> Hall:
    """One slot; some requests have had it for 10 s each."""
    hall = Hall(Limits(1), this_loop().time)
    for number in range(ENOUGH):
        place = await hall.take(f"past {number}")
        await asyncio.sleep(RUN_SECONDS)
        place.leave("completed")
    return hall


def test_the_estimate_comes_with_every_position() -> None:
    async def main() -> None:
        hall = await hall_with_a_past()
        running = await hall.take("running")
        await asyncio.sleep(4)
        waiting = [await hall.take(name) for name in "ab"]
        told = [await anext(aiter(place.positions())) for place in waiting]
        assert [(position.position, position.eta_ms) for position in told] == [(1, 6000), (2, 16000)]
        await asyncio.sleep(2)
        assert [position.eta_ms for place in waiting if (position := place.position())] == [4000, 14000]
        for place in (running, *waiting):
            place.leave("completed")

    run(main())


def test_nobody_estimates_while_too_few_have_run() -> None:
    async def main() -> None:
        hall = Hall(Limits(1), this_loop().time)
        running, waiting = await hall.take("running"), await hall.take("waiting")
        position = waiting.position()
        assert position is not None
        assert position.eta_ms is None
        assert hall.admission.schedule(UPSTREAM) is None
        for place in (running, waiting):
            place.leave("completed")

    run(main())


def test_nobody_estimates_while_the_server_is_down() -> None:
    async def main() -> None:
        hall = await hall_with_a_past()
        running, waiting = await hall.take("running"), await hall.take("waiting")
        hall.admission.set_endpoint(UPSTREAM, UPSTREAM, up=False, reason="gone")
        position = waiting.position()
        assert position is not None
        assert (position.state, position.eta_ms) == ("upstream_down", None)
        hall.admission.set_endpoint(UPSTREAM, UPSTREAM, up=True)
        assert [position.eta_ms for place in (waiting,) if (position := place.position())] == [10_000]
        for place in (running, waiting):
            place.leave("completed")

    run(main())
