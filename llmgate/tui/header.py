"""The first two lines: which daemon, whether it is live, its figures; what is unlike the plain view."""

from datetime import timedelta

from llmgate.adminapi import Status, UpstreamView
from llmgate.tui.cells import Line, Span, cut, fit, width_of, width_of_line
from llmgate.tui.columns import Frame
from llmgate.tui.detail import known
from llmgate.tui.figures import age
from llmgate.tui.filter import parse
from llmgate.tui.furniture import Look, clock, rule
from llmgate.tui.model import View
from llmgate.tui.state import Sort


def header_lines(live: View, frame: Frame, look: Look) -> list[Line]:
    """`live` is what the feed tells now; the frame may show a frozen view."""
    now = None if live.clock is None else live.clock + timedelta(seconds=live.stood_for)
    right = f" {clock(now, look.zone)}"
    line = _path(live, frame) if frame.state.detail else _figures_line(live, frame, look, right)
    return [[*fit(line, look.width - len(right)), Span(right)], _notes_rule(live, frame, look)]


def _path(live: View, frame: Frame) -> Line:
    """Where the person has gone to."""
    request, mark = known(frame), frame.glyphs.mark
    parts = [request.upstream, request.id] if request is not None else [frame.state.detail]
    line = [Span(" llmgate", "bold")]
    for part in parts:
        line += [Span(f" {mark} ", "dim"), Span(frame.clean(part), "bold")]
    is_live = live.link.state == "live" and not live.silent_for
    return line if is_live else [*line, Span("  "), link_word(live, frame)]


def _figures_line(live: View, frame: Frame, look: Look, right: str) -> Line:
    status = live.status
    version = f" {frame.clean(status.version)}  " if status else "  "
    line = [Span(" llmgate", "bold"), Span(version), link_word(live, frame)]
    if status is not None and live.link.state == "live":
        forms = _figures(frame, status)
        room = look.width - len(right) - width_of_line(line)
        _add_figures(line, next((form for form in forms if sum(map(width_of, form)) <= room), forms[-1]), room)
    return line


def link_word(live: View, frame: Frame) -> Span:
    glyphs = frame.glyphs
    if live.link.state == "lost":
        denied = live.link.error.startswith("Permission denied")
        return Span(f"{glyphs.lost} {'no permission' if denied else 'not connected'}", "bad")
    if live.status is None:
        return Span(f"{glyphs.lost} connecting", "dim")
    if live.silent_for:
        return Span(f"{glyphs.lost} no answer for {live.silent_for} s", "bad")
    if frame.state.frozen is not None:
        return Span(f"{glyphs.lost} FROZEN", "amber")
    if live.status.state == "running":
        return Span(f"{glyphs.live} live", "ok")
    return Span(f"{glyphs.live} {frame.clean(live.status.state)}", "amber")


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
    up_ms = status.uptime_ms + frame.view.now_ms - status.now_ms
    up = f"up {age(up_ms)}"
    days = " ".join(up.split(" ")[:2])  # "up 3d" of "up 3d 04:12"; what is younger is written in one way only
    run, wait = _running_text(upstreams), sum(upstream.waiting for upstream in upstreams)
    busy, ended = [f"run {run}", f"wait {wait}"], _ended_badly(upstreams)
    forms = [
        [place, up, f"running {run}", f"waiting {wait}", *ended],
        [place, up, *busy, *ended],
        [place, days, *busy, *ended],
        [up, *busy, *ended],
        [days, *busy, *ended],
        [*busy, *ended],
        [*busy, *_ended_badly(upstreams, seen_only=True)],
        [*busy, *reversed(_ended_badly(upstreams, seen_only=True))],
    ]
    return [[f"  {text}" for text in form] for form in forms]


def _ended_badly(upstreams: list[UpstreamView], *, seen_only: bool = False) -> list[str]:
    """Called as in `llmgate status`, the gravest last. Refused are few: those that came while an upstream drained."""
    counts = {
        "full": sum(upstream.queue_full for upstream in upstreams),
        "timeout": sum(upstream.queue_timeout for upstream in upstreams),
        "refused": sum(upstream.refused for upstream in upstreams),
        "failed": sum(upstream.failed for upstream in upstreams),
    }
    always = () if seen_only else ("full", "timeout")
    return [f"{word} {count}" for word, count in counts.items() if count or word in always]


def _running_text(upstreams: list[UpstreamView]) -> str:
    """8/10 of the slots that are there, and +3 that run where nothing is gated."""
    gated = [upstream for upstream in upstreams if upstream.max_concurrent]
    slots = sum(upstream.max_concurrent for upstream in gated if not upstream.is_down)
    free = sum(upstream.running for upstream in upstreams if not upstream.max_concurrent)
    return f"{sum(upstream.running for upstream in gated)}/{slots}" + (f"+{free}" if free else "")


def _notes_rule(live: View, frame: Frame, look: Look) -> Line:
    """The rule below the header, with what is unlike the plain view; plain where there is nothing of it."""
    notes = _changed(live, frame, look)
    if not notes:
        return rule(frame, look.width)
    glyph = frame.glyphs.rule
    text = cut(f" {glyph * 2} ".join(notes), look.width - 6, frame.glyphs.more)
    line = [Span(f"{glyph * 2} ", "dim"), Span(text, "amber"), Span(" ")]
    return [*line, Span(glyph * (look.width - width_of_line(line)), "dim")]


def _changed(live: View, frame: Frame, look: Look) -> list[str]:
    state, notes = frame.state, list[str]()
    if state.frozen is not None:
        old = int(max(0.0, live.at - state.frozen.at))
        notes.append(f"FROZEN: picture of {clock(state.frozen.clock, look.zone)}, {old} s old; P goes on")
    if state.filter:
        bad = parse(state.filter).bad
        notes.append(f"filter {frame.clean(state.filter)}" + (f" ({frame.clean(bad)} taken as text)" if bad else ""))
    marked = len(state.marked) + len(state.marked_upstreams)
    if marked:
        notes.append(f"{marked} marked")
    sort = state.sorts.get("upstreams", Sort()) if state.page == "overview" else Sort()
    if sort != Sort():
        notes.append(str(sort))
    if state.read_only:
        notes.append("read-only")
    elif live.status is not None and not live.status.may_act:
        notes.append("may look, not act")
    return notes
