"""The last two lines."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC

import pytest

from llmgate.tui.cells import plain
from llmgate.tui.furniture import Look
from llmgate.tui.model import View
from llmgate.tui.picture import picture
from llmgate.tui.state import Message, State

After = Callable[..., State]


def foot(view: View, state: State, width: int = 80) -> list[str]:
    return [plain(line) for line in picture(view, Look(width, 24, UTC), state)[-2:]]


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


def test_without_a_connection(view: View, after: After) -> None:
    lost = replace(view, link=replace(view.link, state="lost"))
    assert foot(lost, after(lost))[1] == " r retry now  w why  ? help  q quit"


def test_what_is_typed_keeps_its_end_in_sight(view: View, after: After) -> None:
    said = foot(view, after(view, "/", *"界" * 60, "z"))[1]
    assert said.startswith(" /界")
    assert said.endswith("界z")


def test_a_message_stands_above_and_is_cut(view: View, after: After) -> None:
    state = replace(after(view), message=Message("no \x1b " + "x" * 100, is_bad=True))
    line, _ = foot(view, state)
    assert line.startswith(" no ? xxx")
    assert len(line) == 80
