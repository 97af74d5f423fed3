"""What the doctor found: how it is asked, and how it is laid out."""

import sys
from typing import Any

import pytest

from llmgate.tui.cells import plain, width_of_line
from llmgate.tui.columns import Frame
from llmgate.tui.examine import examine, report_lines
from llmgate.tui.furniture import Look


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


async def test_what_it_writes_is_shown_whatever_its_status() -> None:
    code = "import os, sys; print('ok   fine', os.environ['NO_COLOR']); sys.exit('fail  not fine')"
    assert sorted((await examine(python(code))).split("\n")) == ["fail  not fine", "ok   fine 1"]


async def test_that_it_cannot_be_asked_is_told() -> None:
    assert "another terminal" in await examine([])
    assert "cannot be run: No such file" in await examine(["/nowhere/python"])
    assert "nothing to tell" in await examine(python(""))


async def test_one_that_does_not_end_is_ended() -> None:
    said = await examine(python("import time; print('x', flush=True); time.sleep(600)"), seconds=0.5)
    assert said.startswith("llmgate doctor found nothing out")


def test_long_lines_go_on_below_themselves(view: Any) -> None:
    report = "ok    settings: " + "a word " * 20 + "\n      do this\x1b[2J: llmgate probe http://127.0.0.1:18484"
    lines = report_lines(Frame(view), Look(60, 15), report, 0)
    assert {width_of_line(line) for line in lines} == {60}
    said = [plain(line) for line in lines]
    assert said[0] == " llmgate top ▸ llmgate doctor"
    assert said[2].startswith("  ok    settings: a word")
    assert said[3].startswith("        word a word")
    assert "        do this?[2J: llmgate probe http://127.0.0.1:18484" in said


@pytest.mark.parametrize(
    ("report", "shown"),
    [
        (
            "      start the server, or look at its address: llmgate probe http://h:1",
            ["start the server, or look at its address:", "llmgate probe http://h:1"],
        ),
        (
            "      start the server that is not there, or look at its address: llmgate probe http://h:1",
            ["start the server that is not there, or look at", "its address: llmgate probe http://h:1"],
        ),
        (
            "      look: llmgate probe http://" + "h" * 40,
            ["look: llmgate probe http://" + "h" * 24, "h" * 16],
        ),
    ],
)
def test_a_command_is_not_broken_where_it_can_be_helped(view: Any, report: str, shown: list[str]) -> None:
    lines = [plain(line).rstrip() for line in report_lines(Frame(view), Look(60, 15), report, 0)]
    assert [line for line in lines[2:-2] if line] == [" " * 8 + text for text in shown]
