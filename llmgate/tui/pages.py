"""The pages that are one list each: who waits, who runs, who ended, events; and the pane of log lines."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from llmgate.tui import targets
from llmgate.tui.cells import Line, Span, cut
from llmgate.tui.columns import Column, Frame, table
from llmgate.tui.furniture import Look, Section, nobody, rule, section_lines
from llmgate.tui.happened import event_row, log_line
from llmgate.tui.listing import listing
from llmgate.tui.sections import found, list_section
from llmgate.tui.state import Sort
from llmgate.tui.tables import ALL_RUNNING, ALL_WAITING, RECENT

ROOMY, MODEL_WIDTH = 76, 19
"""From so many cells on the name of a model comes before columns of less importance."""
FEWEST = 5
"""Rows of a screen that has one to spare."""
COLUMNS: dict[str, Sequence[Column[Any]]] = {"waiting": ALL_WAITING, "running": ALL_RUNNING, "recent": RECENT}
EMPTY = {
    "waiting": "nobody waits",
    "running": "nothing runs",
    "recent": "no request has ended yet",
    "events": "nothing has happened yet",
}
TITLES = {
    "waiting": "waiting on all upstreams",
    "running": "running on all upstreams",
    "recent": "ended lately",
    "events": "events",
}


def page_lines(frame: Frame, look: Look, room: int) -> list[Line]:
    """The list of the state's page, in so many rows."""
    shown = listing(frame.view, frame.state)
    holds = frame.state.holds
    titles, line = _drawn(frame, look, holds)
    many = len(shown.rows)
    notes = [f"{many:,} of {shown.total:,}" if many != shown.total else f"{many:,}"]
    sort = frame.state.sorts.get(holds, Sort())
    if sort != Sort():
        notes.append(str(sort))
    heads = [rule(frame, look.width, TITLES[holds], *notes), *titles]
    if not shown.rows:
        return section_lines(frame, nobody(heads[:1], found(shown, EMPTY[holds])), 1)
    below = _reason(frame, look) if holds == "recent" and room > FEWEST else []
    rows = max(1, room - len(heads) - len(below))
    return section_lines(frame, list_section(frame, look, shown, holds, heads, line), rows) + below


def _reason(frame: Frame, look: Look) -> list[Line]:
    """Why the selected one failed: the column of it has no room on most screens."""
    request = frame.view.request(frame.chosen)
    if request is None or not request.reason:
        return []
    said = f" {request.id} {request.outcome or ''}: {request.reason}"
    return [[Span(cut(frame.clean(said), look.width, frame.glyphs.more), "bad")]]


def _drawn(frame: Frame, look: Look, holds: str) -> tuple[list[Line], Callable[[Any], Line]]:
    """The titles of the columns, and how a row is made."""
    if holds == "events":
        return [], lambda event: event_row(event, frame, look)
    columns = COLUMNS[holds]
    if look.width >= ROOMY:
        columns = [replace(one, width=MODEL_WIDTH) if one.title == "MODEL" else one for one in columns]
    laid = table(columns, look.width)
    return [laid.titles(frame)], lambda row: laid.row(row, frame)


def log_lines(frame: Frame, look: Look, rows: int) -> list[Line]:
    """What the log says of the selected request, or else of the upstream; the newest last."""
    view, state = frame.view, frame.state
    request = targets.selected_request_id(view, state)
    name = request or targets.upstream_name(view, state)
    kept = [event for event in view.events if name in ("", event.request_id if request else event.upstream)]
    title = rule(frame, look.width, "log of " + (frame.clean(name) or "all upstreams"))
    if not kept:
        return section_lines(frame, nobody([title], "no line yet, of those that are still kept"), 1)
    newest = kept[-max(1, rows - 1) :]
    section = Section([title], len(newest), lambda index: log_line(newest[index], frame, look))
    return section_lines(frame, section, len(newest))
