"""A body has its time; what came while nothing was read is read before that is judged."""

import asyncio

import pytest
from virtual_loop import run, this_loop

from llmgate.server.body_clock import running


async def wait(seconds: float | None, *, comes_after: float = 1_000_000.0) -> float:
    """When it ran out, or what it waits for came: seconds from now."""
    began = this_loop().time()
    came = this_loop().create_future()
    timer = this_loop().call_later(comes_after, came.set_result, None)
    try:
        async with asyncio.timeout(None) as limit:
            with running(limit, seconds):
                await came
    except TimeoutError:
        timer.cancel()
    assert this_loop().timers == []
    return this_loop().time() - began


@pytest.mark.parametrize(("seconds", "comes_after", "over"), [(5.0, 9.0, 5.0), (5.0, 4.0, 4.0), (None, 9.0, 9.0)])
def test_it_runs_out_in_time(seconds: float | None, comes_after: float, over: float) -> None:
    async def main() -> None:
        assert await wait(seconds, comes_after=comes_after) == pytest.approx(over)

    run(main())


def stand_still(at: float, seconds: float) -> None:
    """The loop does nothing for so long, from then on."""

    def stop() -> None:
        this_loop().now += seconds

    this_loop().call_later(at, stop)


@pytest.mark.parametrize(("seconds", "over"), [(3600.0, 3601 + 5), (6.0, 7 + 2), (4.1, 5.1)])
def test_it_is_longer_where_everything_stood_still(seconds: float, over: float) -> None:
    """By as long as that is known to have lasted, at most by all of its time."""

    async def main() -> None:
        stand_still(1.0, seconds)
        assert await wait(5.0) == pytest.approx(over, abs=0.001)

    run(main())


def test_what_came_meanwhile_counts() -> None:
    async def main() -> None:
        stand_still(1.0, 60.0)
        assert await wait(5.0, comes_after=61.5) == pytest.approx(61.5)

    run(main())
