"""Events as lines of text: a row of the events, and a line as the daemon's log has it."""

from llmgate.adminapi import EventView
from llmgate.tui.cells import Line, Span, cut, pad, shorten, width_of_line
from llmgate.tui.columns import WIDE, Frame
from llmgate.tui.furniture import Look, clock, moment
from llmgate.tui.tables import BAD_OUTCOMES, LOUD_OUTCOMES, SESSION_WIDTH

ROOMY = 140
"""From so many cells on a request's id is written out."""


def event_row(event: EventView, frame: Frame, look: Look) -> Line:
    """When, what, where, and who it was."""
    names = max((len(lane.upstream.name) for lane in frame.view.lanes), default=0)
    name_width = max(8, min(names, 16))
    word, rest = _split(frame.clean(_text(event)), frame.clean(event.word))
    if event.outcome in LOUD_OUTCOMES:
        word = word.upper()
    more = frame.glyphs.more
    pointer = frame.glyphs.mark if str(event.number) == frame.chosen else " "
    line = [
        Span(f"{pointer}{clock(moment(event.at), look.zone) or '-':8} ", "dim"),
        Span(pad(cut(word, 14, more), 14) + " ", "bad" if _is_bad(event) else ""),
        Span(pad(cut(frame.clean(event.upstream), name_width, more), name_width) + "  "),
    ]
    if look.width >= WIDE:
        id_width = 20 if look.width >= ROOMY else 12
        line.append(Span(pad(cut(frame.clean(event.request_id), id_width, more), id_width) + "  ", "dim"))
    said = "  ".join(filter(None, [rest, _by(event, frame), *_who(event, frame)]))
    return [*line, Span(cut(said, look.width - width_of_line(line), more))]


def log_line(event: EventView, frame: Frame, look: Look) -> Line:
    """As in the daemon's log: `llmgate: ha-llm session=a61e6e40 queued (depth 1)`."""
    about = [frame.clean(event.upstream)]
    if event.session:
        about.append(f"session={frame.clean(event.session)[:8]}")
    if event.purpose:
        about.append(f"purpose={frame.clean(event.purpose)}")
    text = f"llmgate: {' '.join(about)} {frame.clean(_text(event))}"
    if event.by:
        text += f" {_by(event, frame)}"
    at = f" {clock(moment(event.at), look.zone) or '-':8} "
    return [Span(at, "dim"), Span(cut(text, look.width - len(at), frame.glyphs.more), "bad" if _is_bad(event) else "")]


def _is_bad(event: EventView) -> bool:
    return event.outcome in BAD_OUTCOMES or event.kind == "alarm_raised" or event.word == "down"


def _text(event: EventView) -> str:
    """What happened, without who had it done: that has a place of its own."""
    return event.text.removesuffix(f" by {event.by}") if event.by else event.text


def _by(event: EventView, frame: Frame) -> str:
    return f"by {frame.clean(event.by)}" if event.by else ""


def _who(event: EventView, frame: Frame) -> list[str]:
    """Client, session and purpose, as far as they are known."""
    return [frame.clean(event.client), shorten(frame.clean(event.session), SESSION_WIDTH), frame.clean(event.purpose)]


def _split(text: str, word: str) -> tuple[str, str]:
    """ "queued (depth 3)" is what happened, in its own column, and what more is to be said. An older daemon gives no
    word of its own: there the text begins with it."""
    if not word:
        word, _, rest = text.partition(" ")
    else:
        rest = text.removeprefix(word).lstrip(" :,")
    return word, rest[1:-1] if rest.startswith("(") and rest.find(")") == len(rest) - 1 else rest
