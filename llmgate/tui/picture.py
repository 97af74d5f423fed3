"""The screen as styled lines: a pure function of what is known, of what the person chose, and of the screen's size.

Every picture has exactly `height` lines of exactly `width` cells.
"""

from collections.abc import Iterator

from llmgate.adminapi import SCHEMA, UpstreamView
from llmgate.tui.cells import Line, Span, cut, wrap
from llmgate.tui.columns import Frame
from llmgate.tui.detail import detail_lines
from llmgate.tui.examine import report_lines
from llmgate.tui.figures import short_age
from llmgate.tui.footer import bottom_line, footer_lines, keys_line
from llmgate.tui.furniture import Look, clock, fill, rule
from llmgate.tui.header import header_lines, link_word
from llmgate.tui.help import help_lines
from llmgate.tui.listing import NOBODY, selected_upstream
from llmgate.tui.model import Lane, View
from llmgate.tui.notices import disconnected, disconnected_briefly, no_traffic, no_upstream, wrapped
from llmgate.tui.pages import log_lines, page_lines
from llmgate.tui.sections import events_lines, sections, upstream_lines
from llmgate.tui.state import State
from llmgate.tui.tables import slots_text, state_word
from llmgate.tui.why import why_text

SMALL_WIDTH, SMALL_HEIGHT = 60, 15
ROOMY = 16
"""Below so many rows no line is left empty."""
FEWEST = 4
"""Rows that the table of upstreams gets in any case."""
FEWEST_OLD = 3
"""Rows without which nothing of what was last seen is shown: its title, those of the columns, one upstream."""
NO_STATE = State()


def is_small(look: Look) -> bool:
    """Whether there is room for one line of each upstream only."""
    return look.width < SMALL_WIDTH or look.height < SMALL_HEIGHT


def picture(live: View, look: Look, state: State = NO_STATE) -> list[Line]:
    """`live` is what the feed tells now; a state with a frozen view shows that one."""
    shown = state.shown(live)
    chosen = state.chosen.get(state.list_name, NOBODY).id
    frame = Frame(shown, state.ascii, selected_upstream(shown, state), state, chosen)
    if state.report is not None:
        return report_lines(frame, look, state.report, state.report_scrolled)
    if state.help is not None:
        return help_lines(frame, look, state.help)
    if is_small(look):
        return _small(live, frame, look)
    top = header_lines(live, frame, look)
    bottom = footer_lines(live, frame, look) if look.keys else []
    room = look.height - len(top) - len(bottom)
    below = _below(frame, look, room)
    body = _body(live, frame, look, room - len(below))
    return fill(top + body, below + bottom, look)


def _below(frame: Frame, look: Look, room: int) -> list[Line]:
    """What was opened at the bottom of the screen: the answer to why, the log."""
    if frame.state.why is not None:
        texts = wrap(frame.clean(why_text(frame.view, frame.state.why)), look.width - 4)[: max(1, room - 4)]
        return [rule(frame, look.width, "why"), *([Span(f"  {text}")] for text in texts)]
    return log_lines(frame, look, max(2, room // 3)) if frame.state.log else []


def _body(live: View, frame: Frame, look: Look, room: int) -> list[Line]:
    if live.link.state == "lost":
        return _lost_body(live, frame, look, room)
    if live.status is None:
        return [[], [Span("   Connecting to the daemon.", "dim")]]
    body = [[Span(f" {text}", style)] for text, style in _notes(live)]
    content = _content(frame, look, room - len(body))
    return body + (_greyed(content) if live.silent_for else content)


def _content(frame: Frame, look: Look, room: int) -> list[Line]:
    """What the state's page has to show."""
    view, state = frame.view, frame.state
    if state.detail:
        return detail_lines(frame, look, room)
    if view.status is not None and not view.lanes:
        return no_upstream(look.width)
    if state.page != "overview":
        return page_lines(frame, look, room)
    most = max(FEWEST, room * 2 // 5)
    if view.status is not None and not has_traffic(view):
        return _no_traffic(frame, look, room, most)
    body = upstream_lines(frame, look.width, most)
    return body + (sections(frame, look, room - len(body)) if frame.selected else [])


def _no_traffic(frame: Frame, look: Look, room: int, most: int) -> list[Line]:
    """As many upstreams as there is room for, how to send them something, and what happened: requests may have come
    and not been let in."""
    told = no_traffic(frame.view, frame, look.width)
    body = upstream_lines(frame, look.width, max(most, room - len(told) - 1))
    if len(body) + len(told) > room:
        told = [line for line in told if line]
    body += told
    return body + events_lines(frame, look, room - len(body))


def _lost_body(live: View, frame: Frame, look: Look, room: int) -> list[Line]:
    """What is wrong and what helps; below it, greyed, what was last seen."""
    body = disconnected(live, frame, look.width)
    if room < ROOMY:
        body = [line for line in body if line]
    has_old = live.status is not None and bool(frame.view.lanes)
    if len(body) + (FEWEST_OLD if has_old else 0) > room:
        return disconnected_briefly(live, frame, look.width, room)
    if not has_old:
        return body
    body.append(rule(frame, look.width, f"last seen {clock(live.clock, look.zone)} ({int(live.stood_for)} s ago)"))
    old = (
        _content(frame, look, room - len(body))
        if has_traffic(frame.view)
        else upstream_lines(frame, look.width, FEWEST)
    )
    return body + _greyed(old)


def _greyed(lines: list[Line]) -> list[Line]:
    return [[Span(span.text, "dim", span.row) for span in line] for line in lines]


def _notes(view: View) -> Iterator[tuple[str, str]]:
    if view.status is not None and view.status.state != "running":
        yield "Stopping: no new request is taken, and it ends when the last running one ends.", "amber"
    if view.schema > SCHEMA:
        yield f"The daemon is newer than this viewer (schema {view.schema}, here {SCHEMA}): not all is shown.", "amber"


def has_traffic(view: View) -> bool:
    """Whether any request has come since the daemon started."""
    return any(_seen(lane.upstream) or lane.waiting or lane.running or lane.draining for lane in view.lanes)


def _seen(upstream: UpstreamView) -> int:
    counts = (upstream.served, upstream.failed, upstream.queue_full, upstream.queue_timeout, upstream.refused)
    return sum(counts) + upstream.waiting + upstream.running + upstream.draining


def _small(live: View, frame: Frame, look: Look) -> list[Line]:
    """One line for each upstream, for a screen that has no room for tables; the last line is for what is typed."""
    lines = [[Span(" llmgate ", "bold"), link_word(live, frame)]]
    if live.link.state == "lost":
        lines += _small_error(live, frame, look)
    else:
        lines += [[Span(f" {part}", style)] for text, style in _notes(live) for part in wrap(text, look.width - 1)]
    if live.status is not None and not frame.view.lanes:
        lines.append([Span(" no upstream yet")])
    lines += [_small_line(lane, frame) for lane in frame.view.lanes]
    bottom = _small_bottom(live, frame, look)
    if not bottom and look.keys and len(lines) < look.height:
        bottom = [keys_line([], look.width)]
    return fill(lines, bottom, look)


def _small_error(live: View, frame: Frame, look: Look) -> list[Line]:
    """As much of it as the upstreams leave room for: what is wrong in any case."""
    first, *rest = live.link.error.split("\n")
    texts = [f" {part}" for text in rest if text for part in wrapped(frame.clean(text), look.width - 1)]
    room = look.height - len(frame.view.lanes) - 3
    lines = [cut(f" {frame.clean(first)}", look.width, frame.glyphs.more), *texts[: max(0, room)]]
    return [[Span(text)] for text in lines]


def _small_bottom(live: View, frame: Frame, look: Look) -> list[Line]:
    state = frame.state
    if state.prompt is not None:
        return [bottom_line(live, frame, look)]
    if state.why is not None:
        said = why_text(frame.view, state.why)
    else:
        said = state.message.text if state.message is not None else ""
    return [[Span(f" {text}", "bold")] for text in wrap(frame.clean(said), max(2, look.width - 2))][-4:] if said else []


def _small_line(lane: Lane, frame: Frame) -> Line:
    upstream = lane.upstream
    pointer = frame.glyphs.mark if frame.chosen and upstream.name == frame.selected else " "
    text = f"{pointer}{frame.clean(upstream.name)} {slots_text(upstream)} wait {upstream.waiting}"
    if upstream.oldest_arrived_ms is not None:
        text += f" {short_age(frame.view.now_ms - upstream.oldest_arrived_ms)}"
    loud = upstream.state not in ("ok", "idle", "full")
    return [Span(text), Span(f" {frame.clean(state_word(upstream))}" if loud else "", "bad")]
