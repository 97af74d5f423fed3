"""The help screen's text."""

import pytest

from llmgate.tui.cells import plain, width_of_line
from llmgate.tui.screens.help import TEXT, help_lines
from llmgate.tui.sections import Look


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (60, 15), (10, 2), (1, 1)])
def test_it_fills_the_screen(size: tuple[int, int]) -> None:
    lines = help_lines(Look(*size))
    assert len(lines) == size[1]
    assert {width_of_line(line) for line in lines} == {size[0]}


def test_all_of_it_fits_the_usual_terminal() -> None:
    lines = [plain(line) for line in help_lines(Look(80, 24))]
    assert lines[-3].strip() == "" or lines[-3] == f" {TEXT.splitlines()[-1]}"
    assert f" {TEXT.splitlines()[-1]}" in lines


def test_ascii() -> None:
    assert "\n".join(plain(line) for line in help_lines(Look(80, 24, ascii=True))).isascii()
