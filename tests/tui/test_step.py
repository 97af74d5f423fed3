"""What a key leads to."""

from llmgate.tui.state import Message, State
from llmgate.tui.step import Step, says


def test_saying_something_changes_nothing_else() -> None:
    state = State(page="recent")
    assert says(state, "no") == Step(State(page="recent", message=Message("no", is_bad=True)))
    assert says(state, "yes", is_bad=False).state.message == Message("yes")
