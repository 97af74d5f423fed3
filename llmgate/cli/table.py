"""Tables and durations as `status` and `ps` print them: columns as wide as their content, nothing that could harm."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from llmgate.tui.cells import clean, cut, pad, shorten, telling, width_of

GAP = "  "
ENDLESS = "∞"
"""Where there is no limit. A minus sign is where there is nothing to tell."""
NOT_GATED = "not gated"
STYLES = {"ok": "32", "full": "33", "down": "31", "dim": "2", "bold": "1"}


class Cell(NamedTuple):
    """Text in a style, one of STYLES or ""."""

    text: str
    style: str = ""


Row = Sequence[Cell | str]


def table(header: Row, rows: Sequence[Row], *, color: bool = False) -> list[str]:
    """Lines of left-aligned columns, two spaces apart; the last one is not padded."""
    cells = [[_cell(value) for value in row] for row in [header, *rows]]
    widths = [max(width_of(cell.text) for cell in column) for column in zip(*cells, strict=True)]
    return [_line(row, widths, color) for row in cells]


def fitted(rows: Sequence[Row], width: int | None, steps: Iterable[tuple[str, int]]) -> list[Row]:
    """The rows, of which the first is the header, in at most `width` cells, if as many of the steps as needed do it.

    A step is a column's title and its cells from then on: 0 takes it out. A name is cut at its end, a session
    in its middle, an id so that what is left of it can be typed.
    """
    kept = [[_cell(value) for value in row] for row in rows]
    pending = iter(steps)
    while width is not None and _width(kept) > width:
        step = next(pending, None)
        if step is None:
            break
        kept = _narrowed(kept, *step)
    return [*kept]


def _width(rows: Sequence[Sequence[Cell]]) -> int:
    widths = [max(width_of(cell.text) for cell in column) for column in zip(*rows, strict=True)]
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _narrowed(rows: Sequence[Sequence[Cell]], title: str, width: int) -> list[list[Cell]]:
    at = [cell.text for cell in rows[0]].index(title)
    if not width:
        return [[*row[:at], *row[at + 1 :]] for row in rows]
    if title == "ID":
        width = telling((row[at].text for row in rows[1:]), width)
    short = {"ID": cut, "SESSION": shorten}.get(title, _cut)
    return [[*row[:at], row[at]._replace(text=short(row[at].text, width)), *row[at + 1 :]] for row in rows]


def _cut(text: str, width: int) -> str:
    return cut(text, width, "~")


def _cell(value: Cell | str) -> Cell:
    cell = value if isinstance(value, Cell) else Cell(value)
    return Cell(clean(cell.text), cell.style)


def _line(row: Sequence[Cell], widths: Sequence[int], color: bool) -> str:
    """A line without trailing blanks: padding of a coloured cell stays outside its colour."""
    parts = []
    for cell, width in zip(row, widths, strict=True):
        space = pad(cell.text, width)[len(cell.text) :]
        parts.append((paint(cell.text, cell.style, color) if cell.text else "") + space)
    return GAP.join(parts).rstrip()


def paint(text: str, style: str, color: bool) -> str:
    """The text in a terminal's colour, if colour is wanted."""
    code = STYLES.get(style)
    return f"\x1b[{code}m{text}\x1b[0m" if color and code else text


def counted(count: int, noun: str) -> str:
    """ "1 token", "2 tokens"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def lapse(ms: int | None) -> str:
    """A duration at a glance: "-" (none), "0s", "5.7s", "38s", "1m10s", "2h05m", "3d04h"."""
    if ms is None:
        return "-"
    ms = max(ms, 0)
    if ms < 9_950:
        return f"{(ms + 50) // 100 / 10:.1f}".removesuffix(".0") + "s"
    seconds = (ms + 500) // 1000
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if days:
        return f"{days}d{hours % 24:02}h"
    if hours:
        return f"{hours}h{minutes % 60:02}m"
    return f"{minutes}m{seconds % 60:02}s" if minutes else f"{seconds}s"
