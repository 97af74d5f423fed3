"""Tables of the screen: which columns fit a width, and one line for the titles or for a row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from llmgate.tui.cells import ASCII, UNICODE, Glyphs, Line, Span, clean, cut, fit, pad
from llmgate.tui.model import Lane, View
from llmgate.tui.state import State

WIDE = 100
NO_STATE = State()
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Frame:
    """What a cell may need besides its row."""

    view: View
    ascii: bool = False
    selected: str = ""
    """The upstream whose requests the overview shows."""
    state: State = NO_STATE
    chosen: str = ""
    """The id of the row that has the selection; "" where another list has it."""

    @property
    def glyphs(self) -> Glyphs:
        return ASCII if self.ascii else UNICODE

    def marks(self, row_id: str, marked: frozenset[str]) -> str:
        """What stands before a row: whether it has the selection, whether it is marked."""
        glyphs = self.glyphs
        sign = glyphs.marked if row_id in marked else " "
        return sign + (glyphs.mark if row_id == self.chosen else " ")

    def clean(self, text: str) -> str:
        return clean(text, self.ascii)


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column: `gap` blanks, then `width` cells. Of what is left on the line it takes up to `most` cells."""

    title: str
    width: int
    cell: Callable[[Row, Frame], Span]
    rank: int
    """The lowest are kept on a narrow screen."""
    gap: int = 1
    right: bool = True
    wide: bool = False
    """Only on screens of WIDE cells and more."""
    most: int = 0
    order: Callable[[Any], Any] | None = None
    """What rows are sorted by where this column is chosen for it, given an upstream's lane or a request; None = it
    cannot be."""


@dataclass(frozen=True, slots=True)
class Table(Generic[Row]):
    """The columns that fit one width, each with the cells that it got."""

    columns: tuple[tuple[Column[Row], int], ...]

    def titles(self, frame: Frame) -> Line:
        line: Line = []
        for column, width in self.columns:
            line.extend(_cell(Span(column.title, "title"), column, width, frame))
        return line

    def row(self, row: Row, frame: Frame) -> Line:
        line: Line = []
        for column, width in self.columns:
            line.extend(_cell(column.cell(row, frame), column, width, frame))
        return line


def _cell(span: Span, column: Column[Row], width: int, frame: Frame) -> Line:
    text = cut(span.text, width, frame.glyphs.more)
    return [Span(" " * column.gap), Span(pad(text, width, column.right), span.style)]


def table(columns: Sequence[Column[Row]], width: int) -> Table[Row]:
    """The columns by rank as long as they fit; the rest of the width goes to those that may grow, by rank as well."""
    left, kept = width, dict[int, int]()
    ranked = sorted(enumerate(columns), key=lambda entry: entry[1].rank)
    for index, column in ranked:
        needed = column.gap + column.width
        if needed <= left and (width >= WIDE or not column.wide):
            kept[index] = column.width
            left -= needed
    for index, column in ranked:
        if index in kept:
            more = max(0, min(left, column.most - column.width))
            kept[index] += more
            left -= more
    return Table(tuple((column, kept[index]) for index, column in enumerate(columns) if index in kept))


def highlight(line: Line, width: int) -> Line:
    """The row that has the selection, as wide as the screen."""
    return [Span(span.text, f"{span.style} chosen".strip(), span.row) for span in fit(line, width)]


def is_selected(lane: Lane, frame: Frame) -> bool:
    return lane.upstream.name == frame.selected
