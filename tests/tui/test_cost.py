"""A key is answered for little in a crowd: 10,000 wait, and 200 events happen every second.

Bounds are processor time, which other programs take no part of, and five times what benchmarks/top.py showed.
"""

import statistics
from collections.abc import Iterator
from typing import Any

import pytest
from benchscript import script

WAITING, EVENTS_A_SECOND, KEYS = 10_000, 200, 24
SIZE = (120, 40)


@pytest.fixture
def benchmark() -> Iterator[Any]:
    """The module, which knows the crowd and how to wait for an answer."""
    with script("top") as module:
        yield module


@pytest.mark.parametrize(
    ("way", "keys", "milliseconds"),
    [("1", "jk", 50), ("2", "jjjjkGgj", 60), ("2/client-3\r", "jjGkkg", 70), ("2ss", "jjGkkg", 75)],
    ids=["overview", "waiting", "filtered", "sorted"],
)
async def test_each_key_moves_the_selection_and_costs_little(
    benchmark: Any, way: str, keys: str, milliseconds: float
) -> None:
    crowd = benchmark.Crowd(WAITING, EVENTS_A_SECOND)
    app = benchmark.TopApp(crowd, benchmark.Acting(crowd))
    costs = []
    async with app.run_test(size=SIZE) as pilot:
        while crowd.told == 0:
            await pilot.pause()
        for key in way:
            await benchmark.answer(app, key)
        told = crowd.told
        for number in range(KEYS):
            before = selected(app)
            costs.append((await benchmark.answer(app, keys[number % len(keys)]))[1])
            assert selected(app) != before, f"key {number}"
            await pilot.pause(0.02)  # events come between two keys
        assert crowd.told > told
    assert statistics.median(costs) < milliseconds


def selected(app: Any) -> str:
    """The id of what is selected on the page."""
    state = app.board.state
    name = "upstreams" if state.page == "overview" else state.page
    chosen: str = state.chosen[name].id
    return chosen
