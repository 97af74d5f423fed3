"""A widget that shows styled lines as they are: no markup, no wrapping; only changed lines go to the terminal."""

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from llmgate.tui.cells import Line

COLOURS = {
    "dim": Style(dim=True),
    "bold": Style(bold=True),
    "title": Style(dim=True),
    "ok": Style(color="green"),
    "full": Style(color="yellow"),
    "amber": Style(color="yellow"),
    "bad": Style(color="red", bold=True),
}
MONOCHROME = {
    "bold": Style(bold=True),
    "full": Style(bold=True),
    "amber": Style(bold=True),
    "bad": Style(reverse=True),
}
PLAIN = Style()


class Canvas(Widget, can_focus=False):
    ALLOW_SELECT = False

    def __init__(self, palette: dict[str, Style]) -> None:
        super().__init__()
        self._palette = palette
        self._lines: list[Line] = []

    def show(self, lines: list[Line]) -> None:
        before, self._lines = self._lines, lines
        if len(before) != len(lines):
            self.refresh()
            return
        for y, (old, new) in enumerate(zip(before, lines, strict=True)):
            if old != new:
                self.refresh(Region(0, y, self.size.width, 1))

    def render_line(self, y: int) -> Strip:
        line = self._lines[y] if y < len(self._lines) else []
        base = self.rich_style
        return Strip(
            Segment(span.text, base + self._palette.get(span.style, PLAIN)) for span in line if span.text
        ).adjust_cell_length(self.size.width, base)
