"""The keys that act: on what, with which question, and when not."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from llmgate.tui.actions import Action
from llmgate.tui.model import View
from llmgate.tui.press import press
from llmgate.tui.state import Asking, State, Why
from llmgate.tui.step import Copy, Do, Examine

After = Callable[..., State]
ACTING = list("pdR+=-xXm")


def asked(state: State) -> Asking:
    assert isinstance(state.prompt, Asking)
    return state.prompt


@pytest.mark.parametrize(("key", "verb"), [("p", "pause"), ("d", "drain"), ("R", "resume")])
def test_upstreams_ask_once(view: View, after: After, key: str, verb: Any) -> None:
    state = after(view, "j", key)
    assert asked(state) == Asking(f"{verb.capitalize()} reasoning?", (Action(verb, "reasoning"),))
    assert press(state, "y", view, 24).effects == (Do((Action(verb, "reasoning"),)),)
    for no in ("n", "escape", "enter", "q"):
        step = press(state, no, view, 24)
        assert (step.effects, step.state.prompt) == ((), None)


def test_all_that_are_marked(view: View, after: After) -> None:
    assert asked(after(view, " ", " ", "p")).actions == (Action("pause", "ha-llm"), Action("pause", "reasoning"))
    assert asked(after(view, "2", " ", " ", "x")).question == "Cancel 2 requests?"
    step = press(after(view, "2", " ", " "), "m", view, 24)
    assert step.effects == (Do((Action("move", "q-7f3a24"), Action("move", "q-7f3a21"))),), "the first ends up first"


def test_an_open_request_is_meant_and_not_what_is_marked(view: View, after: After) -> None:
    assert asked(after(view, "2", " ", "enter", "x")).actions == (Action("cancel", "q-7f3a24"),)


def test_in_lists_of_requests_upstreams_are_those_of_the_row(view: View, after: After) -> None:
    assert asked(after(view, "2", "end", "p")).actions == (Action("pause", "vllm-a100"),)
    assert asked(after(view, "5", "j", "j", "p")).actions == (Action("pause", "vllm-a100"),)
    assert asked(after(view, "j", "tab", "p")).actions == (Action("pause", "reasoning"),)


def slots(number: int) -> Action:
    return Action("set", "reasoning", (("max_concurrent", number),))


def test_slots(view: View, after: After, sample: Any, viewed: Any) -> None:
    step = press(after(view, "j"), "+", view, 24)
    assert step.effects == (Do((slots(9),)),)
    assert press(step.state, "+", view, 24).effects == (Do((slots(10),)),)
    assert press(step.state, "-", view, 24).effects == (Do((slots(8),)),)
    last = press(after(view), "-", view, 24)
    assert (last.effects, last.state.message and last.state.message.text) == (
        (),
        "ha-llm keeps its last slot: p pauses it",
    )
    ungated = viewed(sample.snapshot([sample.upstream("a", max_concurrent=0)]))
    assert press(after(ungated), "+", ungated, 24).effects == ()


def test_cancel(view: View, after: After) -> None:
    assert asked(after(view, "3", "x")).actions == (Action("cancel", "q-7f3a1c"),)
    assert press(after(view, "3"), "X", view, 24).effects == (Do((Action("cancel", "q-7f3a1c"),)),)
    assert press(after(view), "X", view, 24).effects == ()


def test_the_selection_goes_on_from_what_is_being_cancelled(view: View, after: After) -> None:
    """It may take a moment to leave the list, and the next key is meant for the next one."""
    state = press(after(view, "2", "x"), "y", view, 24).state
    assert press(state, "X", view, 24).effects == (Do((Action("cancel", "q-7f3a24"),)),)
    last = press(after(view, "2", "end", "k"), "X", view, 24).state
    assert last.chosen["waiting"].id == "q-7f3a01"
    assert press(after(view, "2", "end"), "X", view, 24).state.chosen["waiting"].id == "q-7f3a27"
    alone = press(after(view, "3"), "X", view, 24).state
    assert alone.chosen["running"].id == "q-7f3a1c", "there is no other"
    assert press(after(view, "2", "enter"), "X", view, 24).state.chosen["waiting"].id == "q-7f3a21", "it is open"
    assert press(after(view, "2"), "m", view, 24).state.chosen["waiting"].id == "q-7f3a21"


def test_marks_are_gone_from_what_is_being_cancelled(view: View, after: After) -> None:
    step = press(after(view, "2", " ", " ", "home"), "X", view, 24)
    assert step.effects == (Do((Action("cancel", "q-7f3a21"), Action("cancel", "q-7f3a24"))),)
    assert (step.state.marked, step.state.chosen["waiting"].id) == (frozenset(), "q-7f3a27")


def test_only_what_waits_can_be_moved(view: View, after: After) -> None:
    step = press(after(view, "3"), "m", view, 24)
    assert step.effects == ()
    assert step.state.message is not None
    assert step.state.message.text == "q-7f3a1c does not wait"


def test_what_drains_is_not_cancelled_again(sample: Any, viewed: Any, after: After) -> None:
    over = viewed(sample.snapshot([sample.upstream("a")], [sample.request("q-1", "a", state="draining")]))
    assert press(after(over, "3"), "X", over, 24).effects == ()


class TestForbidden:
    @pytest.mark.parametrize("key", ACTING)
    @pytest.mark.parametrize("page", ["1", "2"])
    def test_read_only(self, view: View, after: After, key: str, page: str) -> None:
        step = press(after(view, page, read_only=True), key, view, 24)
        assert (step.effects, step.state.prompt) == ((), None)
        assert step.state.message is not None
        assert "--read-only" in step.state.message.text

    @pytest.mark.parametrize("key", ACTING)
    def test_who_may_only_look(self, view: View, after: After, key: str) -> None:
        assert view.status is not None
        looking = replace(view, status=msgspec.structs.replace(view.status, may_act=False))
        step = press(after(looking, "2"), key, looking, 24)
        assert (step.effects, step.state.prompt) == ((), None)
        assert step.state.message is not None
        assert "look, not act" in step.state.message.text

    @pytest.mark.parametrize("key", ACTING)
    def test_without_a_connection(self, view: View, after: After, key: str) -> None:
        lost = replace(view, link=replace(view.link, state="lost"))
        assert press(after(lost, "2"), key, lost, 24).effects == ()

    def test_a_connection_that_is_lost_while_a_question_stands(self, view: View, after: After) -> None:
        lost = replace(view, link=replace(view.link, state="lost"))
        assert press(after(view, "p"), "y", lost, 24).effects == ()

    def test_a_command(self, view: View, after: After) -> None:
        state = after(view, ":", *"pause ha-llm", read_only=True)
        assert press(state, "enter", view, 24).effects == ()


@pytest.mark.parametrize(
    ("keys", "id_", "path"),
    [
        ("", "ha-llm", "/v1/upstreams/ha-llm"),
        ("2j", "q-7f3a24", "/v1/requests/q-7f3a24"),
        ("5jj", "vllm-a100", "/v1/upstreams/vllm-a100"),
    ],
)
def test_copying(view: View, after: After, keys: str, id_: str, path: str) -> None:
    assert press(after(view, *keys), "y", view, 24).effects == (Copy(id_),)
    curl = f"curl -s --unix-socket /run/llmgate/admin.sock http://localhost{path}"
    assert press(after(view, *keys), "Y", view, 24).effects == (Copy(curl),)


def test_a_curl_is_safe_in_a_shell(sample: Any, viewed: Any, after: After) -> None:
    odd = viewed(sample.snapshot([sample.upstream("a b;$(x)")], socket="/x y/admin.sock"))
    (copied,) = press(after(odd), "Y", odd, 24).effects
    assert copied == Copy("curl -s --unix-socket '/x y/admin.sock' http://localhost/v1/upstreams/a%20b%3B%24%28x%29")


def test_an_id_is_safe_in_a_path(sample: Any, viewed: Any, after: After) -> None:
    odd = viewed(sample.snapshot([sample.upstream("a")], [sample.request("../x?y", "a")]))
    (copied,) = press(after(odd, "2"), "Y", odd, 24).effects
    assert isinstance(copied, Copy)
    assert copied.text.endswith(" http://localhost/v1/requests/..%2Fx%3Fy")


def test_nothing_to_copy(viewed: Any, sample: Any, after: After) -> None:
    empty = viewed(sample.snapshot([]))
    assert press(after(empty), "y", empty, 24).effects == ()
    assert press(after(empty), "Y", empty, 24).effects == ()


def test_why(view: View, after: After) -> None:
    assert after(view, "w").why == Why("upstream", "ha-llm")
    assert after(view, "2", "w").why == Why("request", "q-7f3a21")
    assert after(view, "5", "j", "j", "w").why == Why("upstream", "vllm-a100")
    lost = replace(view, link=replace(view.link, state="lost", error="No daemon answers on /x\n\nBecause."))
    step = press(after(lost), "w", lost, 24)
    assert step.effects == (Examine(),)
    assert step.state.message is not None
    assert "llmgate doctor looks" in step.state.message.text
