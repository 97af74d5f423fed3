"""The overview as styled lines: a pure function of what is known and of the size of the screen.

Every picture has exactly `height` lines of exactly `width` cells.
"""

from collections.abc import Iterator
from datetime import timedelta

from llmgate.adminapi import SCHEMA, Status, UpstreamView
from llmgate.tui.cells import Line, Span, cut, fit, width_of, width_of_line
from llmgate.tui.columns import Frame
from llmgate.tui.figures import age, short_age
from llmgate.tui.model import Lane, View
from llmgate.tui.notices import disconnected, no_traffic, no_upstream
from llmgate.tui.sections import Look, clock, rule, sections, upstream_lines
from llmgate.tui.tables import slots_text, state_word

SMALL_WIDTH, SMALL_HEIGHT = 60, 15
ROOMY = 16
"""Below so many rows no line is left empty."""
FEWEST = 4
"""Rows that the table of upstreams gets in any case."""


def picture(view: View, look: Look) -> list[Line]:
    frame = Frame(view, look.ascii, selected_name(view, look.selected))
    if look.width < SMALL_WIDTH or look.height < SMALL_HEIGHT:
        return fill(_small(frame, look), [], look)
    top = [_header(frame, look), rule(frame, look.width)]
    bottom = [rule(frame, look.width), footer(frame, look)] if look.keys else []
    room = look.height - len(top) - len(bottom)
    return fill(top + _body(frame, look, room), bottom, look)


def selected_name(view: View, wanted: str) -> str:
    """The upstream that is selected: the wanted one if it is there, else the first."""
    names = [lane.upstream.name for lane in view.lanes]
    return wanted if wanted in names else names[0] if names else ""


def fill(body: list[Line], bottom: list[Line], look: Look) -> list[Line]:
    """Exactly the screen: what is too long is cut, and the bottom stays at the bottom."""
    room = max(0, look.height - len(bottom))
    lines = body[:room] + [[] for _ in range(room - len(body))] + bottom
    return [fit(line, look.width) for line in lines[: look.height]]


def _body(frame: Frame, look: Look, room: int) -> list[Line]:
    view = frame.view
    if view.link.state == "lost":
        return _lost_body(frame, look, room)
    if view.status is None:
        return [[], [Span("   Connecting to the daemon.", "dim")]]
    body = [[Span(f" {text}", style)] for text, style in _notes(view)]
    if not view.lanes:
        return body + no_upstream(look.width)
    body += upstream_lines(frame, look.width, max(FEWEST, room // 3))
    if not has_traffic(view):
        return body + no_traffic(view.status, frame, look.width)
    return body + sections(frame, look, room - len(body))


def _lost_body(frame: Frame, look: Look, room: int) -> list[Line]:
    """What is wrong and what helps; below it, greyed, what was last seen."""
    view = frame.view
    body = disconnected(view, frame, look.width)
    if room < ROOMY:
        body = [line for line in body if line]
    if view.status is None:
        return body
    body.append(rule(frame, look.width, f"last seen {clock(view.clock, look.zone)} ({int(view.lost_for)} s ago)"))
    old = upstream_lines(frame, look.width, max(FEWEST, room // 3))
    if has_traffic(view):
        old += sections(frame, look, room - len(body) - len(old))
    return body + [[Span(span.text, "dim") for span in line] for line in old]


def _notes(view: View) -> Iterator[tuple[str, str]]:
    if view.status is not None and view.status.state == "stopping":
        yield "Stopping: no new request is taken, and it ends when the last running one ends.", "amber"
    if view.schema > SCHEMA:
        yield f"The daemon is newer than this viewer (schema {view.schema}, here {SCHEMA}): not all is shown.", "amber"


def has_traffic(view: View) -> bool:
    """Whether any request has come since the daemon started."""
    return any(_seen(lane.upstream) or lane.waiting or lane.running or lane.draining for lane in view.lanes)


def _seen(upstream: UpstreamView) -> int:
    counts = (upstream.served, upstream.failed, upstream.queue_full, upstream.queue_timeout)
    return sum(counts) + upstream.waiting + upstream.running + upstream.draining


def _header(frame: Frame, look: Look) -> Line:
    view, status = frame.view, frame.view.status
    line = [Span(" llmgate", "bold"), Span(f" {frame.clean(status.version)}  " if status else "  "), _link_word(frame)]
    now = None if view.clock is None else view.clock + timedelta(seconds=view.lost_for)
    right = f" {clock(now, look.zone)}"
    if status is not None and view.link.state == "live":
        forms = _figures(frame, status)
        room = look.width - len(right) - width_of_line(line)
        _add_figures(line, next((form for form in forms if sum(map(width_of, form)) <= room), forms[-1]), room)
    return [*fit(line, look.width - len(right)), Span(right)]


def _link_word(frame: Frame) -> Span:
    view, glyphs = frame.view, frame.glyphs
    if view.link.state == "lost":
        return Span(f"{glyphs.lost} not connected", "bad")
    if view.status is None:
        return Span(f"{glyphs.lost} connecting", "dim")
    if view.status.state == "running":
        return Span(f"{glyphs.live} live", "ok")
    return Span(f"{glyphs.live} {frame.clean(view.status.state)}", "amber")


def _add_figures(line: Line, figures: list[str], left: int) -> None:
    """Those of the figures, in their order, that fit whole in the cells that are left."""
    for text in figures:
        left -= width_of(text)
        if left < 0:
            break
        line.append(Span(text))


def _figures(frame: Frame, status: Status) -> list[list[str]]:
    """The same in several forms, the clearest first."""
    upstreams = [lane.upstream for lane in frame.view.lanes]
    place = f"unix:{frame.clean(status.socket)}"
    up = f"up {age(status.uptime_ms + frame.view.now_ms - status.now_ms)}"
    run, wait = _running_text(upstreams), sum(upstream.waiting for upstream in upstreams)
    full, timeout = sum(u.queue_full for u in upstreams), sum(u.queue_timeout for u in upstreams)
    busy, ended = [f"run {run}", f"wait {wait}"], [f"rejected {full}", f"timeouts {timeout}"]
    forms = [
        [place, up, f"running {run}", f"waiting {wait}", *ended],
        [place, up, *busy, *ended],
        [up, *busy, *ended],
        [up, *busy, f"QFULL {full}", f"QTIME {timeout}"],
        [*busy, *ended],
        busy,
    ]
    return [[f"  {text}" for text in form] for form in forms]


def _running_text(upstreams: list[UpstreamView]) -> str:
    """8/10 of the slots that are there, and +3 that run where nothing is gated."""
    gated = [upstream for upstream in upstreams if upstream.max_concurrent]
    slots = sum(upstream.max_concurrent for upstream in gated if upstream.state != "down")
    free = sum(upstream.running for upstream in upstreams if not upstream.max_concurrent)
    return f"{sum(upstream.running for upstream in gated)}/{slots}" + (f"+{free}" if free else "")


def footer(frame: Frame, look: Look) -> Line:
    """Only keys that do something now."""
    keys = []
    if frame.view.link.state == "lost":
        keys.append(("r", "retry now"))
    if len(frame.view.lanes) > 1:
        keys.append((frame.glyphs.arrows, "select"))
    keys += [("a", "unicode" if look.ascii else "ascii"), ("?", "help"), ("q", "quit")]
    line: Line = []
    for key, text in keys:
        line += [Span(f" {key}", "bold"), Span(f" {text} ")]
    return line


def _small(frame: Frame, look: Look) -> list[Line]:
    """One line for each upstream, for a screen that has no room for tables."""
    lines = [[Span(" llmgate ", "bold"), _link_word(frame)]]
    if frame.view.link.state == "lost":
        first = frame.view.link.error.split("\n", 1)[0]
        lines.append([Span(cut(" " + frame.clean(first), look.width, frame.glyphs.more))])
    lines += [[Span(f" {text}", style)] for text, style in _notes(frame.view)]
    if frame.view.status is not None and not frame.view.lanes:
        lines.append([Span(" no upstream yet")])
    return lines + [_small_line(lane, frame) for lane in frame.view.lanes]


def _small_line(lane: Lane, frame: Frame) -> Line:
    upstream = lane.upstream
    text = f" {frame.clean(upstream.name)} {slots_text(upstream)} wait {upstream.waiting}"
    if upstream.oldest_arrived_ms is not None:
        text += f" {short_age(frame.view.now_ms - upstream.oldest_arrived_ms)}"
    loud = upstream.state not in ("ok", "idle", "full")
    return [Span(text), Span(f" {frame.clean(state_word(upstream))}" if loud else "", "bad")]
