"""The help: the keys of the screen that is shown, and what its words and columns mean."""

from llmgate.tui.cells import Line, Span, fit
from llmgate.tui.columns import Frame
from llmgate.tui.furniture import Look, rule
from llmgate.tui.keys import KEYS, Key
from llmgate.tui.state import State

SHOWN_WIDTH = 11
CELL = 38
"""Cells of a key with what it does; two of them stand on one line where there is room."""
STATES = """\
  idle  nothing runs; ok  a slot is free; full  every slot is taken
  paused  takes requests, starts none; DOWN  no server answers, queue is kept
  draining  takes no new ones, serves the others; drained  nobody is left"""
WORDS = {
    "upstreams": STATES
    + """
  SLOTS     running/slots; 1+1/2: one more slot is not known to be free yet
  WAIT/MAX  waiting/most that may wait     OLDEST  longest wait of those
  P50 W     half waited at most so long    P95 W   95 of 100 did
  TTFT      dispatch to first byte         RPS     ended per second, 1 min
  SERVED    requests that were served      FAILED  upstream errors
  full      refused: the queue was full    timeout  waited too long
  refused   came while it drained, or llmgate stopped""",
    "waiting": """\
  #         place in its queue: 1 is next to run
  ETA       when it gets a slot, an estimate from the last runs
  LEFT      until it gives up with QUEUE_TIMEOUT
  WAITED    yellow when half of the time that it may wait is over; red: most""",
    "running": """\
  RUN       since it got its slot          WAITED  before that
  TTFT      dispatch to first byte         OUT     tokens so far
  draining  over for its client, while its server is not known to be free yet""",
    "recent": """\
  AGO       since it ended                 OUTCOME  how, see llmgate(1), ps
  WAITED    before it got a slot           RAN      with it""",
    "events": "  Newest first. Enter opens the request that an event is about.",
}
FILTER = """\
  Words are regular expressions, told apart by blanks; a row must have all.
  client=dsh looks in one field: id upstream state model api path client
  session purpose peer endpoint outcome key word kind text by.
  !x: rows without x. upstream= also hides rows of the table of upstreams.
  Esc drops the filter."""


def help_texts(state: State, *, two_columns: bool) -> list[str]:
    """The help in lines; a title begins in the first column."""
    where = "detail" if state.detail else "lists"
    cells = [_key_text(key) for key in KEYS if where in key.where]
    texts = ["keys, with a request open" if state.detail else f"keys, {state.page}"]
    if two_columns:
        half = -(-len(cells) // 2)
        pairs = zip(cells[:half], [*cells[half:], ""], strict=False)
        texts += [f"{left:<{CELL}}{right}".rstrip() for left, right in pairs]
    else:
        texts += cells
    if not state.detail:
        texts += ["words and columns", *WORDS[state.holds].split("\n"), "filter", *FILTER.split("\n")]
    return texts


def _key_text(key: Key) -> str:
    return f"  {key.shown:<{SHOWN_WIDTH}} {key.does}"


def help_lines(frame: Frame, look: Look) -> list[Line]:
    """Exactly the screen, as a picture is; what does not fit is scrolled to."""
    texts = help_texts(frame.state, two_columns=look.width >= 2 * CELL + 2)
    room = max(1, look.height - 4)
    first = max(0, min(frame.state.help or 0, len(texts) - room))
    lines: list[Line] = [[Span(" llmgate top ", "bold"), Span(frame.glyphs.mark), Span(" help", "bold")]]
    lines.append(rule(frame, look.width))
    shown = texts[first : first + room]
    lines += [[Span(f" {frame.clean(text)}", "" if text.startswith(" ") else "title")] for text in shown]
    lines += [[] for _ in range(look.height - 2 - len(lines))]
    below = len(texts) - first - len(shown)
    lines.append(rule(frame, look.width, *((f"{below} more lines below",) if below else ())))
    keys = [("esc", "back"), *([(frame.glyphs.arrows, "scroll")] if len(texts) > room else []), ("q", "quit")]
    lines.append([span for key, word in keys for span in (Span(f" {key}", "bold"), Span(f" {word} "))])
    return [fit(line, look.width) for line in lines[: look.height]]
