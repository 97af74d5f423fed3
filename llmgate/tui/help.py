"""The help: the keys of the screen that is shown, and what its words and columns mean."""

from llmgate.tui.cells import Line
from llmgate.tui.columns import Frame
from llmgate.tui.furniture import Look
from llmgate.tui.keys import KEYS, Key
from llmgate.tui.sheet import sheet_lines
from llmgate.tui.state import State

SHOWN_WIDTH = 11
CELL = 38
"""Cells of a key with what it does; two of them stand on one line where there is room."""
STATES = """\
  idle  nothing runs; ok  a slot is free; full  every slot is taken
  paused  queues, starts none; draining  no new ones; drained  nobody is left
  DOWN  no server answers: queue is kept, or with on_down = "fail" all fail"""
WORDS = {
    "upstreams": STATES
    + """
  SLOTS     running/slots; 1+1/2: one more slot is not known to be free yet
  WAIT/MAX  waiting/most that may wait     OLDEST  longest wait of those
  P50 W     half waited at most so long    P95 W   95 of 100 did
  TTFT      dispatch to first byte         RPS     ended per second, 1 min
  SERVED    requests that were served      FAILED  upstream errors
  run       slots taken, of all; +3: so many run where nothing is gated
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
  session purpose peer endpoint outcome reason key word kind text by.
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


def help_lines(frame: Frame, look: Look, scrolled: int) -> list[Line]:
    """Exactly the screen, as a picture is; what does not fit is scrolled to."""
    texts = help_texts(frame.state, two_columns=look.width >= 2 * CELL + 2)
    return sheet_lines(frame, look, "help", texts, scrolled)
