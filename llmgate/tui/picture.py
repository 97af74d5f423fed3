"""The screen as styled lines: a pure function of what is known, of what the person chose, and of the screen's size.

Every picture has exactly `height` lines of exactly `width` cells.
"""

from collections.abc import Iterator

from llmgate.adminapi import SCHEMA, UpstreamView
from llmgate.tui.cells import Line, Span, cut, wrap
from llmgate.tui.columns import Frame
from llmgate.tui.detail import detail_lines
from llmgate.tui.figures import short_age
from llmgate.tui.footer import bottom_line, footer_lines
from llmgate.tui.furniture import Look, clock, fill, rule
from llmgate.tui.header import header_lines, link_word
from llmgate.tui.help import help_lines
from llmgate.tui.listing import NOBODY, selected_upstream
from llmgate.tui.model import Lane, View
from llmgate.tui.notices import disconnected, no_traffic, no_upstream
from llmgate.tui.pages import log_lines, page_lines
from llmgate.tui.sections import sections, upstream_lines
from llmgate.tui.state import State
from llmgate.tui.tables import slots_text, state_word

SMALL_WIDTH, SMALL_HEIGHT = 60, 15
ROOMY = 16
"""Below so many rows no line is left empty."""
FEWEST = 4
"""Rows that the table of upstreams gets in any case."""
NO_STATE = State()


def picture(live: View, look: Look, state: State = NO_STATE) -> list[Line]:
    """`live` is what the feed tells now; a state with a frozen view shows that one."""
    shown = state.shown(live)
    chosen = state.chosen.get(state.list_name, NOBODY).id
    frame = Frame(shown, state.ascii, selected_upstream(shown, state), state, chosen)
    if state.help is not None:
        return help_lines(frame, look)
    if look.width < SMALL_WIDTH or look.height < SMALL_HEIGHT:
        return _small(live, frame, look)
    top = header_lines(live, frame, look)
    bottom = footer_lines(live, frame, look) if look.keys else []
    room = look.height - len(top) - len(bottom)
    below = _below(frame, look, room)
    body = _body(live, frame, look, room - len(below))
    return fill(top + body, below + bottom, look)


def _below(frame: Frame, look: Look, room: int) -> list[Line]:
    """What was opened at the bottom of the screen: the answer to why, the log."""
    if frame.state.why:
        texts = wrap(frame.clean(frame.state.why), look.width - 4)[: max(1, room - 4)]
        return [rule(frame, look.width, "why"), *([Span(f"  {text}")] for text in texts)]
    return log_lines(frame, look, max(2, room // 3)) if frame.state.log else []


def _body(live: View, frame: Frame, look: Look, room: int) -> list[Line]:
    if live.link.state == "lost":
        return _lost_body(live, frame, look, room)
    if live.status is None:
        return [[], [Span("   Connecting to the daemon.", "dim")]]
    body = [[Span(f" {text}", style)] for text, style in _notes(live)]
    return body + _content(frame, look, room - len(body))


def _content(frame: Frame, look: Look, room: int) -> list[Line]:
    """What the state's page has to show."""
    view, state = frame.view, frame.state
    if state.detail:
        return detail_lines(frame, look, room)
    if view.status is not None and not view.lanes:
        return no_upstream(look.width)
    if state.page != "overview":
        return page_lines(frame, look, room)
    body = upstream_lines(frame, look.width, max(FEWEST, room // 3))
    if view.status is not None and not has_traffic(view):
        return body + no_traffic(view, frame, look.width)
    return body + (sections(frame, look, room - len(body)) if frame.selected else [])


def _lost_body(live: View, frame: Frame, look: Look, room: int) -> list[Line]:
    """What is wrong and what helps; below it, greyed, what was last seen."""
    body = disconnected(live, frame, look.width)
    if room < ROOMY:
        body = [line for line in body if line]
    if live.status is None or not frame.view.lanes:
        return body
    body.append(rule(frame, look.width, f"last seen {clock(live.clock, look.zone)} ({int(live.lost_for)} s ago)"))
    old = (
        _content(frame, look, room - len(body))
        if has_traffic(frame.view)
        else upstream_lines(frame, look.width, FEWEST)
    )
    return body + [[Span(span.text, "dim") for span in line] for line in old]


def _notes(view: View) -> Iterator[tuple[str, str]]:
    if view.status is not None and view.status.state != "running":
        yield "Stopping: no new request is taken, and it ends when the last running one ends.", "amber"
    if view.schema > SCHEMA:
        yield f"The daemon is newer than this viewer (schema {view.schema}, here {SCHEMA}): not all is shown.", "amber"


def has_traffic(view: View) -> bool:
    """Whether any request has come since the daemon started."""
    return any(_seen(lane.upstream) or lane.waiting or lane.running or lane.draining for lane in view.lanes)


def _seen(upstream: UpstreamView) -> int:
    counts = (upstream.served, upstream.failed, upstream.queue_full, upstream.queue_timeout)
    return sum(counts) + upstream.waiting + upstream.running + upstream.draining


def _small(live: View, frame: Frame, look: Look) -> list[Line]:
    """One line for each upstream, for a screen that has no room for tables; the last line is for what is typed."""
    lines = [[Span(" llmgate ", "bold"), link_word(live, frame)]]
    if live.link.state == "lost":
        first = live.link.error.split("\n", 1)[0]
        lines.append([Span(cut(" " + frame.clean(first), look.width, frame.glyphs.more))])
    lines += [[Span(f" {text}", style)] for text, style in _notes(live)]
    if live.status is not None and not frame.view.lanes:
        lines.append([Span(" no upstream yet")])
    lines += [_small_line(lane, frame) for lane in frame.view.lanes]
    return fill(lines, _small_bottom(live, frame, look), look)


def _small_bottom(live: View, frame: Frame, look: Look) -> list[Line]:
    state = frame.state
    if state.prompt is not None:
        return [bottom_line(live, frame, look)]
    said = state.why or (state.message.text if state.message is not None else "")
    return [[Span(f" {text}", "bold")] for text in wrap(frame.clean(said), max(2, look.width - 2))][-4:] if said else []


def _small_line(lane: Lane, frame: Frame) -> Line:
    upstream = lane.upstream
    pointer = frame.glyphs.mark if frame.chosen and upstream.name == frame.selected else " "
    text = f"{pointer}{frame.clean(upstream.name)} {slots_text(upstream)} wait {upstream.waiting}"
    if upstream.oldest_arrived_ms is not None:
        text += f" {short_age(frame.view.now_ms - upstream.oldest_arrived_ms)}"
    loud = upstream.state not in ("ok", "idle", "full")
    return [Span(text), Span(f" {frame.clean(state_word(upstream))}" if loud else "", "bad")]
