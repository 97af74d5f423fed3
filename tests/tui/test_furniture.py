"""How the parts of a picture share its rows, and the lines around them."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.tui.cells import Span, plain, width_of_line
from llmgate.tui.columns import Frame
from llmgate.tui.furniture import Look, Section, allot, clock, fill, moment, rule, section_lines, window
from llmgate.tui.model import Model

FRAME = Frame(Model().view(0.0))


def section(heads: int, size: int, share: int = 1) -> Section:
    return Section([[] for _ in range(heads)], size, lambda index: [Span(str(index))], share)


SECTIONS = st.lists(st.builds(section, st.integers(1, 3), st.integers(1, 30), st.integers(1, 2)), max_size=6)


@given(st.integers(-3, 60), SECTIONS)
def test_the_rows_fit_and_none_is_left_empty_while_somebody_wants_it(room: int, parts: list[Section]) -> None:
    rows = allot(room, parts)
    used = sum(len(part.heads) + got for part, got in zip(parts, rows, strict=True) if got >= 0)
    assert used <= max(room, 0)
    assert all(got == -1 or 1 <= got <= part.size for part, got in zip(parts, rows, strict=True))
    wanting = [part for part, got in zip(parts, rows, strict=True) if 0 <= got < part.size]
    assert not wanting or used == room


def test_the_most_important_comes_first() -> None:
    assert allot(3, [section(2, 5), section(1, 5)]) == [1, -1]
    assert allot(6, [section(2, 9), section(2, 9)]) == [1, 1]
    assert allot(9, [section(2, 9, share=2), section(2, 9)]) == [3, 2]


@given(st.integers(1, 300), st.integers(1, 40), st.integers(-1, 299))
def test_the_chosen_row_is_among_those_that_are_shown(size: int, rows: int, chosen: int) -> None:
    chosen = min(chosen, size - 1)
    made: list[int] = []
    part = Section([[Span("head" * 20)]], size, lambda index: made.append(index) or [Span(str(index))], 1, chosen)
    lines = section_lines(FRAME, part, rows)
    assert len(lines) <= 1 + rows
    assert max(chosen, 0) in made
    assert made == list(range(made[0], made[0] + len(made)))
    hidden = size - len(made)
    said = plain(lines[-1]) if rows > 1 else plain(lines[0])
    assert not hidden or f"{hidden} more" in said or f"{made[0] + 1} to {made[-1] + 1} of {size}" in said


@pytest.mark.parametrize(("size", "rows", "chosen", "first"), [(100, 10, 0, 0), (100, 10, 50, 45), (100, 10, 99, 90)])
def test_a_window_stands_around_the_chosen_row(size: int, rows: int, chosen: int, first: int) -> None:
    assert window(size, rows, chosen) == first


def test_nothing_of_a_section_without_room() -> None:
    assert section_lines(FRAME, section(2, 5), -1) == []


def test_the_bottom_stays_at_the_bottom() -> None:
    lines = fill([[Span("body")] for _ in range(9)], [[Span("keys")]], Look(6, 4))
    assert [plain(line) for line in lines] == ["body", "body", "body", "keys"]
    assert {width_of_line(line) for line in lines} == {6}


def test_a_time_that_is_none() -> None:
    assert moment("teatime") is None


@given(st.integers(20, 160), st.text("abc界", max_size=40), st.lists(st.text("abc", max_size=20), max_size=3))
def test_a_rule_is_as_wide_as_the_screen(width: int, title: str, notes: list[str]) -> None:
    line = rule(FRAME, width, title, *notes)
    assert width_of_line(line) == width


def test_the_time_of_day_is_shown_in_the_viewers_zone() -> None:
    assert clock(datetime(2026, 11, 30, 14, 2, 31, tzinfo=UTC), UTC) == "14:02:31"
    assert clock(None, UTC) == ""
