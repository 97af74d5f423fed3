"""A driven coroutine against the same one in a task: what it does, how it ends, and when it can be stopped."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_loop import run, turns

from llmgate.server.drive import Drive


class Ending:
    """Who is told how it ended; more than once fails."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, Exception | None]] = []

    def __call__(self, result: Any, error: Exception | None) -> None:
        self.told.append((result, error))
        assert len(self.told) == 1


def future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


@pytest.fixture
def ending() -> Ending:
    return Ending()


# ---- how it ends


async def test_what_does_not_wait_ends_at_once(ending: Ending) -> None:
    async def main() -> str:
        return "done"

    drive = Drive(main(), ending)
    assert (drive.done, ending.told) == (True, [("done", None)])


async def test_what_waits_goes_on_from_the_callback(ending: Ending) -> None:
    first, second = future(), future()

    async def main() -> list[Any]:
        return [await first, await second]

    drive = Drive(main(), ending)
    assert not first._asyncio_future_blocking, "as a task leaves it"
    await turns()
    assert not drive.done
    first.set_result(1)
    await turns()
    assert ending.told == []
    second.set_result(2)
    await turns()
    assert (drive.done, ending.told) == (True, [([1, 2], None)])


async def test_a_future_that_is_done_needs_no_turn(ending: Ending) -> None:
    ready = future()
    ready.set_result(5)

    async def main() -> int:
        return await ready + await ready

    Drive(main(), ending)
    assert ending.told == [(10, None)]


@pytest.mark.parametrize("waits", [False, True])
async def test_an_exception_is_told(ending: Ending, waits: bool) -> None:
    error = ConnectionResetError()

    async def main() -> None:
        if waits:
            await asyncio.sleep(0)
        raise error

    Drive(main(), ending)
    await turns()
    assert ending.told == [(None, error)]


async def test_the_exception_of_a_future_reaches_the_coroutine(ending: Ending) -> None:
    waits = future()

    async def main() -> str:
        try:
            await waits
        except ZeroDivisionError:
            return "caught"
        return "not reached"

    Drive(main(), ending)
    waits.set_exception(ZeroDivisionError())
    await turns()
    assert ending.told == [("caught", None)]


async def test_a_future_that_is_cancelled_is_an_end_like_others(ending: Ending) -> None:
    waits = future()

    async def main() -> None:
        await waits

    drive = Drive(main(), ending)
    waits.cancel()
    await turns()
    assert drive.done
    ((result, error),) = ending.told
    assert result is None
    assert isinstance(error, ConnectionAbortedError)


async def test_one_that_is_cancelled_already_does_not_cancel_who_drives(ending: Ending) -> None:
    waits = future()
    waits.cancel()

    async def main() -> None:
        await waits

    assert Drive(main(), ending).done
    assert isinstance(ending.told[0][1], ConnectionAbortedError)


async def test_a_cancelled_future_can_be_caught(ending: Ending) -> None:
    waits = future()

    async def main() -> str:
        try:
            await waits
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "went on"

    Drive(main(), ending)
    waits.cancel()
    await turns()
    assert ending.told == [("went on", None)]


async def test_a_bare_yield_goes_on_in_the_next_turn(ending: Ending) -> None:
    story: list[str] = []

    async def main() -> None:
        for number in range(2):
            story.append(f"step {number}")
            await asyncio.sleep(0)

    Drive(main(), ending)
    for _ in range(3):
        story.append("turn")
        await asyncio.sleep(0)
    assert story == ["step 0", "turn", "step 1", "turn", "turn"]
    assert ending.told == [(None, None)]


# ---- stopping


class Stages:
    """A coroutine that can be stopped in each of its states, and notes that it was cleaned up."""

    def __init__(self) -> None:
        self.first, self.last = future(), future()
        self.cleaned = 0
        self.ended = False

    async def main(self) -> None:
        try:
            await self.first
            await asyncio.sleep(0)
            await self.last
            self.ended = True
        finally:
            self.cleaned += 1


def _nothing(_: Stages) -> None:
    """It waits for its first future."""


def _give(stages: Stages) -> None:
    stages.first.set_result(None)


STAGES = [
    pytest.param(_nothing, 3, id="waiting"),
    pytest.param(_give, 0, id="its future is done"),
    pytest.param(_give, 1, id="between two turns"),
    pytest.param(_give, 3, id="waiting again"),
    pytest.param(lambda stages: stages.first.cancel(), 0, id="its future is cancelled"),
    pytest.param(lambda stages: stages.first.set_exception(ZeroDivisionError()), 0, id="its future has failed"),
]


@pytest.mark.parametrize(("move", "turned"), STAGES)
async def test_stopped_in_any_state_it_ends_and_tells_nobody(
    ending: Ending, move: Callable[[Stages], None], turned: int
) -> None:
    stages = Stages()
    drive = Drive(stages.main(), ending)
    move(stages)
    await turns(turned)
    assert not drive.done
    drive.stop()
    assert (drive.done, stages.cleaned, stages.ended) == (True, 1, False)
    for waits in (stages.first, stages.last):
        if not waits.done():
            waits.set_result(None)
    await turns()
    drive.stop()
    assert (ending.told, stages.cleaned, stages.ended) == ([], 1, False)
    if not stages.first.cancelled():
        stages.first.exception()  # it is seen, so that the loop does not complain


async def test_stopped_at_a_bare_yield_it_does_not_go_on(ending: Ending) -> None:
    story: list[str] = []

    async def main() -> None:
        story.append("begun")
        await asyncio.sleep(0)
        story.append("went on")

    Drive(main(), ending).stop()
    await turns()
    assert (story, ending.told) == (["begun"], [])


async def test_stopping_what_has_ended_changes_nothing(ending: Ending) -> None:
    async def main() -> int:
        return 1

    drive = Drive(main(), ending)
    drive.stop()
    assert ending.told == [(1, None)]


async def test_stopping_leaves_no_callback_behind(ending: Ending) -> None:
    stages = Stages()
    drive = Drive(stages.main(), ending)
    assert stages.first._callbacks
    drive.stop()
    assert not stages.first._callbacks


# ---- against a task

Step = tuple[str, int]
SCRIPTS = st.lists(
    st.tuples(st.sampled_from(["yield", "wait", "ready", "error", "caught", "cancelled", "raise"]), st.integers(0, 3)),
    max_size=8,
)


def scripted(script: list[Step], story: list[Any]) -> Coroutine[Any, Any, Any]:
    """The same coroutine, as often as it is asked for."""
    loop = asyncio.get_running_loop()

    async def main() -> int:
        total = 0
        for number, (what, turns_until) in enumerate(script):
            story.append(number)
            if what == "yield":
                await asyncio.sleep(0)
            elif what == "raise":
                raise LookupError(number)
            elif what == "caught":
                try:
                    await promised("error", turns_until)
                except ZeroDivisionError:
                    total += 100
            else:
                total += await promised(what, turns_until)
        return total

    def promised(what: str, turns_until: int) -> asyncio.Future[int]:
        waits = loop.create_future()
        act: dict[str, Callable[[], object]] = {
            "wait": lambda: waits.set_result(turns_until),
            "ready": lambda: waits.set_result(turns_until),
            "error": lambda: waits.set_exception(ZeroDivisionError()),
            "cancelled": waits.cancel,
        }
        if what == "ready":
            act[what]()
        else:
            loop.call_later(turns_until, act[what])
        return waits

    return main()


@given(SCRIPTS)
def test_it_ends_as_a_task_does(script: list[Step]) -> None:
    async def by_task(story: list[Any]) -> Any:
        task = asyncio.get_running_loop().create_task(scripted(script, story))
        (result,) = await asyncio.gather(task, return_exceptions=True)
        return result

    async def by_drive(story: list[Any]) -> Any:
        ended = future()
        Drive(scripted(script, story), lambda result, error: ended.set_result(result if error is None else error))
        return await ended

    async def main() -> None:
        stories: list[list[Any]] = [[], []]
        of_task, of_drive = await by_task(stories[0]), await by_drive(stories[1])
        assert stories[0] == stories[1]
        if isinstance(of_task, asyncio.CancelledError):
            assert isinstance(of_drive, ConnectionAbortedError)
        else:
            assert (type(of_drive), str(of_drive)) == (type(of_task), str(of_task))

    run(main())
