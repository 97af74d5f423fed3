"""Numbers as the screen writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.tui.figures import age, count, duration, estimate, filled, short_age, sparkline

DAY = 86_400_000


@pytest.mark.parametrize(
    ("ms", "text", "short"),
    [
        (-5, "0:00", "0s"),
        (999, "0:00", "0s"),
        (41_000, "0:41", "41s"),
        (725_000, "12:05", "12m"),
        (3_723_000, "1:02:03", "1h"),
        (DAY - 1, "23:59:59", "23h"),
        (3 * DAY + 15_120_000, "3d 04:12", "3d"),
    ],
)
def test_ages(ms: int, text: str, short: str) -> None:
    assert (age(ms), short_age(ms)) == (text, short)


@pytest.mark.parametrize(
    ("ms", "text"),
    [(None, "-"), (0, "~0:00"), (12_400, "~0:12"), (3_599_000, "~59:59"), (3_600_000, "~1h"), (DAY, "~1d")],
)
def test_an_estimate_has_its_sign(ms: int | None, text: str) -> None:
    assert estimate(ms) == text


@pytest.mark.parametrize(
    ("ms", "digits", "text"),
    [(None, 1, "-"), (0, 1, "0.0s"), (5730, 1, "5.7s"), (420, 2, "0.42s"), (99_900, 1, "99.9s"), (125_000, 1, "2:05")],
)
def test_durations(ms: int | None, digits: int, text: str) -> None:
    assert duration(ms, digits) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (1204, "1,204"), (99_999, "99,999"), (123_456, "123k"), (12_345_678, "12.3M"), (999_999_999, "999M")],
)
def test_counts(number: int, text: str) -> None:
    assert count(number) == text


@given(st.integers(0, 999_999_999))
def test_a_count_keeps_its_column(number: int) -> None:
    assert len(count(number)) <= 6


@given(st.integers(0, 200), st.integers(1, 200), st.integers(1, 8))
def test_a_bar_is_empty_only_at_nothing_and_full_only_at_the_whole(part: int, whole: int, cells: int) -> None:
    bar = filled(part, whole, cells)
    assert 0 <= bar <= cells
    assert (bar == 0) == (part == 0) or cells == 1
    assert (bar == cells) == (part >= whole) or cells == 1


def test_a_bar_of_nothing() -> None:
    assert filled(3, 0, 5) == 0


@given(st.lists(st.integers(0, 10_000), max_size=20))
def test_a_sparkline_rises_with_its_numbers(numbers: list[int]) -> None:
    levels = "01234567"
    line = sparkline(numbers, levels)
    if not any(numbers):
        assert line == ""
        return
    assert len(line) == len(numbers)
    assert line[numbers.index(max(numbers))] == "7"
    assert all((sign == "0") == (number == 0) for number, sign in zip(numbers, line, strict=True))
    ordered = sorted(zip(numbers, line, strict=True))
    assert [sign for _, sign in ordered] == sorted(line)
