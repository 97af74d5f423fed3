"""What every picture is put together from: rules across the screen, and sections that show some of their rows.

A row is made when it is asked for, so a screen costs the same with ten waiters and with ten thousand.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, tzinfo

from llmgate.tui.cells import Line, Span, cut, fit, width_of_line
from llmgate.tui.columns import Frame


@dataclass(frozen=True, slots=True)
class Look:
    """Where it is looked at. `zone` None is the viewer's own; without `keys` the last lines are left out."""

    width: int = 80
    height: int = 24
    zone: tzinfo | None = None
    keys: bool = True


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the body: heads, and below them some of `size` rows, each made when it is asked for."""

    heads: list[Line]
    size: int
    row: Callable[[int], Line]
    share: int = 1
    chosen: int = -1
    """The row that must be among those that are shown; -1 = the first ones are."""


def clock(moment: datetime | None, zone: tzinfo | None) -> str:
    return "" if moment is None else moment.astimezone(zone).strftime("%H:%M:%S")


def moment(at: str) -> datetime | None:
    """The time that the daemon wrote as RFC 3339."""
    try:
        return datetime.fromisoformat(at)
    except ValueError:
        return None


def rule(frame: Frame, width: int, title: str = "", *notes: str) -> Line:
    """A line across the screen, with a title at its beginning and notes at its end."""
    rule = frame.glyphs.rule
    begin: Line = []
    if title:
        begin = [Span(f"{rule}{rule} ", "dim"), Span(cut(title, width - 8, frame.glyphs.more), "bold"), Span(" ")]
    end = "".join(f" {note} {rule * 3}" for note in notes) + rule * 3 if notes else ""
    if width_of_line(begin) + len(end) + 4 > width:
        end = ""
    return [*begin, Span(rule * (width - width_of_line(begin) - len(end)), "dim"), Span(end, "dim")]


def more(frame: Frame, text: str) -> Line:
    return [Span(f"   {frame.glyphs.more} {text}", "dim")]


def nobody(heads: list[Line], text: str) -> Section:
    """A section without rows, and what is said instead."""
    return Section(heads, 1, lambda _index: [Span(f"   {text}", "dim")])


def window(size: int, rows: int, chosen: int) -> int:
    """The first of `rows` rows that are shown: so that the chosen one is among them, in the middle where it can be."""
    return max(0, min(chosen - rows // 2, size - rows))


def allot(room: int, sections: list[Section]) -> list[int]:
    """How many rows each section gets, the most important first; -1 = not even its head.

    They take turns, so one that has little to show leaves its rows to the others.
    """
    rows = [-1] * len(sections)
    for index, section in enumerate(sections):
        if len(section.heads) + 1 <= room:
            rows[index] = 1
            room -= len(section.heads) + 1
    while room > 0:
        before = room
        for index, section in enumerate(sections):
            more = min(section.share, section.size - rows[index], room) if rows[index] >= 0 else 0
            rows[index] += more
            room -= more
        if room == before:
            break
    return rows


def section_lines(frame: Frame, section: Section, rows: int) -> list[Line]:
    """The section on its heads and so many rows; -1 = nothing of it."""
    if rows < 0:
        return []
    if section.size <= rows:
        return [*section.heads, *map(section.row, range(section.size))]
    if rows > 1:
        first = window(section.size, rows - 1, section.chosen)
        shown = [section.row(index) for index in range(first, first + rows - 1)]
        return [*section.heads, *shown, more(frame, _hidden(first, rows - 1, section.size))]
    only = max(0, section.chosen)
    heads = [_noted(frame, section.heads[0], section.size - rows), *section.heads[1:]]
    return [*heads, *map(section.row, range(only, only + rows))]


def _hidden(first: int, shown: int, size: int) -> str:
    return f"{first + 1:,} to {first + shown:,} of {size:,}" if first else f"{size - shown:,} more"


def _noted(frame: Frame, head: Line, hidden: int) -> Line:
    """The rule with what has no row of its own at its end: there is a single row, and somebody stands in it."""
    note = f" {frame.glyphs.more} {hidden:,} more {frame.glyphs.rule * 3}"
    return [*fit(head, width_of_line(head) - len(note)), Span(note, "dim")]


def fill(body: list[Line], bottom: list[Line], look: Look) -> list[Line]:
    """Exactly the screen: what is too long is cut, and the bottom stays at the bottom."""
    room = max(0, look.height - len(bottom))
    lines = body[:room] + [[] for _ in range(room - len(body))] + bottom
    return [fit(line, look.width) for line in lines[: look.height]]
