"""The one screen: draws the picture at a change, at most ten times a second, and each second for the ages.

A key is answered at once, whatever else comes: it is folded into the state, and the picture is drawn there and then.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.events import Click, Key, MouseScrollDown, MouseScrollUp, Paste, Resize
from textual.screen import Screen

from llmgate.adminapi import RequestDetail
from llmgate.tui import press, typing
from llmgate.tui.detail import is_stale
from llmgate.tui.furniture import Look
from llmgate.tui.listing import settle
from llmgate.tui.model import Model, View
from llmgate.tui.picture import is_small, picture
from llmgate.tui.state import State
from llmgate.tui.step import Ask, Effect, Step
from llmgate.tui.widgets.canvas import Canvas

if TYPE_CHECKING:
    from textual.timer import Timer

SHORTEST_GAP = 0.1
ASK_SECONDS = 1.0
"""As long at least is between two questions about the request that is open, since its journey has gone on."""
SHARE = 4
"""A picture that takes long is drawn so much more seldom that it costs one part in so many of the time."""


class Board(Screen[None], inherit_bindings=False):
    """`perform` gets what a key wants done outside of the screen; it must not block."""

    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(
        self,
        model: Model,
        clock: Callable[[], float],
        look: Look,
        state: State,
        perform: Callable[[Effect], None],
    ) -> None:
        super().__init__()
        self.look = look
        self.state = state
        self._model = model
        self._clock = clock
        self._perform = perform
        self._canvas = Canvas()
        self._painted = -SHORTEST_GAP
        self._cost = 0.0
        self._asked = -ASK_SECONDS
        self._due: Timer | None = None
        """The picture that is to come, unless a key has one drawn before."""

    def compose(self) -> ComposeResult:
        yield self._canvas

    def on_mount(self) -> None:
        self.set_interval(1.0, self.paint)

    def on_resize(self, event: Resize) -> None:
        self.look = replace(self.look, width=event.size.width, height=event.size.height)
        self.paint()

    def on_key(self, event: Key) -> None:
        """Every key but ctrl-c, which is a binding of the app and so comes before anything else."""
        event.stop()
        event.prevent_default()
        character = event.character
        self.press(character if character is not None and character.isprintable() else event.key)

    def on_paste(self, event: Paste) -> None:
        event.stop()
        self.show(typing.paste(self.state, event.text))

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        self.press("wheelup")

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        self.press("wheeldown")

    def on_click(self, event: Click) -> None:
        event.stop()
        row = self._canvas.row_at(event.screen_y)
        if row is not None and event.button == 1:
            self._take(lambda view: press.click(self.state, row, view, again=event.chain > 1))

    def press(self, key: str) -> None:
        """Folds one key into the state and draws it; then what it wants done is begun."""
        self._take(lambda view: press.press(self.state, key, view, self.look.height))

    def _take(self, fold: Callable[[View], Step]) -> None:
        view = self._model.view(self._clock())
        step = fold(view)
        self.state = step.state
        self._paint(view)
        for effect in step.effects:
            self._perform(effect)

    def done(self, names: frozenset[str], text: str, is_bad: bool) -> None:
        """What became of actions; `names` are the upstreams whose slots they set."""
        self.show(press.done(self.state, names, text, is_bad))

    def told(self, detail: RequestDetail) -> None:
        """What the daemon told of a request; of use if it is still open."""
        if self.state.detail == detail.request.id:
            self.show(replace(self.state, told=detail))

    def report(self, text: str) -> None:
        """What the doctor found."""
        self.show(replace(self.state, report=text, report_scrolled=0, message=None))

    def show(self, state: State) -> None:
        self.state = state
        self.paint()

    def changed(self) -> None:
        """The model has changed: paint now, or as soon as the last picture is old enough."""
        if self._due is not None or not self.is_mounted:
            return
        wait = self._painted + max(SHORTEST_GAP, self._cost * SHARE) - self._clock()
        if wait <= 0:
            self.paint()
        else:
            self._due = self.set_timer(wait, self.paint)

    def paint(self) -> None:
        self._paint(self._model.view(self._clock()))

    def _paint(self, view: View) -> None:
        if self._due is not None:
            self._due.stop()
            self._due = None
        self._painted = self._clock()
        if is_small(self.look):  # no key is to act on a request that nobody sees
            self.state = replace(self.state, page="overview", pane="upstreams", detail="")
        self.state = settle(self.state, view)
        self._canvas.show(picture(view, self.look, self.state), self.state.theme)
        self._cost = self._clock() - self._painted
        if self._painted - self._asked >= ASK_SECONDS and is_stale(self.state, view):
            self._asked = self._painted
            self._perform(Ask(self.state.detail))
