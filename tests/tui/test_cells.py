"""Text of strangers on a grid of cells."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from llmgate.tui.cells import (
    LONGEST,
    Span,
    clean,
    cut,
    fit,
    pad,
    plain,
    row_of,
    shorten,
    standing_for,
    telling,
    width_of,
    width_of_line,
    wrap,
)

NASTY = (
    st.text(st.sampled_from("ab[]\x1b\r\n\t\x00\x7f\x9b界한👩\u200d🏽\u0301\u0903\u202e\u2028\ud800\ufe0f é"))
    | st.text()
)


@given(NASTY, st.booleans())
def test_nothing_that_moves_the_cursor_is_left(text: str, ascii_only: bool) -> None:
    left = clean(text, ascii_only)
    for character in left:
        assert unicodedata.category(character)[0] not in "CM"
        assert unicodedata.category(character) not in ("Zl", "Zp")
        assert cell_len(character) in (1, 2)
    assert cell_len(left) == width_of(left)
    assert left.isascii() or not ascii_only


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("\x1b[31mred\r\n", "?[31mred??"),
        ("[bold]x[/bold]", "[bold]x[/bold]"),
        ("e\u0301", "é"),
        ("a\u200db\u202ec", "a?b?c"),
        ("z\u0336\u0335", "z"),
        ("a\u00a0b", "a b"),
        ("日本", "日本"),
    ],
)
def test_examples(text: str, left: str) -> None:
    assert clean(text) == left


def test_only_the_beginning_of_an_endless_text_is_looked_at() -> None:
    assert len(clean("x" * 10_000_000)) == LONGEST


@given(NASTY.map(clean), st.integers(0, 20))
def test_cut_and_pad_give_the_width(text: str, width: int) -> None:
    short = cut(text, width, "…")
    assert width_of(short) <= width
    assert short == text or width_of(text) > width
    assert width_of(pad(short, width)) == width
    assert pad(short, width, right=True).endswith(short)


@given(NASTY.map(clean), st.integers(0, 20))
def test_shorten_keeps_both_ends(text: str, width: int) -> None:
    short = shorten(text, width)
    assert width_of(short) <= width
    if text.isascii() and len(text) > width >= 6:
        assert (short[: width - 4], short[-4:-2], short[-2:]) == (text[: width - 4], "..", text[-2:])


@given(st.lists(st.text("ab", min_size=1, max_size=8)), st.integers(1, 6))
def test_beginnings_tell_ids_apart(ids: list[str], least: int) -> None:
    length = telling(ids, least)
    assert length >= least
    assert len({one[:length] for one in ids}) == len(set(ids))
    if length > least:
        assert len({one[: length - 1] for one in ids}) < len(set(ids))


def test_a_wide_character_is_not_halved() -> None:
    assert cut("界界界", 4, "…") == "界…"
    assert cut("界界界", 5) == "界界"
    assert pad(cut("界界", 3), 3) == "界 "


@given(st.lists(NASTY.map(clean).map(Span), max_size=5), st.integers(0, 40))
def test_a_fitted_line_has_the_width(line: list[Span], width: int) -> None:
    fitted = fit(line, width)
    assert width_of_line(fitted) == width
    text = plain(line)
    assert plain(fitted) == text or not text.startswith(plain(fitted)) or width_of_line(line) > width


def test_a_line_that_stands_for_a_row_does_so_when_it_is_cut() -> None:
    line = standing_for([Span("some text")], "waiting", "q-1")
    assert row_of(line) == row_of(fit(line, 3)) == ("waiting", "q-1")
    assert plain(line) == "some text"
    assert row_of([Span("some text")]) is None


@given(NASTY.map(clean), st.integers(2, 20))
def test_wrapped_lines_fit_and_hold_everything(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert all(width_of(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_wrapping_ends_where_there_is_no_room_at_all() -> None:
    for width in (-1, 0):
        assert "".join(wrap("abc", width)) == "abc"


def test_wrapping_breaks_at_blanks() -> None:
    assert wrap("one two three", 9) == ["one two", "three"]
    assert wrap("abcdefgh ij", 4) == ["abcd", "efgh", "ij"]
