"""The parts of the overview: upstreams, who waits, who runs, what happened; and how they share the rows of a screen."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from llmgate.tui import listing
from llmgate.tui.cells import Line, Span, standing_for
from llmgate.tui.columns import WIDE, Frame, highlight, table
from llmgate.tui.figures import age
from llmgate.tui.furniture import Look, Section, allot, more, nobody, rule, section_lines, window
from llmgate.tui.happened import event_row
from llmgate.tui.listing import Listing
from llmgate.tui.model import Lane
from llmgate.tui.state import Sort
from llmgate.tui.tables import RUNNING, UPSTREAMS, WAITING

TALL = 34


def upstream_lines(frame: Frame, width: int, most: int) -> list[Line]:
    """The table of upstreams, at most `most` rows of it around the selected one."""
    rows, laid = listing.upstreams(frame.view, frame.state).rows, table(UPSTREAMS, width)
    own = _frame_of(frame, "upstreams")

    def row(lane: Lane) -> Line:
        line = standing_for(laid.row(lane, frame), "upstreams", lane.upstream.name)
        return highlight(line, width) if lane.upstream.name == own.chosen else line

    if len(rows) <= most:
        return [laid.titles(frame), *map(row, rows)]
    chosen = next((index for index, lane in enumerate(rows) if lane.upstream.name == frame.selected), 0)
    first = window(len(rows), most - 1, chosen)
    shown = rows[first : first + most - 1]
    told = f"{first + 1} to {first + len(shown)} of {len(rows)} upstreams"
    return [laid.titles(frame), *map(row, shown), more(frame, told)]


def _frame_of(frame: Frame, pane: str) -> Frame:
    """The frame for one part of the overview: the selection is in one of them only."""
    return frame if frame.state.holds == pane else replace(frame, chosen="")


def sections(frame: Frame, look: Look, room: int) -> list[Line]:
    """The parts of the body that find room, the first in importance first, in the order in which they are read."""
    lanes = sorted(frame.view.lanes, key=lambda lane: lane.upstream.name != frame.selected)
    shown = lanes if look.height >= TALL else lanes[:1]
    happened = _events(_frame_of(frame, "events"), look)
    waiters, runners = _busy(shown, _waits), _busy(shown, _runs)
    own = _frame_of(frame, "waiting")
    waiting = [_waiting(own, look, lane, titles=_is_first(lane, waiters, _waits)) for lane in waiters]
    own = _frame_of(frame, "running")
    running = [_running(own, look, lane, titles=_is_first(lane, runners, _runs)) for lane in runners]
    important = [waiting[0], running[0], happened, *waiting[1:], *running[1:]]
    rows = dict(zip(map(id, important), allot(room, important), strict=True))
    lines: list[Line] = []
    for section in [*waiting, *running]:
        lines += section_lines(frame, section, rows[id(section)])
    events = section_lines(frame, happened, rows[id(happened)])
    return [*lines, [], *events] if len(lines) + len(events) < room else lines + events


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


def found(shown: Listing, none: str) -> str:
    """What is said in place of rows."""
    return f"the filter hides all {shown.total:,}" if shown.total else none


def _sorted(frame: Frame, pane: str) -> list[str]:
    """Words for an order that is not that of the queue: it holds on while the selection is elsewhere."""
    sort = frame.state.sorts.get(pane, Sort())
    return [] if sort == Sort() else [str(sort)]


def _waiting(frame: Frame, look: Look, lane: Lane, titles: bool) -> Section:
    laid, upstream = table(WAITING, look.width), lane.upstream
    shown, many = listing.waiting((lane,), frame.state), len(lane.waiting)
    notes = [f"{many:,} of {upstream.max_queued:,}" if upstream.max_queued is not None else f"{many:,}"]
    if upstream.queue_timeout_ms:
        notes.append(f"timeout {age(upstream.queue_timeout_ms)}")
    order = _sorted(frame, "waiting")
    told = [*(order or ["dispatch order"]), *notes] if look.width >= WIDE else order
    title = rule(frame, look.width, f"waiting on {frame.clean(upstream.name)}", *told)
    heads = [title]
    if upstream.remarks:
        heads.append([Span("   " + frame.clean(upstream.remarks), "bad" if upstream.state == "down" else "amber")])
    if not shown.rows:
        return nobody(heads, found(shown, "nobody waits"))
    return list_section(
        frame,
        look,
        shown,
        "waiting",
        [*heads, laid.titles(frame)] if titles else heads,
        lambda row: laid.row(row, frame),
        share=2,
    )


def _running(frame: Frame, look: Look, lane: Lane, titles: bool) -> Section:
    laid, shown = table(RUNNING, look.width), listing.running((lane,), frame.state)
    title = rule(frame, look.width, f"running on {frame.clean(lane.upstream.name)}", *_sorted(frame, "running"))
    if not shown.rows:
        return nobody([title], found(shown, "nothing runs"))
    heads = [title, laid.titles(frame)] if titles else [title]
    return list_section(frame, look, shown, "running", heads, lambda row: laid.row(row, frame))


def _events(frame: Frame, look: Look) -> Section:
    shown = listing.events(frame.view, frame.state)
    title = rule(frame, look.width, "events", *_sorted(frame, "events"))
    if not shown.rows:
        return nobody([title], found(shown, "nothing has happened yet"))
    return list_section(frame, look, shown, "events", [title], lambda event: event_row(event, frame, look))


def events_lines(frame: Frame, look: Look, room: int) -> list[Line]:
    """What happened, where something did and there is room for it, below an empty line."""
    section = _events(_frame_of(frame, "events"), look)
    if not frame.view.events or room < len(section.heads) + 2:
        return []
    return [[], *section_lines(frame, section, room - len(section.heads) - 1)]


def list_section(
    frame: Frame, look: Look, shown: Listing, pane: str, heads: list[Line], line: Callable[[Any], Line], share: int = 1
) -> Section:
    """The rows of a list, that which has the selection among them and marked as such."""
    at = frame.state.chosen.get(frame.state.list_name)
    chosen = shown.find(frame.chosen, at.index) if frame.chosen and at is not None else -1

    def row(index: int) -> Line:
        made = standing_for(line(shown.rows[index]), pane, shown.id_of(shown.rows[index]))
        return highlight(made, look.width) if index == chosen else made

    return Section(heads, len(shown.rows), row, share, chosen)
