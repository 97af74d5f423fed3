"""Text on a grid of terminal cells: made harmless, measured, cut and padded.

What a client names itself, its session or its model may hold anything. Here it loses its control characters, its marks
of no width and its direction changes, so that every character left is one or two cells wide and stays in its column.
"""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import NamedTuple

from rich.cells import cell_len

LONGEST = 400
SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
"""They have a width alone, and none behind a person."""


class Span(NamedTuple):
    """Some text in one style; styles are words that a palette gives a meaning: "", "dim", "bold", "ok", "full" ..."""

    text: str
    style: str = ""
    row: tuple[str, str] | None = None
    """What its line stands for, where that can be selected: the pane, and the id of its row."""


Line = list[Span]


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The signs that differ between a terminal of today and plain ASCII."""

    rule: str
    mark: str
    marked: str
    live: str
    lost: str
    taken: str
    free: str
    more: str
    endless: str
    arrows: str
    enter: str
    levels: str


UNICODE = Glyphs("─", "▸", "✓", "●", "○", "▰", "▱", "…", "∞", "↑↓", "⏎", "▁▂▃▄▅▆▇█")
ASCII = Glyphs("-", ">", "+", "*", "o", "#", ".", "~", "-", "up/down", "enter", "_.-:=+*#")


@lru_cache(maxsize=8192)
def clean(text: str, ascii_only: bool = False) -> str:
    """The text with everything replaced that could move the cursor, and without what has no width."""
    text = unicodedata.normalize("NFC", text[:LONGEST])
    return "".join(_harmless(character, ascii_only) for character in text)


def _harmless(character: str, ascii_only: bool) -> str:
    if " " <= character <= "~":
        return character
    category = unicodedata.category(character)
    if ascii_only or category[0] == "C" or category in ("Zl", "Zp"):
        return "?"
    if cell_len(character) == 0 or character in SKIN_TONES:
        return ""
    return " " if category == "Zs" else character


@lru_cache(maxsize=8192)
def width_of(text: str) -> int:
    """How many cells a cleaned text takes."""
    return len(text) if text.isascii() else sum(cell_len(character) for character in text)


def cut(text: str, width: int, more: str = "") -> str:
    """At most `width` cells of the text; one that is longer ends in `more`."""
    if width_of(text) <= width:
        return text
    kept, left = [], width - len(more)
    if left < 0:
        return more[:width]
    for character in text:
        left -= cell_len(character)
        if left < 0:
            break
        kept.append(character)
    return "".join(kept) + more


def shorten(text: str, width: int) -> str:
    """At most `width` cells with the beginning and the end kept, as two ids may differ in either."""
    if width_of(text) <= width:
        return text
    tail = text[-2:]
    if width < 6 or width_of(tail) > 2:
        return cut(text, width)
    return cut(text, width - 4) + ".." + tail


def telling(ids: Iterable[str], least: int) -> int:
    """How many characters of the beginning tell these ids apart, `least` at any rate: a beginning can be typed."""
    known = sorted(set(ids))
    return max([least, *(_shared(one, next_one) + 1 for one, next_one in pairwise(known))])


def _shared(one: str, other: str) -> int:
    """Characters of the beginning that both have."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def wrap(text: str, width: int) -> list[str]:
    """The text on lines of at most `width` cells, broken at blanks where there are some."""
    lines = []
    while text and width_of(text) > width:  # a width below 0 comes of a tiny screen less its margins
        line = cut(text, max(width, 2))
        blank = line.rstrip().rfind(" ")
        if blank > len(line) // 2:
            line = line[:blank]
        lines.append(line.rstrip())
        text = text[len(line) :].lstrip()
    return [*lines, text]


def pad(text: str, width: int, right: bool = False) -> str:
    """Exactly `width` cells of a text that is not longer."""
    space = " " * (width - width_of(text))
    return space + text if right else text + space


def width_of_line(line: Line) -> int:
    return sum(width_of(span.text) for span in line)


def fit(line: Line, width: int) -> Line:
    """Exactly `width` cells of a line: cut or padded."""
    fitted: Line = []
    left = width
    for span in line:
        text = cut(span.text, left)
        fitted.append(Span(text, span.style, span.row))
        left -= width_of(text)
    if left:
        fitted.append(Span(" " * left))
    return fitted


def standing_for(line: Line, pane: str, row_id: str) -> Line:
    """The line as that of a row that can be selected."""
    return [Span("", row=(pane, row_id)), *line]


def row_of(line: Line) -> tuple[str, str] | None:
    """Pane and id of the row that a line stands for."""
    return next((span.row for span in line if span.row is not None), None)


def plain(line: Line) -> str:
    return "".join(span.text for span in line).rstrip()
