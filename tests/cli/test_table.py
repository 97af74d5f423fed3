"""Tables are as wide as their content and harmless; durations are short and never grow shorter as time goes on."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.cli.table import Cell, fitted, lapse, paint, table
from llmgate.tui.cells import width_of


@given(st.lists(st.tuples(st.text(max_size=12), st.text(max_size=12), st.text(max_size=12)), max_size=6))
def test_columns_stand_below_each_other_whatever_is_in_them(rows: list[tuple[str, str, str]]) -> None:
    marked = [(first, f"|{second}", f"|{third}") for first, second, third in rows]
    lines = table(("A", "|B", "|C"), marked)
    assert len(lines) == len(rows) + 1
    columns = {tuple(width_of(line[: at.start()]) for at in re.finditer(r"\|", line)) for line in lines}
    if not any("|" in cell for row in rows for cell in row):
        assert len(columns) == 1


@given(st.text())
def test_no_control_character_gets_through(text: str) -> None:
    line = table(("A",), [(text,)])[1]
    assert all(character.isprintable() for character in line)


def test_colour_is_outside_the_width() -> None:
    plain = table(("A", "B"), [(Cell("x", "ok"), "y"), ("long", "z")])
    coloured = table(("A", "B"), [(Cell("x", "ok"), "y"), ("long", "z")], color=True)
    assert plain[1] == "x     y"
    assert coloured[1] == "\x1b[32mx\x1b[0m     y"
    assert coloured[2] == plain[2]


def test_paint_needs_a_style_and_the_wish_for_colour() -> None:
    assert paint("x", "down", False) == paint("x", "", True) == "x"
    assert paint("x", "down", True) == "\x1b[31mx\x1b[0m"


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "-"),
        (0, "0s"),
        (-5, "0s"),
        (2_140, "2.1s"),
        (5_700, "5.7s"),
        (2_998, "3s"),
        (9_949, "9.9s"),
        (9_950, "10s"),
        (10_499, "10s"),
        (10_500, "11s"),
        (59_600, "1m00s"),
        (10_000, "10s"),
        (38_000, "38s"),
        (70_000, "1m10s"),
        (3_600_000, "1h00m"),
        (3 * 86_400_000 + 4 * 3_600_000, "3d04h"),
    ],
)
def test_durations(ms: int | None, text: str) -> None:
    assert lapse(ms) == text


def test_only_as_much_is_taken_as_is_needed() -> None:
    rows = [("ID", "MODEL"), ("abcdefghij", Cell("a-long-name", "ok"))]
    steps = (("MODEL", 6), ("ID", 8), ("MODEL", 0))
    texts = lambda width: [cell.text for cell in fitted(rows, width, steps)[1]]  # noqa: E731
    assert texts(None) == texts(23) == ["abcdefghij", "a-long-name"]
    assert texts(22) == ["abcdefghij", "a-lon~"]
    assert texts(17) == ["abcdefgh", "a-lon~"]
    assert texts(15) == ["abcdefgh"]
    assert texts(1) == ["abcdefgh"]
    assert fitted(rows, 22, steps)[1][1] == Cell("a-lon~", "ok")
