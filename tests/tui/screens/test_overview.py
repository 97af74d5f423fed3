"""The overview screen: when it paints, and what its keys do."""

from typing import Any

import pytest

from llmgate.tui.app import TopApp
from llmgate.tui.screens.overview import SHORTEST_GAP, OverviewScreen


@pytest.fixture
def app(sample: Any, still: Any) -> TopApp:
    return still(sample.documented())


def overview(app: TopApp) -> OverviewScreen:
    assert isinstance(app.screen, OverviewScreen)
    return app.screen


async def test_the_selection_moves_and_stops_at_the_ends(app: TopApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        seen = []
        for key in ("down", "j", "j", "j", "up", "k", "home", "end", "home", "k"):
            await pilot.press(key)
            seen.append(overview(app).look.selected)
        assert seen == [
            "reasoning", "ollama", "vllm-a100", "vllm-a100", "ollama", "reasoning", "ha-llm", "vllm-a100", "ha-llm",
            "ha-llm",
        ]  # fmt: skip


async def test_a_turns_the_signs_to_ascii_and_back(app: TopApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("a")
        assert overview(app).look.ascii
        await pilot.press("a")
        assert not overview(app).look.ascii


async def test_keys_without_anything_to_select(sample: Any, still: Any) -> None:
    app = still(sample.snapshot([]))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("down", "up", "home", "end")
        assert overview(app).look.selected == ""


async def test_a_flood_of_changes_is_painted_at_most_ten_times_a_second(app: TopApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        screen = overview(app)
        times: list[float] = []
        now = 1000.0
        screen._clock = lambda: now
        screen._painted = now
        screen._is_due = False
        screen.set_timer = lambda wait, call: times.append(wait)  # type: ignore[method-assign, assignment]
        for _ in range(1000):
            screen.changed()
        assert times == [pytest.approx(SHORTEST_GAP)]
        screen.paint()
        now += SHORTEST_GAP
        screen.changed()
        assert screen._painted == now
        assert len(times) == 1
