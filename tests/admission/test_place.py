"""One place: however it is given back, it is given back once."""

import asyncio
from typing import Any

import pytest
from virtual_loop import run

from llmgate.errors import Cancelled
from tests.admission.hall import Hall, hall_of, settle
from tests.admission.storm import CAP

REST_SECONDS = 0.5


@pytest.mark.parametrize("how", ["twice", "from a done callback", "after an exception", "drained and left"])
def test_f31_however_it_is_given_back_the_next_but_one_blocks(how: str) -> None:
    """Permits never exceed the cap."""

    async def fail_after_giving_back(hall: Hall) -> None:
        async with hall.place("b") as second:
            second.leave("upstream_error")
            raise ZeroDivisionError

    async def give_back(hall: Hall) -> None:
        place = await hall.take("a")
        if how == "twice":
            place.leave("completed")
            place.leave("completed")
        elif how == "drained and left":
            place.drain("client_gone", 0.5)
            place.leave("client_gone")
            place.leave("client_gone")
        elif how == "from a done callback":
            task = asyncio.get_running_loop().create_task(asyncio.sleep(0))
            task.add_done_callback(lambda _: place.leave("completed"))
            task.add_done_callback(lambda _: place.leave("completed"))
            await task
        else:
            place.leave("completed")
            with pytest.raises(ZeroDivisionError):
                await fail_after_giving_back(hall)

    async def main() -> None:
        hall = hall_of(CAP)
        await give_back(hall)
        await settle()
        probes = [await hall.take(f"probe{number}") for number in range(CAP + 1)]
        await asyncio.sleep(5)
        assert [probe.position() is None for probe in probes] == [True] * CAP + [False]

    run(main())


def test_a_block_that_ends_without_waiting_for_its_slot_has_abandoned_it() -> None:
    async def main() -> None:
        hall = hall_of()
        first = await hall.take("a")
        async with hall.place("b"):
            pass
        first.leave("completed")
        assert hall.outcomes() == {"b": ["abandoned"], "a": ["completed"]}
        hall.check_empty()

    run(main())


@pytest.mark.parametrize("outcome", ["abandoned", "cancelled", "client_gone"])
def test_drain_while_it_waits_leaves_nothing_behind(outcome: Any) -> None:
    async def main() -> None:
        hall = hall_of()
        first, second = await hall.take("a"), await hall.take("b")
        second.drain(outcome, 60.0)
        assert hall.desk._places == {}
        first.leave("completed")
        hall.check_empty()

    run(main())


def test_one_who_waits_can_be_sent_away_from_outside() -> None:
    async def main() -> None:
        hall = hall_of()
        await hall.take("a")
        places = [await hall.take(name) for name in "bc"]
        waiting = [asyncio.ensure_future(place.wait_admitted()) for place in places]
        await settle()
        places[0].leave("cancelled")
        places[1].drain("cancelled", None)
        await settle()
        for task in waiting:
            with pytest.raises(Cancelled, match="an operator cancelled this request"):
                task.result()

    run(main())


def test_a_cancellation_in_the_tick_of_the_grant_gives_the_slot_on() -> None:
    async def main() -> None:
        hall = hall_of()
        first = await hall.take("a")

        async def ask(name: str) -> None:
            async with hall.place(name) as place:
                await place.wait_admitted()
                hall.story.append(name)

        async with asyncio.TaskGroup() as tasks:
            cancelled = tasks.create_task(ask("b"))
            tasks.create_task(ask("c"))
            await settle()
            first.leave("completed")
            cancelled.cancel()
        assert hall.story == ["c"]
        assert hall.outcomes() == {"a": ["completed"], "b": ["client_gone"], "c": ["completed"]}
        hall.check_empty()

    run(main())


def test_a_place_is_no_use_before_its_block() -> None:
    async def main() -> None:
        place = hall_of().place("a")
        with pytest.raises(RuntimeError, match="async with"):
            place.position()
        with pytest.raises(RuntimeError, match="async with"):
            place.leave("completed")

    run(main())
