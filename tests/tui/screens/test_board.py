"""The one screen: when it paints, and what it hands on."""

from collections.abc import Callable
from typing import Any

import pytest

from llmgate.adminapi import RequestDetail
from llmgate.tui.screens.board import SHARE, SHORTEST_GAP, Board
from llmgate.tui.state import Message
from llmgate.tui.step import Ask, Do, Effect


@pytest.fixture
def app(sample: Any, still: Any) -> Any:
    return still(sample.documented())


class Clock:
    """A screen whose timers are noted and whose clock stands still."""

    def __init__(self, board: Board) -> None:
        self.now = 1000.0
        self.waits: list[float] = []
        board._clock = lambda: self.now
        board._painted = self.now
        board._due = None
        self.stopped = 0
        board.set_timer = self._set  # type: ignore[method-assign, assignment]

    def _set(self, wait: float, call: Callable[[], None]) -> Any:
        self.waits.append(wait)
        return self

    def stop(self) -> None:
        self.stopped += 1


async def test_a_flood_of_changes_is_painted_at_most_ten_times_a_second(app: Any) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        board, clock = app.board, Clock(app.board)
        for _ in range(1000):
            board.changed()
        assert clock.waits == [pytest.approx(SHORTEST_GAP)]
        board.paint()
        clock.now += SHORTEST_GAP
        board.changed()
        assert board._painted == clock.now
        assert len(clock.waits) == 1


async def test_a_picture_that_takes_long_is_drawn_more_seldom(app: Any) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        board, clock = app.board, Clock(app.board)
        board._cost = 0.2
        board.changed()
        assert clock.waits == [pytest.approx(0.2 * SHARE)]


async def test_a_key_is_drawn_at_once_even_while_a_picture_is_due(app: Any) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        board, clock = app.board, Clock(app.board)
        board.changed()
        clock.now += 0.01
        board.press("j")
        assert board._painted == clock.now
        assert board.state.chosen["upstreams"].id == "reasoning"
        assert clock.stopped == 1, "the picture that was due has been drawn"
        board.changed()
        assert len(clock.waits) == 2


async def test_what_is_to_be_done_is_handed_on_after_the_picture(app: Any) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        seen: list[tuple[Effect, bool]] = []
        app.board._perform = lambda effect: seen.append((effect, app.board.state.prompt is None))
        app.board.press("p")
        assert seen == []
        app.board.press("y")
        ((effect, is_drawn),) = seen
        assert isinstance(effect, Do)
        assert is_drawn


async def test_what_became_of_it_is_shown(app: Any) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        app.board.done(frozenset(), "all is well", is_bad=False)
        assert app.board.state.message == Message("all is well")


async def test_what_the_daemon_tells_of_a_request_that_is_closed_again_is_dropped(app: Any, sample: Any) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        detail = RequestDetail(now_ms=1, request=sample.request("q-7f3a21", "ha-llm"))
        app.board.told(detail)
        assert app.board.state.told is None
        for key in ("2", "enter"):
            app.board.press(key)
        app.board.told(detail)
        assert app.board.state.told == detail
        app.board.press("escape")
        assert app.board.state.told is None


async def test_a_journey_that_has_gone_on_is_asked_for_again_at_most_once_a_second(app: Any, sample: Any) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        board, clock, asked = app.board, Clock(app.board), list[Effect]()
        board._perform = asked.append
        for key in ("2", "enter"):
            board.press(key)
        request = sample.request("q-7f3a21", "ha-llm")
        board.told(RequestDetail(now_ms=1, request=request, position=1))
        assert asked == [Ask("q-7f3a21")]
        board.told(RequestDetail(now_ms=1, request=request, position=2))
        board.paint()
        assert asked == [Ask("q-7f3a21")] * 2
        clock.now += 1.0
        board.paint()
        assert asked == [Ask("q-7f3a21")] * 3
        board.told(RequestDetail(now_ms=1, request=request, position=1))
        clock.now += 1.0
        board.paint()
        assert len(asked) == 3


async def test_where_upstreams_alone_are_drawn_keys_are_about_them(app: Any) -> None:
    async with app.run_test(size=(59, 24)) as pilot:
        await pilot.pause()
        for key in ("2", "j", "X", "enter", "X", "tab", "j", "X"):
            app.board.press(key)
            assert (app.board.state.holds, app.board.state.detail) == ("upstreams", "")
            assert "cancelled" not in str(app.board.state.message)
        app.board.press("p")
        assert app.board.state.prompt.question.startswith("Pause ")


async def test_a_new_size_is_drawn(app: Any) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.resize_terminal(120, 40)
        await pilot.pause()
        assert (app.board.look.width, app.board.look.height) == (120, 40)
