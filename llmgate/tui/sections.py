"""The parts of the overview: upstreams, who waits, who runs, what happened; and how they share the rows of a screen.

A row is made when it is asked for, so a screen costs the same with ten waiters and with ten thousand.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

from llmgate.adminapi import EventView, RequestView
from llmgate.tui.cells import Line, Span, cut, fit, pad, shorten, width_of_line
from llmgate.tui.columns import WIDE, Frame, table
from llmgate.tui.figures import age
from llmgate.tui.model import Lane
from llmgate.tui.tables import RUNNING, SESSION_WIDTH, UPSTREAMS, WAITING, Waiter

TALL = 34
LOUD_OUTCOMES = frozenset(("queue_full", "queue_timeout"))
"""Their codes, in capitals, are what clients and logs call them."""
BAD_OUTCOMES = LOUD_OUTCOMES | {"upstream_error", "upstream_timeout", "upstream_down"}
KINDS = {"endpoint_changed": "endpoint", "alarm_raised": "alarm", "alarm_cleared": "alarm"}
"""What stands in the column of what happened where the text does not begin with such a word."""


@dataclass(frozen=True, slots=True)
class Look:
    """How the person looks at it. `selected` is an upstream's name; `zone` None is the viewer's own."""

    width: int = 80
    height: int = 24
    ascii: bool = False
    selected: str = ""
    zone: tzinfo | None = None
    keys: bool = True


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the body: heads, and below them some of `size` rows, each made when it is asked for."""

    heads: list[Line]
    size: int
    row: Callable[[int], Line]
    share: int = 1


def clock(moment: datetime | None, zone: tzinfo | None) -> str:
    return "" if moment is None else moment.astimezone(zone).strftime("%H:%M:%S")


def rule(frame: Frame, width: int, title: str = "", *notes: str) -> Line:
    """A line across the screen, with a title at its beginning and notes at its end."""
    rule = frame.glyphs.rule
    begin: Line = []
    if title:
        begin = [Span(f"{rule}{rule} ", "dim"), Span(cut(title, width - 8, frame.glyphs.more), "bold"), Span(" ")]
    end = "".join(f" {note} {rule * 3}" for note in notes) + rule * 3 if notes else ""
    if width_of_line(begin) + len(end) + 4 > width:
        end = ""
    return [*begin, Span(rule * (width - width_of_line(begin) - len(end)), "dim"), Span(end, "dim")]


def upstream_lines(frame: Frame, width: int, most: int) -> list[Line]:
    """The table of upstreams, at most `most` rows of it around the selected one."""
    lanes, laid = frame.view.lanes, table(UPSTREAMS, width)
    lines = [laid.titles(frame)]
    if len(lanes) <= most:
        return lines + [laid.row(lane, frame) for lane in lanes]
    chosen = next((index for index, lane in enumerate(lanes) if lane.upstream.name == frame.selected), 0)
    first = max(0, min(chosen - (most - 1) // 2, len(lanes) - (most - 1)))
    shown = lanes[first : first + most - 1]
    lines += [laid.row(lane, frame) for lane in shown]
    return [*lines, _more(frame, f"{first + 1} to {first + len(shown)} of {len(lanes)} upstreams")]


def _more(frame: Frame, text: str) -> Line:
    return [Span(f"   {frame.glyphs.more} {text}", "dim")]


def sections(frame: Frame, look: Look, room: int) -> list[Line]:
    """The parts of the body that find room, the first in importance first, in the order in which they are read."""
    lanes = sorted(frame.view.lanes, key=lambda lane: lane.upstream.name != frame.selected)
    shown = lanes if look.height >= TALL else lanes[:1]
    events = _events(frame, look)
    waiters, runners = _busy(shown, _waits), _busy(shown, _runs)
    waiting = [_waiting(frame, look, lane, titles=_is_first(lane, waiters, _waits)) for lane in waiters]
    running = [_running(frame, look, lane, titles=_is_first(lane, runners, _runs)) for lane in runners]
    important = [waiting[0], running[0], events, *waiting[1:], *running[1:]]
    rows = dict(zip(map(id, important), allot(room, important), strict=True))
    lines: list[Line] = []
    for section in [*waiting, *running]:
        lines += _section_lines(frame, section, rows[id(section)])
    happened = _section_lines(frame, events, rows[id(events)])
    return [*lines, [], *happened] if len(lines) + len(happened) < room else lines + happened


def _waits(lane: Lane) -> bool:
    return bool(lane.waiting)


def _runs(lane: Lane) -> bool:
    return bool(lane.running or lane.draining)


def _busy(lanes: Sequence[Lane], has: Callable[[Lane], bool]) -> list[Lane]:
    """The selected upstream in any case, and the others that have something to show."""
    return [lanes[0], *filter(has, lanes[1:])]


def _is_first(lane: Lane, lanes: list[Lane], has: Callable[[Lane], bool]) -> bool:
    """Whether it is the first with rows: the titles of the columns stand once."""
    return next(filter(has, lanes), None) is lane


def allot(room: int, sections: list[Section]) -> list[int]:
    """How many rows each section gets, the most important first; -1 = not even its head.

    They take turns, so one that has little to show leaves its rows to the others.
    """
    rows = [-1] * len(sections)
    for index, section in enumerate(sections):
        if len(section.heads) + 1 <= room:
            rows[index] = 1
            room -= len(section.heads) + 1
    while room > 0:
        before = room
        for index, section in enumerate(sections):
            more = min(section.share, section.size - rows[index], room) if rows[index] >= 0 else 0
            rows[index] += more
            room -= more
        if room == before:
            break
    return rows


def _section_lines(frame: Frame, section: Section, rows: int) -> list[Line]:
    if rows < 0:
        return []
    if section.size > rows and rows > 1:
        hidden = section.size - rows + 1
        return [*section.heads, *map(section.row, range(rows - 1)), _more(frame, f"{hidden:,} more")]
    hidden = section.size - rows
    heads = [_noted(frame, section.heads[0], hidden), *section.heads[1:]] if hidden > 0 else section.heads
    return [*heads, *map(section.row, range(min(rows, section.size)))]


def _noted(frame: Frame, head: Line, hidden: int) -> Line:
    """The rule with what has no row of its own at its end: there is a single row, and somebody stands in it."""
    note = f" {frame.glyphs.more} {hidden:,} more {frame.glyphs.rule * 3}"
    return [*fit(head, width_of_line(head) - len(note)), Span(note, "dim")]


def _waiting(frame: Frame, look: Look, lane: Lane, titles: bool) -> Section:
    laid, upstream, waiting = table(WAITING, look.width), lane.upstream, lane.waiting
    notes = [f"{len(waiting):,} of {upstream.max_queued:,}" if upstream.max_queued is not None else f"{len(waiting):,}"]
    if upstream.queue_timeout_ms:
        notes.append(f"timeout {age(upstream.queue_timeout_ms)}")
    title = rule(frame, look.width, f"waiting on {frame.clean(upstream.name)}", *(notes if look.width >= WIDE else ()))
    heads = [title]
    if upstream.remarks:
        heads.append([Span("   " + frame.clean(upstream.remarks), "bad" if upstream.state == "down" else "amber")])
    if not waiting:
        return _nobody(heads, "nobody waits")
    return Section(
        [*heads, laid.titles(frame)] if titles else heads,
        len(waiting),
        lambda index: laid.row(Waiter(index + 1, waiting[index], upstream), frame),
        share=2,
    )


def _running(frame: Frame, look: Look, lane: Lane, titles: bool) -> Section:
    laid, requests = table(RUNNING, look.width), _Joined(lane.running, lane.draining)
    title = rule(frame, look.width, f"running on {frame.clean(lane.upstream.name)}")
    if not len(requests):
        return _nobody([title], "nothing runs")
    heads = [title, laid.titles(frame)] if titles else [title]
    return Section(heads, len(requests), lambda index: laid.row(requests[index], frame))


def _nobody(heads: list[Line], text: str) -> Section:
    return Section(heads, 1, lambda _index: [Span(f"   {text}", "dim")])


class _Joined:
    """Two tuples in a row, without copying them."""

    def __init__(self, first: tuple[RequestView, ...], second: tuple[RequestView, ...]) -> None:
        self._first, self._second = first, second

    def __len__(self) -> int:
        return len(self._first) + len(self._second)

    def __getitem__(self, index: int) -> RequestView:
        beyond = index - len(self._first)
        return self._first[index] if beyond < 0 else self._second[beyond]


def _events(frame: Frame, look: Look) -> Section:
    events = frame.view.events
    title = rule(frame, look.width, "events")
    if not events:
        return _nobody([title], "nothing has happened yet")
    names = max((len(lane.upstream.name) for lane in frame.view.lanes), default=0)
    return Section([title], len(events), lambda index: _event(events[-1 - index], frame, look, max(8, min(names, 16))))


def _event(event: EventView, frame: Frame, look: Look, name_width: int) -> Line:
    text, kind = frame.clean(event.text), KINDS.get(event.kind)
    word, rest = (kind, text) if kind else _split(text)
    if event.outcome in LOUD_OUTCOMES:
        word = word.upper()
    more = frame.glyphs.more
    line = [
        Span(f" {clock(_moment(event.at), look.zone) or '-':8} ", "dim"),
        Span(pad(cut(word, 13, more), 13) + " ", "bad" if _is_bad(event) else ""),
        Span(pad(cut(frame.clean(event.upstream), name_width, more), name_width) + "  "),
    ]
    if look.width >= WIDE:
        line.append(Span(pad(cut(frame.clean(event.request_id), 12, more), 12) + "  ", "dim"))
    said = "  ".join([rest, *_who(event, frame)]) if rest else "  ".join(_who(event, frame))
    return [*line, Span(cut(said, look.width - width_of_line(line), more))]


def _is_bad(event: EventView) -> bool:
    return event.outcome in BAD_OUTCOMES or event.kind == "alarm_raised"


def _who(event: EventView, frame: Frame) -> list[str]:
    """Client, session and purpose, as far as they are known."""
    session = shorten(frame.clean(event.session), SESSION_WIDTH)
    return [text for text in (frame.clean(event.client), session, frame.clean(event.purpose)) if text]


def _split(text: str) -> tuple[str, str]:
    """ "queued (depth 3)" is what happened, in its own column, and what more is to be said."""
    word, _, rest = text.partition(" ")
    return word, rest[1:-1] if rest.startswith("(") and rest.endswith(")") else rest


def _moment(at: str) -> datetime | None:
    try:
        return datetime.fromisoformat(at)
    except ValueError:
        return None
