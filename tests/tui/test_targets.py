"""What an action is about."""

from collections.abc import Callable
from typing import Any

from llmgate.tui import targets
from llmgate.tui.model import View
from llmgate.tui.state import Chosen, State

After = Callable[..., State]


def test_the_selected_request(view: View, after: After) -> None:
    assert targets.selected_request_id(view, after(view)) == ""
    assert targets.selected_request_id(view, after(view, "2", "j")) == "q-7f3a24"
    assert targets.selected_request_id(view, after(view, "2", "j", "enter")) == "q-7f3a24"
    assert targets.selected_request_id(view, after(view, "5")) == "q-7f3a27"
    assert targets.selected_request_id(view, State(page="events", chosen={"events": Chosen("1")})) == ""


def test_the_upstream_of_what_is_selected(view: View, after: After) -> None:
    assert targets.upstream_name(view, after(view, "j")) == "reasoning"
    assert targets.upstream_name(view, after(view, "2", "end")) == "vllm-a100"
    assert targets.upstream_name(view, after(view, "5", "j", "j")) == "vllm-a100"
    assert targets.upstream_name(view, after(view, "j", "tab", "tab", "tab", "tab")) == "reasoning"
    assert targets.upstream_name(view, after(view, "4")) == ""
    assert targets.upstream_name(view, after(view, "j", "tab")) == "reasoning"


def test_marks_that_are_still_there_come_first(view: View, after: After) -> None:
    state = after(view, "2", " ")
    assert [one.id for one in targets.requests(view, state)] == ["q-7f3a21"]
    gone = State(page="waiting", chosen={"waiting": Chosen("q-7f3a24")}, marked=frozenset({"q-0"}))
    assert [one.id for one in targets.requests(view, gone)] == ["q-7f3a24"]


def test_what_ended_is_no_target(view: View, viewed: Any, sample: Any) -> None:
    over = sample.request("q-7f3a24", "ha-llm", state="done", ended_ms=5)
    assert targets.live(view, {"q-7f3a24"})
    known = viewed(sample.snapshot([sample.upstream("ha-llm")], [over]))
    assert known.request("q-7f3a24") is not None
    assert targets.live(known, {"q-7f3a24"}) == []


def test_nothing_forbids_a_plain_look(view: View) -> None:
    assert targets.forbidden(view, State()) == ""
