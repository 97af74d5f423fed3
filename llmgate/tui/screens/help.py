"""The help screen: the keys, and what the words and columns of the overview mean."""

from typing import ClassVar

from rich.style import Style
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.screen import Screen

from llmgate.tui.cells import ASCII, UNICODE, Line, Span, fit
from llmgate.tui.sections import Look
from llmgate.tui.widgets.canvas import Canvas

TEXT = """\
keys
  {arrows} j k  select an upstream            ? h F1   this help
  Home End   first, last upstream          esc      back
  r          not connected: retry now      q ^C     quit
  a          ASCII or Unicode signs
states
  idle  nothing runs                       ok      a slot is free
  full  every slot taken                   DOWN    no connection
  closed  takes no new requests
columns
  SLOTS     running/slots; 1+1/2: one more slot is not known to be free yet
  WAIT/MAX  waiting/most that may wait     OLDEST  longest wait of those
  P50 W     half waited at most so long    P95 W   95 of 100 did
  TTFT      dispatch to first byte         RPS     ended per second, 1 min
  SERVED    requests that were served      FAIL    upstream errors
  QFULL     rejected: a full queue         QTIME    timeouts: waited too long
  LEFT      until QUEUE_TIMEOUT            OUT     tokens so far
  Yellow age: half of the time that a request may wait is over; red: most."""


def help_lines(look: Look) -> list[Line]:
    """Exactly the screen, as a picture is."""
    glyphs = ASCII if look.ascii else UNICODE
    lines: list[Line] = [[Span(" llmgate top ", "bold"), Span(glyphs.mark), Span(" help", "bold")]]
    lines.append([Span(glyphs.rule * look.width, "dim")])
    arrows = "up dn" if look.ascii else "↑ ↓  "
    texts = TEXT.replace("{arrows}", arrows).split("\n")
    lines += [[Span(f" {text}", "" if text.startswith(" ") else "title")] for text in texts]
    room = max(0, look.height - 2)
    lines = lines[:room] + [[] for _ in range(room - len(lines))]
    lines.append([Span(glyphs.rule * look.width, "dim")])
    lines.append([Span(" esc", "bold"), Span(" back "), Span(" q", "bold"), Span(" quit")])
    return [fit(line, look.width) for line in lines[: look.height]]


class HelpScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,h,f1", "app.pop_screen")]

    def __init__(self, look: Look, palette: dict[str, Style]) -> None:
        super().__init__()
        self._look = look
        self._canvas = Canvas(palette)

    def compose(self) -> ComposeResult:
        yield self._canvas

    def on_resize(self, event: Resize) -> None:
        look = Look(event.size.width, event.size.height, self._look.ascii)
        self._canvas.show(help_lines(look))
