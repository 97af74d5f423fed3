"""The verbs behind the colon."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from llmgate.tui.actions import Action
from llmgate.tui.commands import WORDS, Command, complete, hint, parse
from llmgate.tui.model import View
from llmgate.tui.state import State

After = Callable[..., State]


def slots(name: str, number: int) -> Action:
    return Action("set", name, (("max_concurrent", number),))


@pytest.mark.parametrize(
    ("line", "actions"),
    [
        ("pause ollama", (Action("pause", "ollama"),)),
        ("llmgate drain ollama reasoning", (Action("drain", "ollama"), Action("drain", "reasoning"))),
        ("resume", (Action("resume", "ha-llm"),)),
        ("cancel q-7f3a24 q-7f3a1", (Action("cancel", "q-7f3a24"), Action("cancel", "q-7f3a1c"))),
        ("cancel q-7f3a24 q-7f3a1c", (Action("cancel", "q-7f3a24"), Action("cancel", "q-7f3a1c"))),
        ("move q-7f3a24 --front", (Action("move", "q-7f3a24"),)),
        ("move q-7f3a21 q-7f3a24", (Action("move", "q-7f3a24"), Action("move", "q-7f3a21"))),
        ("set ollama max_concurrent=2", (slots("ollama", 2),)),
        ("set max_concurrent=2", (slots("ha-llm", 2),)),
        (
            "set ollama queue_timeout=5m max_queued=none",
            (Action("set", "ollama", (("queue_timeout", 300.0), ("max_queued", None))),),
        ),
        ("set ollama max_concurrent=0", (slots("ollama", 0),)),
        (
            "set ollama max_concurrent=2 --persist",
            (Action("set", "ollama", (("max_concurrent", 2),), "/etc/llmgate/llmgate.toml"),),
        ),
        ("reload", (Action("reload", "settings"),)),
    ],
)
def test_actions(view: View, after: After, line: str, actions: tuple[Action, ...]) -> None:
    assert parse(line, view, after(view)) == Command(actions)


def test_nothing_is_written_down_where_there_is_no_file(viewed: Any, sample: Any, after: After) -> None:
    view = viewed(sample.snapshot([sample.upstream("a")], config=""))
    said = parse("set a max_concurrent=2 --persist", view, after(view)).error
    assert said == "The daemon runs without a settings file: leave out --persist"
    assert parse("set a max_concurrent=2", view, after(view)).actions[0].file == ""


def test_the_new_name_of_an_upstream_is_told(viewed: Any, sample: Any, after: After) -> None:
    view = viewed(sample.snapshot([sample.upstream("a")], renamed={"old": "a"}))
    for line in ("drain old", "set old max_concurrent=2"):
        assert parse(line, view, after(view)).error == "No upstream old any more: a reload calls it a"


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
        ("zzz", "No command zzz. There are: pause"),
        ("drian", "No command drian: is it drain? There are: pause"),
        ("pause nobody", "No upstream nobody; there are: ha-llm, reasoning"),
        ("set nobody max_concurrent=1", "No upstream nobody"),
        ("set ollama", "Which limit? As in :set UPSTREAM max_concurrent=2"),
        ("set ollama max_concurrent=x", "max_concurrent must be a whole number"),
        ("set ollama queue_timeout=soon", "queue_timeout must be a number of seconds"),
        ("set ollama colour=1", "LIMIT one of max_concurrent, max_queued, queue_timeout"),
        ("cancel q-0", "No request q-0 waits or runs"),
        ("drain ollama --now", "drain has no option --now here"),
        ("cancel q-7f3a24 --persist", "cancel has no option --persist here"),
        ("quit --now", "quit has no option --now here"),
        ("cancel", "Which request?"),
        ("move", "Which request?"),
        ("inspect", "Which request?"),
        ("inspect q-0", "No request q-0 is known"),
        ("inspect q-7f3a2", "q-7f3a2 is the beginning of q-7f3a2"),
        ("cancel q-7f3a2", ": say more of it"),
        ("drain ollama --wait", "drain does not wait here"),
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
        ("drain q-", "drain q-"),
        ("cancel o", "cancel o"),
        ("set o", "set ollama "),
        ("set ollama q", "set ollama queue_timeout="),
        ("set ollama max", "set ollama max_"),
        ("set ollama max_c", "set ollama max_concurrent="),
        ("status o", "status o"),
    ],
)
def test_completion(view: View, text: str, longer: str) -> None:
    assert complete(text, view) == longer


def test_what_ended_can_be_opened_but_not_cancelled(viewed: Any, sample: Any) -> None:
    view = replace(viewed(sample.snapshot([])), recent=(sample.request("q-old", "a", state="done"),))
    assert complete("inspect q", view) == "inspect q-old "
    assert complete("cancel q", view) == "cancel q"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", " ".join(WORDS)),
        ("p", "pause ps"),
        ("pause", ":pause [UPSTREAM ...]"),
        ("pause ", ":pause [UPSTREAM ...]   ha-llm reasoning ollama vllm-a100"),
        ("pause o", ":pause [UPSTREAM ...]   ollama"),
        ("pause ollama", ":pause [UPSTREAM ...]"),
        (
            "set ollama m",
            ":set UPSTREAM max_concurrent=2 max_queued=none queue_timeout=5m [--persist]",
        ),
        ("xyz", "No such command"),
        ("status ", ""),
    ],
)
def test_hints(view: View, text: str, said: str) -> None:
    assert hint(text, view) == said
