"""The last two lines."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC
from typing import Any

import pytest

from llmgate.tui.cells import plain
from llmgate.tui.furniture import Look
from llmgate.tui.model import View
from llmgate.tui.picture import picture
from llmgate.tui.state import Message, State

After = Callable[..., State]


def foot(view: View, state: State, width: int = 80, lines: int = 2) -> list[str]:
    return [plain(line) for line in picture(view, Look(width, 24, UTC), state)[-lines:]]


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ("", " ↑↓ select  ⏎ open  tab pane  / filter  p pause  d drain  ? help  q quit"),
        ("2", " ↑↓ select  ⏎ open  / filter  x cancel  m to front  p pause  ? help  q quit"),
        ("3", " ↑↓ select  ⏎ open  / filter  p pause  d drain  x cancel  w why  ? help  q quit"),
        ("4", " ↑↓ select  ⏎ open  / filter  w why  s sort  space mark  l log  ? help  q quit"),
        ("x", " ↑↓ select  ⏎ open  tab pane  / filter  p pause  d drain  ? help  q quit"),
        ("p", " Pause ha-llm?  y yes, any other key no"),
        ("/ab", " /ab"),
        (":drain x", " :drain x"),
    ],
)
def test_keys_that_do_something(view: View, after: After, keys: str, line: str) -> None:
    assert foot(view, after(view, *keys))[1] == line


def test_an_open_request(view: View, after: After) -> None:
    said = foot(view, after(view, "2", "enter"))[1]
    assert said == " esc back  x cancel  m to front  w why  y copy id  Y copy curl  ? help  q quit"


def test_an_open_request_that_runs_or_has_ended_cannot_be_moved(view: View, after: After) -> None:
    assert foot(view, after(view, "3", "enter"))[1].startswith(" esc back  x cancel  w why")
    assert foot(view, after(view, detail="q-none"))[1].startswith(" esc back  w why")


def test_no_key_that_is_off(view: View, after: After) -> None:
    for keys in ("", "2", "3", "2\n"):
        pressed = ["enter" if key == "\n" else key for key in keys]
        said = foot(view, after(view, *pressed, read_only=True), 200)[1]
        assert not {"pause", "drain", "cancel", "slots", "front"} & set(said.split())


def test_while_the_daemon_stops_only_a_cancel_is_offered(viewed: Any, sample: Any, after: After) -> None:
    running = sample.request("q-1", "a", state="running", dispatched_ms=sample.NOW)
    view = viewed(sample.snapshot([sample.upstream("a", state="draining", running=1)], [running], state="stopping"))
    assert foot(view, after(view), 200)[1].startswith(" ↑↓ select  ⏎ open  tab pane  / filter  w why")
    assert " x cancel  w why" in foot(view, after(view, "3"), 200)[1]


@pytest.mark.parametrize(
    ("state", "keys"),
    [
        ("full", "p pause  d drain  R resume"),
        ("paused", "R resume  d drain"),
        ("draining", "R resume  p pause"),
        ("drained", "R resume  p pause"),
    ],
)
def test_what_an_upstream_is_already_is_not_offered(
    viewed: Any, sample: Any, after: After, state: str, keys: str
) -> None:
    view = viewed(sample.snapshot([sample.upstream("a", state=state)]))
    assert f" / filter  {keys}  +/- slots  w why" in foot(view, after(view), 200)[1]
    assert f"{keys[:8].strip()}" in foot(view, after(view), 80)[1]


def test_without_a_connection(view: View, after: After) -> None:
    lost = replace(view, link=replace(view.link, state="lost"))
    assert foot(lost, after(lost))[1] == " r retry now  w why (llmgate doctor)  ? help  q quit"


def test_what_is_typed_keeps_its_end_in_sight(view: View, after: After) -> None:
    said = foot(view, after(view, "/", *"界" * 60, "z"))[1]
    assert said.startswith(" /界")
    assert said.endswith("界z")


def test_a_filter_that_is_no_regular_expression_is_told_as_such(view: View, after: After) -> None:
    said = " /a( b   a( is no regular expression: it is taken as it stands"
    assert foot(view, after(view, *"/a( b"))[-1] == said
    assert foot(view, after(view, "/", *"(" * 70))[-1] == " /" + "(" * 70
    assert foot(view, after(view, *"/a.b"))[-1] == " /a.b"


def test_a_message_stands_above_on_as_many_lines_as_it_takes(view: View, after: After) -> None:
    state = replace(after(view), message=Message("no \x1b " + "x" * 80, is_bad=True))
    assert foot(view, state, lines=3)[:2] == [" no ? " + "x" * 73, " " + "x" * 7]
    state = replace(after(view), message=Message("too long " * 60, is_bad=True))
    told = foot(view, state, lines=6)
    assert [len(line) > 70 for line in told] == [False, True, True, True, True, True]
    assert told[4].endswith("…")
    assert len(told[4]) <= 80


def test_a_command_is_helped_while_it_is_typed(view: View, after: After) -> None:
    assert foot(view, after(view, *":set ollama q")) == [
        " :set UPSTREAM max_concurrent=2 max_queued=none queue_timeout=5m [--persist]",
        " :set ollama q",
    ]
