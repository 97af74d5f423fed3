"""A widget that shows styled lines as they are: no markup, no wrapping; only changed lines go to the terminal."""

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from llmgate.tui.cells import Line, row_of
from llmgate.tui.themes import style


class Canvas(Widget, can_focus=False):
    ALLOW_SELECT = False

    def __init__(self) -> None:
        super().__init__()
        self._theme = "default"
        self._lines: list[Line] = []
        self._base = Style.null()
        """That of the widget, which takes Textual long to find: asked once a picture and not once a line."""

    def show(self, lines: list[Line], theme: str = "default") -> None:
        before, self._lines, self._base = self._lines, lines, self.rich_style
        if len(before) != len(lines) or theme != self._theme:
            self._theme = theme
            self.refresh()
            return
        for y, (old, new) in enumerate(zip(before, lines, strict=True)):
            if old != new:
                self.refresh(Region(0, y, self.size.width, 1))

    def row_at(self, y: int) -> tuple[str, str] | None:
        """Pane and id of the row that is drawn there."""
        return row_of(self._lines[y]) if 0 <= y < len(self._lines) else None

    def render_line(self, y: int) -> Strip:
        line = self._lines[y] if y < len(self._lines) else []
        base = self._base
        return Strip(
            Segment(span.text, base + style(self._theme, span.style)) for span in line if span.text
        ).adjust_cell_length(self.size.width, base)
