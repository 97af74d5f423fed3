"""A text over the whole screen (its keys: test_press.py; the help: test_help.py)."""

from typing import Any

import pytest

from llmgate.tui.cells import plain, width_of_line
from llmgate.tui.columns import Frame
from llmgate.tui.furniture import Look
from llmgate.tui.sheet import sheet_lines


@pytest.mark.parametrize("size", [(80, 24), (60, 15), (10, 2), (1, 1)])
@pytest.mark.parametrize("scrolled", [0, 5, 10**6])
def test_it_fills_the_screen_and_ends_with_its_last_line(view: Any, size: tuple[int, int], scrolled: int) -> None:
    texts = [f" line {number} \x1b[2J" for number in range(40)]
    lines = sheet_lines(Frame(view), Look(*size), "a title", texts, scrolled)
    assert len(lines) == size[1]
    assert {width_of_line(line) for line in lines} == {size[0]}
    said = "\n".join(map(plain, lines))
    assert "\x1b" not in said
    if size[1] > 5:
        assert "a title" in said
        assert (" line 39 " in said) is (scrolled == 10**6)
        assert (" line 0 " in said) is (scrolled == 0)
        assert ("more lines below" in said) is (scrolled != 10**6)


@pytest.mark.parametrize(("many", "told"), [(21, "1 more line below"), (22, "2 more lines below")])
def test_what_is_below_is_counted(view: Any, many: int, told: str) -> None:
    assert told in plain(sheet_lines(Frame(view), Look(80, 24), "t", ["x"] * many, 0)[-2])


def test_a_short_text_is_not_scrolled(view: Any) -> None:
    lines = [plain(line) for line in sheet_lines(Frame(view), Look(80, 24), "t", ["one"], 99)]
    assert lines[2] == " one"
    assert "scroll" not in lines[-1]
