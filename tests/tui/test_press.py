"""Keys as a pure function: what each does to the state, and that the selection is of an id and not of a row."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.adminapi import FeedItem
from llmgate.tui.cells import plain, width_of_line
from llmgate.tui.furniture import Look
from llmgate.tui.keys import KEYS
from llmgate.tui.listing import listing, settle
from llmgate.tui.model import Model, View
from llmgate.tui.picture import picture
from llmgate.tui.press import click, done, press
from llmgate.tui.sheet import FARTHEST
from llmgate.tui.state import PANES, Message, Sort, State, Typing
from llmgate.tui.step import Ask, Quit, Retry

from .conftest import documented, request, snapshot, upstream

After = Callable[..., State]


def chosen(state: State) -> str:
    return state.chosen[state.list_name].id


class TestMoving:
    def test_it_stops_at_the_ends(self, view: View, after: After) -> None:
        keys = ("down", "j", "j", "j", "up", "k", "home", "end", "g", "k", "G", "pageup", "pagedown", "wheelup")
        seen = [chosen(after(view, *keys[: n + 1])) for n in range(len(keys))]
        assert seen == [
            "reasoning", "ollama", "vllm-a100", "vllm-a100", "ollama", "reasoning", "ha-llm", "vllm-a100", "ha-llm",
            "ha-llm", "vllm-a100", "ha-llm", "vllm-a100", "ha-llm",
        ]  # fmt: skip

    @pytest.mark.parametrize(
        "key", ["down", "up", "home", "end", "pagedown", "enter", " ", "x", "p", "+", "m", "y", "w"]
    )
    @pytest.mark.parametrize("page", list("12345"))
    def test_nothing_breaks_without_anything_to_select(self, viewed: Any, after: After, key: str, page: str) -> None:
        empty = viewed(snapshot([]))
        state = after(empty, page, key)
        assert state.chosen.get(state.list_name) in (None, listing(empty, state).at(0))
        assert state.prompt is None

    def test_a_page_of_a_long_list(self, viewed: Any, after: After) -> None:
        many = viewed(snapshot([upstream("a")], [request(f"q-{n}", "a", order=n) for n in range(100)]))
        assert chosen(after(many, "2", "pagedown", height=24)) == "q-16"
        assert chosen(after(many, "2", "pagedown", "pagedown", "pageup", "j", height=40)) == "q-33"

    def test_tab_goes_round_the_parts_of_the_overview_only(self, view: View, after: After) -> None:
        assert [after(view, *["tab"] * n).pane for n in range(5)] == [*PANES, "upstreams"]
        assert after(view, "shift+tab").pane == "events"
        assert after(view, "2", "tab").page == "waiting"

    def test_each_list_keeps_its_own_selection(self, view: View, after: After) -> None:
        state = after(view, "2", "j", "1", "j", "2")
        assert chosen(state) == "q-7f3a24"
        assert state.chosen["upstreams"].id == "reasoning"


class TestTheSelectionIsOfAnId:
    def feed(self, *gone: str) -> View:
        model = Model()
        model.apply(snapshot([upstream("a")], [request(f"q-{n}", "a", order=n) for n in range(5)], number=0), 1.0)
        for number, name in enumerate(gone, 1):
            over = request(name, "a", state="done", ended_ms=1)
            model.apply(FeedItem(type="event", number=number, now_ms=10**9, request=over), 1.0)
        return model.view(1.0)

    def test_others_leave_before_it(self, after: After) -> None:
        state = after(self.feed(), "2", "j", "j")
        moved = settle(state, self.feed("q-0", "q-1"))
        assert moved.chosen["waiting"].id == "q-2"
        assert moved.chosen["waiting"].index == 0

    def test_it_leaves_itself_and_the_one_at_its_height_takes_over(self, after: After) -> None:
        state = after(self.feed(), "2", "j", "j")
        assert settle(state, self.feed("q-2")).chosen["waiting"].id == "q-3"
        state = settle(state, self.feed("q-0"))
        assert settle(state, self.feed("q-0", "q-2")).chosen["waiting"].id == "q-3"
        assert settle(after(self.feed(), "2", "end"), self.feed("q-4")).chosen["waiting"].id == "q-3"

    def test_an_action_never_falls_on_the_row_that_slid_under_it(self, after: After) -> None:
        state = after(self.feed(), "2", "j", "j")
        step = press(state, "X", self.feed("q-2"), 24)
        assert step.effects == ()
        assert step.state.message == Message("q-2 has ended already", is_bad=True)

    @given(st.permutations([f"q-{n}" for n in range(5)]), st.integers(0, 5), st.integers(0, 4))
    def test_whatever_leaves(self, gone: list[str], many: int, steps: int) -> None:
        state = settle(State(page="waiting"), self.feed())
        for _ in range(steps):
            state = press(state, "j", self.feed(), 24).state
        before = state.chosen["waiting"].id
        for n in range(many):
            state = settle(state, self.feed(*gone[: n + 1]))
        left = [request.id for request in self.feed(*gone[:many]).lanes[0].waiting]
        now = state.chosen["waiting"]
        assert now.id == (before if before in left else now.id)
        assert (now.id in left) if left else now.id == ""
        assert not left or left.index(now.id) == now.index


class TestViews:
    def test_pages(self, view: View, after: After) -> None:
        assert [after(view, key).page for key in "12345"] == ["overview", "waiting", "running", "recent", "events"]

    def test_a_request_is_opened_and_asked_for(self, view: View, after: After) -> None:
        step = press(after(view, "2", "j"), "enter", view, 24)
        assert (step.state.detail, step.effects) == ("q-7f3a24", (Ask("q-7f3a24"),))
        assert after(view, "2", "j", "enter", "escape").detail == ""
        assert after(view, "2", "j", "enter", "enter", "j", "/", "tab").detail == "q-7f3a24"
        assert after(view, "2", "j", "enter", "3").detail == ""

    def test_enter_on_an_upstream_goes_to_those_that_wait_there(self, view: View, after: After) -> None:
        assert after(view, "enter").pane == "waiting"

    def test_enter_on_an_event_opens_its_request(self, view: View, after: After) -> None:
        assert after(view, "5", "enter").detail == "q-7f3a27"
        state = after(view, "5", "j", "j", "enter")
        assert state.detail == ""
        assert state.message is not None

    def test_esc_takes_away_one_thing_at_a_time(self, view: View, after: After) -> None:
        keys = ["2", " ", "/", *"dsh", "enter", "l", "enter"]
        left = [after(view, *keys, *["escape"] * n) for n in range(6)]
        seen = [(bool(s.detail), s.log, s.filter, len(s.marked), s.page) for s in left]
        assert seen == [
            (True, True, "dsh", 1, "waiting"),
            (False, True, "dsh", 1, "waiting"),
            (False, False, "dsh", 1, "waiting"),
            (False, False, "", 1, "waiting"),
            (False, False, "", 0, "waiting"),
            (False, False, "", 0, "overview"),
        ]
        assert after(view, "tab", "escape").pane == "upstreams"

    def test_help_scrolls_and_closes(self, view: View, after: After) -> None:
        assert [after(view, *keys).help for keys in (["?"], ["h", "j", "j"], ["f1", "k"], ["?", "G"])] == [
            0,
            2,
            0,
            FARTHEST,
        ]
        assert after(view, "?", "p").prompt is None
        assert after(view, "?", "escape").help is None
        assert press(after(view, "?"), "q", view, 24).effects == (Quit(),)

    def test_a_report_scrolls_and_closes_and_no_key_gets_past_it(self, view: View, after: After) -> None:
        state = replace(after(view), report="all is well")
        for key in ("escape", "enter", "w"):
            assert press(state, key, view, 24).state.report is None
        assert press(state, "q", view, 24).effects == (Quit(),)
        assert press(state, "j", view, 24).state.report_scrolled == 1
        for key in ("p", "x", "2", "s", "/"):
            assert press(state, key, view, 24).state == state
        assert click(state, ("upstreams", "ollama"), view).state == state
        drawn = "\n".join(plain(line) for line in picture(view, Look(80, 24), state))
        assert "all is well" in drawn
        assert "ha-llm" not in drawn

    def test_the_key_of_the_overview_goes_there_and_then_to_its_upstreams(self, view: View, after: After) -> None:
        state = after(view, "tab", "4", "1")
        assert (state.page, state.pane) == ("overview", "waiting")
        assert after(view, "tab", "4", "1", "1").pane == "upstreams"

    def test_why_closes_with_the_next_key(self, view: View, after: After) -> None:
        assert after(view, "w").why
        for key in ("escape", "w", "enter"):
            closed = after(view, "w", key)
            assert (closed.why, closed.pane) == (None, "upstreams")
        assert chosen(after(view, "w", "j")) == "reasoning"

    def test_freeze(self, view: View, after: After) -> None:
        state = after(view, "P", "2", "j")
        assert state.frozen == view
        assert after(view, "P", "P").frozen is None

    def test_one_moves_about_in_the_frozen_picture_and_acts_on_what_is_there_now(
        self, view: View, viewed: Any, after: After
    ) -> None:
        state = after(view, "2", "P")
        empty = viewed(snapshot([upstream("ha-llm")]))
        moved = settle(press(state, "j", empty, 24).state, empty)
        assert chosen(moved) == "q-7f3a24"
        step = press(moved, "X", empty, 24)
        assert step.effects == ()
        assert step.state.message == Message("q-7f3a24 has ended already", is_bad=True)

    def test_sort_goes_through_the_columns_and_back(self, view: View, after: After) -> None:
        seen = []
        state = after(view, "2")
        for _ in range(20):
            state = press(state, "s", view, 24).state
            seen.append(state.sorts["waiting"].title)
            if not seen[-1]:
                break
        assert seen == ["#", "WAITED", "LEFT", "MODEL", "CLIENT", "SESSION", "PURPOSE", "API", ""]
        assert after(view, "2", "s", "S").sorts["waiting"] == Sort("#", reverse=True)
        assert after(view, "5", "s").message is not None
        assert after(view, "5", "S").sorts == {}

    def test_marks(self, view: View, after: After) -> None:
        state = after(view, "2", " ", " ", "3", " ", "1", " ")
        assert state.marked == {"q-7f3a21", "q-7f3a24", "q-7f3a1c"}
        assert state.marked_upstreams == {"ha-llm"}
        assert after(view, "2", " ", "k", " ").marked == frozenset()
        assert after(view, "5", " ").message is not None

    def test_marks_of_what_has_ended_are_dropped(self, view: View, viewed: Any, after: After) -> None:
        state = after(view, "2", " ", " ")
        over = request("q-7f3a21", "ha-llm", state="done", ended_ms=1)
        later = viewed(snapshot([upstream("ha-llm")], [request("q-7f3a24", "ha-llm"), over]))
        assert later.recent == (over,)
        assert settle(state, later).marked == {"q-7f3a24"}

    def test_theme_ascii_log(self, view: View, after: After) -> None:
        assert [after(view, *"t" * n).theme for n in range(5)] == ["default", "dark", "light", "mono", "default"]
        assert after(view, "t", theme="mono", no_color=True).theme == "mono"
        assert [after(view, *"a" * n).ascii for n in range(3)] == [False, True, False]
        assert [after(view, *"l" * n).log for n in range(3)] == [False, True, False]

    def test_retry(self, view: View, after: After) -> None:
        assert press(after(view), "r", view, 24).effects == ()
        lost = replace(view, link=replace(view.link, state="lost"))
        assert press(after(lost), "r", lost, 24).effects == (Retry(),)

    def test_a_message_stays_until_the_next_key(self, view: View, after: After) -> None:
        assert after(view, "x").message is not None
        assert after(view, "x", "j").message is None

    def test_lines_that_are_typed(self, view: View, after: After) -> None:
        assert after(view, "/").prompt == Typing("filter")
        assert after(view, ":").prompt == Typing("command")
        assert after(view, "/", *"1q").filter == "1q"


def test_after_a_failure_the_slots_are_what_the_daemon_tells() -> None:
    state = State(slots={"a": 3, "b": 4})
    assert done(state, frozenset({"a"}), "no", is_bad=True).slots == {"b": 4}
    assert done(state, frozenset({"a"}), "yes", is_bad=False).slots == {"a": 3, "b": 4}


def test_slots_are_forgotten_when_the_feed_tells_that_it_is_so(viewed: Any) -> None:
    state = State(slots={"a": 3})
    assert settle(state, viewed(snapshot([upstream("a", max_concurrent=2)]))).slots == {"a": 3}
    assert settle(state, viewed(snapshot([upstream("a", max_concurrent=3)]))).slots == {}
    assert settle(state, viewed(snapshot([]))).slots == {}


NAMES = [name for key in KEYS for name in key.names if name not in ("q", "ctrl+c")]


@given(st.lists(st.sampled_from([*NAMES, "y", "n", "backspace", "ctrl+u", *"acdns=!"]), max_size=40), st.booleans())
def test_whatever_is_pressed_the_screen_is_filled_and_the_selection_is_there(keys: list[str], lost: bool) -> None:
    model = Model()
    model.apply(documented(), 1.0)
    if lost:
        model.lost("gone", 1, 1.0, 2.0)
    known = model.view(1.0)
    state = settle(State(), known)
    for key in keys:
        state = settle(press(state, key, known, 24).state, known)
        rows = listing(state.shown(known), state)
        assert rows.find(chosen(state)) >= 0 or not rows.rows
    lines = picture(known, Look(80, 24), state)
    assert len(lines) == 24
    assert {width_of_line(line) for line in lines} == {80}


class TestClicks:
    def test_one_selects_and_another_one_opens(self, view: View, after: After) -> None:
        state = click(after(view, "2"), ("waiting", "q-7f3a24"), view).state
        assert (state.chosen["waiting"].id, state.chosen["waiting"].index, state.detail) == ("q-7f3a24", 1, "")
        step = click(state, ("waiting", "q-7f3a24"), view)
        assert (step.state.detail, step.effects) == ("q-7f3a24", (Ask("q-7f3a24"),))

    def test_one_goes_to_its_part_of_the_overview(self, view: View, after: After) -> None:
        state = click(after(view), ("waiting", "q-7f3a27"), view).state
        assert (state.pane, state.chosen["overview.waiting"].id) == ("waiting", "q-7f3a27")
        state = click(state, ("upstreams", "reasoning"), view).state
        assert (state.pane, state.chosen["upstreams"].id) == ("upstreams", "reasoning")
        assert click(state, ("upstreams", "reasoning"), view).state.pane == "waiting", "as Enter does"

    def test_one_on_a_request_of_another_upstream_selects_that_as_well(self, view: View, after: After) -> None:
        waits = view.lanes[3].waiting[0]
        state = settle(click(after(view), ("waiting", waits.id), view).state, view)
        assert (state.chosen["upstreams"].id, state.chosen["overview.waiting"].id) == ("vllm-a100", waits.id)

    def test_a_double_click_opens_once(self, view: View, after: After) -> None:
        state = click(after(view), ("upstreams", "ha-llm"), view).state
        assert state.pane == "waiting"
        assert click(state, ("upstreams", "ha-llm"), view, again=True).state == state

    @pytest.mark.parametrize("keys", [("/",), ("p",), ("?",)])
    def test_none_counts_while_something_else_is_asked_or_shown(
        self, view: View, after: After, keys: tuple[str, ...]
    ) -> None:
        state = after(view, *keys)
        assert click(state, ("upstreams", "reasoning"), view).state == state

    def test_what_is_gone_is_not_selected(self, view: View, after: After) -> None:
        state = after(view, "2")
        assert click(state, ("waiting", "q-gone"), view).state.chosen["waiting"].id == "q-7f3a21"
