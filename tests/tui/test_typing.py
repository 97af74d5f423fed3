"""The line at the bottom: a filter, a command, a question."""

from collections.abc import Callable
from typing import Any

import pytest

from llmgate.tui import typing
from llmgate.tui.actions import Action
from llmgate.tui.model import View
from llmgate.tui.press import press
from llmgate.tui.state import State, Typing
from llmgate.tui.step import Ask, Do, Examine, Quit

After = Callable[..., State]


def test_a_filter_holds_while_it_is_typed(view: View, after: After) -> None:
    state = after(view, "/", *"dsh")
    assert (state.filter, state.prompt) == ("dsh", Typing("filter", "dsh"))
    kept = after(view, "/", *"dsh", "enter")
    assert (kept.filter, kept.prompt) == ("dsh", None)
    dropped = after(view, "/", *"dsh", "escape")
    assert (dropped.filter, dropped.prompt) == ("", None)
    assert after(view, "/", *"dsh", "enter", "/", "!").filter == "dsh!"


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (["a", "b", "backspace"], "a"),
        (["a", "ctrl+u", "b"], "b"),
        ([*"ab cd", "ctrl+w"], "ab"),
        ([*"ab", "ctrl+w"], ""),
        (["a", "f5", "down", "tab", "b"], "ab"),
        (["é", " ", "?"], "é ?"),
        (["x"] * 600, "x" * 500),
    ],
)
def test_editing(view: View, keys: list[str], text: str) -> None:
    state = State(prompt=Typing("filter"))
    for key in keys:
        state = press(state, key, view, 24).state
    assert state.prompt == Typing("filter", text)
    assert state.filter == text


def test_backspace_on_an_empty_line_leaves_it(view: View, after: After) -> None:
    assert after(view, ":", "backspace").prompt is None


def test_pasting(view: View) -> None:
    assert typing.paste(State(), "x") == State()
    assert typing.paste(State(prompt=Typing("command", "a")), "b\r\n\x1bc").prompt == Typing("command", "abc")
    assert typing.paste(State(prompt=Typing("filter")), "d" * 999).filter == "d" * 500


class TestCommands:
    def enter(self, view: View, after: After, line: str, **state: Any) -> Any:
        return press(after(view, ":", *line, **state), "enter", view, 24)

    def test_actions_are_done_without_asking(self, view: View, after: After) -> None:
        step = self.enter(view, after, "drain ollama")
        assert (step.effects, step.state.prompt) == ((Do((Action("drain", "ollama"),)),), None)
        step = self.enter(view, after, "set ollama max_concurrent=3")
        assert step.state.slots == {"ollama": 3}

    def test_pages_help_and_quit(self, view: View, after: After) -> None:
        assert self.enter(view, after, "events").state.page == "events"
        assert self.enter(view, after, "ps", detail="q-1").state.detail == ""
        assert self.enter(view, after, "help").state.help == 0
        assert self.enter(view, after, "q").effects == (Quit(),)
        assert self.enter(view, after, "doctor").effects == (Examine(),)

    def test_a_reload_is_done_unless_nothing_may_be_changed(self, view: View, after: After) -> None:
        assert self.enter(view, after, "reload").effects == (Do((Action("reload", "settings"),)),)
        assert self.enter(view, after, "reload", read_only=True).effects == ()

    def test_inspect(self, view: View, after: After) -> None:
        step = self.enter(view, after, "inspect q-7f3a21")
        assert (step.state.detail, step.effects) == ("q-7f3a21", (Ask("q-7f3a21"),))

    def test_a_mistake_is_told(self, view: View, after: After) -> None:
        step = self.enter(view, after, "drian ollama")
        assert step.effects == ()
        assert step.state.message is not None
        assert step.state.message.is_bad

    def test_escape_drops_it_and_leaves_the_filter(self, view: View, after: After) -> None:
        state = after(view, "/", "d", "enter", ":", "x", "escape")
        assert (state.prompt, state.filter) == (None, "d")

    def test_tab_completes(self, view: View, after: After) -> None:
        assert after(view, ":", *"dr", "tab", *"re", "tab").prompt == Typing("command", "drain reasoning ")
