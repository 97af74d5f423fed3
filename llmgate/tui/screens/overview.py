"""The overview: draws the model's picture at a change, at most ten times a second, and each second for the ages."""

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from rich.style import Style
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.screen import Screen

from llmgate.tui.model import Model
from llmgate.tui.picture import picture, selected_name
from llmgate.tui.sections import Look
from llmgate.tui.widgets.canvas import Canvas

SHORTEST_GAP = 0.1


class OverviewScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)"),
        Binding("up,k", "move(-1)"),
        Binding("home", "move(-1000000)"),
        Binding("end", "move(1000000)"),
        Binding("a", "ascii"),
    ]

    def __init__(self, model: Model, clock: Callable[[], float], look: Look, palette: dict[str, Style]) -> None:
        super().__init__()
        self.look = look
        self._model = model
        self._clock = clock
        self._canvas = Canvas(palette)
        self._painted = -SHORTEST_GAP
        self._is_due = False

    def compose(self) -> ComposeResult:
        yield self._canvas

    def on_mount(self) -> None:
        self.set_interval(1.0, self.paint)

    def on_resize(self, event: Resize) -> None:
        self.look = replace(self.look, width=event.size.width, height=event.size.height)
        self.paint()

    def changed(self) -> None:
        """The model has changed: paint now, or as soon as the last picture is old enough."""
        if self._is_due or not self.is_mounted:
            return
        wait = self._painted + SHORTEST_GAP - self._clock()
        if wait <= 0:
            self.paint()
        else:
            self._is_due = True
            self.set_timer(wait, self.paint)

    def paint(self) -> None:
        self._is_due = False
        self._painted = self._clock()
        self._canvas.show(picture(self._model.view(self._painted), self.look))

    def action_move(self, step: int) -> None:
        view = self._model.view(self._clock())
        names = [lane.upstream.name for lane in view.lanes]
        if names:
            index = names.index(selected_name(view, self.look.selected)) + step
            self.look = replace(self.look, selected=names[max(0, min(index, len(names) - 1))])
            self.paint()

    def action_ascii(self) -> None:
        self.look = replace(self.look, ascii=not self.look.ascii)
        self.paint()
