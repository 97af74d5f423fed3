"""The verbs behind the colon."""

from collections.abc import Callable
from typing import Any

import pytest

from llmgate.tui.actions import Action
from llmgate.tui.commands import WORDS, Command, complete, parse
from llmgate.tui.model import View
from llmgate.tui.state import State

After = Callable[..., State]


@pytest.mark.parametrize(
    ("line", "actions"),
    [
        ("pause ollama", (Action("pause", "ollama"),)),
        ("llmgate drain ollama reasoning", (Action("drain", "ollama"), Action("drain", "reasoning"))),
        ("resume", (Action("resume", "ha-llm"),)),
        ("drain --wait ollama", (Action("drain", "ollama"),)),
        ("cancel q-7f3a24 q-7f3a1c", (Action("cancel", "q-7f3a24"), Action("cancel", "q-7f3a1c"))),
        ("move q-7f3a24 --front", (Action("move", "q-7f3a24"),)),
        ("move q-7f3a21 q-7f3a24", (Action("move", "q-7f3a24"), Action("move", "q-7f3a21"))),
        ("set ollama max_concurrent=2", (Action("set", "ollama", 2),)),
        ("set max_concurrent=2", (Action("set", "ha-llm", 2),)),
        ("set ollama max_concurrent=0", (Action("set", "ollama", 0),)),
    ],
)
def test_actions(view: View, after: After, line: str, actions: tuple[Action, ...]) -> None:
    assert parse(line, view, after(view)) == Command(actions)


def test_without_a_name_what_is_selected_is_meant(view: View, after: After) -> None:
    assert parse("cancel", view, after(view, "2", "j")).actions == (Action("cancel", "q-7f3a24"),)
    assert parse("cancel", view, after(view, "2", " ", " ")).actions == (
        Action("cancel", "q-7f3a21"),
        Action("cancel", "q-7f3a24"),
    )
    assert parse("inspect", view, after(view, "3")).inspect == "q-7f3a1c"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "Nothing was typed"),
        ("   ", "Nothing was typed"),
        ("dance", "No command dance; there are: pause"),
        ("pause nobody", "No upstream nobody; there are: ha-llm, reasoning"),
        ("set nobody max_concurrent=1", "No upstream nobody"),
        ("set ollama", "max_concurrent=N"),
        ("set ollama max_concurrent=x", "max_concurrent=N"),
        ("set ollama max_concurrent=-1", "max_concurrent=N"),
        ("set ollama max_concurrent=²", "max_concurrent=N"),
        ("set ollama max_queued=1", "max_concurrent=N"),
        ("cancel q-0", "No request q-0 waits or runs"),
        ("cancel", "Which request?"),
        ("move", "Which request?"),
        ("inspect", "Which request?"),
        ("inspect q-0", "No request q-0 is known"),
    ],
)
def test_mistakes_say_what_to_type(view: View, after: After, line: str, said: str) -> None:
    found = parse(line, view, after(view))
    assert said in found.error
    assert found == Command(error=found.error)


def test_without_any_upstream(viewed: Any, sample: Any, after: After) -> None:
    empty = viewed(sample.snapshot([]))
    assert "Which upstream?" in parse("pause", empty, after(empty)).error
    assert "Which upstream?" in parse("set max_concurrent=1", empty, after(empty)).error


@pytest.mark.parametrize("word", WORDS)
def test_every_word_that_is_named_is_known(view: View, after: After, word: str) -> None:
    assert "No command" not in parse(word, view, after(view)).error


@pytest.mark.parametrize(
    ("text", "longer"),
    [
        ("pa", "pause "),
        ("r", "r"),
        ("re", "re"),
        ("res", "resume "),
        ("drain o", "drain ollama "),
        ("drain x", "drain x"),
        ("cancel q-7f3a2", "cancel q-7f3a2"),
        ("cancel q-7f3a24", "cancel q-7f3a24 "),
        ("cancel q-", "cancel q-7f3a"),
        ("", ""),
        ("drain ", "drain "),
    ],
)
def test_completion(view: View, text: str, longer: str) -> None:
    assert complete(text, view) == longer
