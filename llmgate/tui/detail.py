"""All about one request: what it is, its journey since it came, the others of its session."""

from collections.abc import Iterable
from datetime import timedelta

from llmgate.adminapi import RequestView
from llmgate.tui.cells import Line, Span, cut, pad, telling, width_of
from llmgate.tui.columns import Frame
from llmgate.tui.figures import age, count, duration, estimate
from llmgate.tui.furniture import Look, moment, rule
from llmgate.tui.model import View
from llmgate.tui.state import State
from llmgate.tui.tables import run_ms, wait_ms

LABEL = 11
PAIRED = 76
"""From so many cells on two fields stand on one line."""
OTHERS = 6
FEWEST_STEPS = 2
FEWEST_OF_ID = 12


def detail_lines(frame: Frame, look: Look, room: int) -> list[Line]:
    """The open request in so many rows; of a journey without room the newest steps."""
    request = known(frame)
    if request is None:
        text = f"Nothing is known of {frame.clean(frame.state.detail)}, or not any more."
        return [[], [Span(f"   {text}", "dim")]]
    lines = _fields(request, frame, look)
    others = _others(request, frame, look)
    steps = _journey(request, frame)
    left = room - len(lines) - 1
    others = others[: max(0, left - FEWEST_STEPS)] if others else []
    left -= len(others)
    shown = steps[-left:] if 0 < left < len(steps) else steps[: max(0, left)]
    return [*lines, rule(frame, look.width, "journey"), *shown, *others]


def known(frame: Frame) -> RequestView | None:
    """The open request: as the feed tells it, else as the daemon told it when it was opened."""
    found, told = frame.view.request(frame.state.detail), frame.state.told
    if found is None and told is not None and told.request.id == frame.state.detail:
        return told.request
    return found


def is_stale(state: State, view: View) -> bool:
    """Whether the open request stands elsewhere now than when the daemon told of it: its journey has gone on."""
    told = state.told
    if told is None or told.request.id != state.detail:
        return False
    request = view.request(state.detail)
    return request is not None and (request.state, _position(request, view)) != (told.request.state, told.position)


def _position(request: RequestView, view: View) -> int | None:
    lane = view.lane(request.upstream)
    return None if lane is None else lane.position(request.id)


def _fields(request: RequestView, frame: Frame, look: Look) -> list[Line]:
    view = frame.view
    lane = view.lane(request.upstream)
    url = lane.upstream.url.rpartition("://")[2] if lane else ""
    pairs = [
        ("state", _state(request, frame), *_time_left(request, frame)),
        *([("reason", request.reason, "", "")] if request.reason else []),
        ("waited", _waited(request, frame), "arrived", _arrived(request, frame, look)),
        ("model", request.model or "-", "upstream", f"{request.upstream}  {request.endpoint or url}"),
        ("api", f"POST {request.path}", "stream", _stream(request, frame)),
        ("client", f"{request.client or '-'} {request.client_version}".rstrip(), "from", request.peer or "-"),
        ("session", _session(request), "", ""),
        ("purpose", request.purpose or "-", "key", request.key or "-"),
        ("body", f"{request.body_bytes:,} bytes", "output", _output(request, frame)),
    ]
    lines: list[Line] = []
    half = look.width // 2 + 2
    for left, text, right, other in pairs:
        if look.width < PAIRED or width_of(frame.clean(other)) > look.width - half - LABEL - 2:
            lines.append(_field(left, text, frame, look.width))
            lines += [_field(right, other, frame, look.width)] if right and other != "-" else []
        elif not right:
            lines.append(_field(left, text, frame, look.width))
        else:
            lines.append([*_field(left, text, frame, half), *_field(right, other, frame, look.width - half)])
    return lines


def _field(label: str, text: str, frame: Frame, width: int) -> Line:
    value = cut(frame.clean(text), max(0, width - LABEL - 2), frame.glyphs.more)
    return [Span(pad(f" {label}", LABEL + 1), "dim"), Span(pad(value, max(0, width - LABEL - 1)))]


def _stream(request: RequestView, frame: Frame) -> str:
    """No event tells of a queue frame: the daemon's own answer may know of more."""
    if not request.stream:
        return "no"
    told = frame.state.told
    known = told.request.queue_frames if told is not None and told.request.id == request.id else 0
    sent = max(request.queue_frames, known)
    return f"yes, {sent} queue frame{'s' if sent != 1 else ''} sent" if sent else "yes"


def _session(request: RequestView) -> str:
    if not request.session:
        return "-"
    return request.session + (f"  ({request.session_from})" if request.session_from else "")


def _state(request: RequestView, frame: Frame) -> str:
    if request.state == "waiting":
        lane = frame.view.lane(request.upstream)
        waiting = lane.waiting if lane else ()
        return f"waiting, position {_position(request, frame.view) or 0} of {len(waiting)}"
    if request.state == "running" and request.first_byte_ms is None:
        return "running, no byte of it yet"
    if request.state == "draining":
        return f"draining ({request.outcome or 'ended'})"
    return f"ended: {request.outcome}" if request.state == "done" else request.state


def _time_left(request: RequestView, frame: Frame) -> tuple[str, str]:
    if request.state == "waiting":
        ms = frame.view.eta_ms(request)
        return "ETA", "-" if ms is None else f"{estimate(ms)}  (an estimate)"
    if request.state == "done":
        return "ran", duration(run_ms(request))
    began = request.dispatched_ms
    return "runs", "-" if began is None else f"for {age(frame.view.now_ms - began)}"


def _waited(request: RequestView, frame: Frame) -> str:
    ms = frame.view.now_ms - request.arrived_ms if request.state == "waiting" else wait_ms(request)
    limit = f" of {age(request.deadline_ms - request.arrived_ms)}" if request.deadline_ms is not None else ""
    return (age(ms) if request.state == "waiting" else duration(ms)) + limit


def _arrived(request: RequestView, frame: Frame, look: Look) -> str:
    """The time of day to the millisecond: as the daemon wrote it, or by its clock."""
    at = moment(request.arrived_at) if request.arrived_at else None
    if at is None and frame.view.clock is not None:
        at = frame.view.clock - timedelta(milliseconds=frame.view.now_ms - request.arrived_ms)
    return "-" if at is None else at.astimezone(look.zone).strftime("%H:%M:%S.%f")[:-3]


def _output(request: RequestView, frame: Frame) -> str:
    if not request.output_tokens:
        return "-"
    over = request.ended_ms if request.ended_ms is not None else frame.view.counted_ms
    text = f"{request.output_tokens:,} tokens"
    if request.first_byte_ms is not None and over - request.first_byte_ms >= 500:
        text += f", {request.output_tokens * 1000 / (over - request.first_byte_ms):.1f} tok/s"
    return text


def _journey(request: RequestView, frame: Frame) -> list[Line]:
    """Its steps: as the daemon told them, then those that the feed told since."""
    told = frame.state.told
    steps = told.journey if told is not None and told.request.id == request.id else []
    last = max((step.number for step in steps), default=0)
    rows = [(step.offset_ms, _words(step.kind, step.text or step.word, step.position)) for step in steps]
    since = [event for event in frame.view.events if event.request_id == request.id and event.number > last]
    rows += [(event.now_ms - request.arrived_ms, event.text or event.word or event.kind) for event in since]
    if not any(offset == 0 for offset, _ in rows):
        rows.insert(0, (0, "accepted"))
    return [[Span(f" {_offset(ms):>10}  ", "dim"), Span(frame.clean(text))] for ms, text in rows]


def _words(kind: str, text: str, position: int | None) -> str:
    if kind == "position":
        return f"position {position}" + (f"  ({text})" if text else "")
    where = f", position {position}" if position is not None else ""
    return (text or kind) + where


def _offset(ms: int) -> str:
    return f"+{max(ms, 0) / 1000:.3f}s" if ms < 1_000_000 else f"+{age(ms)}"


def _others(request: RequestView, frame: Frame, look: Look) -> list[Line]:
    """The others of its session: the live ones, then those that ended, the newest first."""
    if not request.session:
        return []
    told = frame.state.told
    older = told.of_session if told is not None and told.request.id == request.id else []
    found: dict[str, RequestView] = {}
    for one in (*_same_session(frame.view.requests(), request), *older):
        found.setdefault(one.id, one)
    others = list(found.values())[:OTHERS]
    width = telling((one.id for one in others), FEWEST_OF_ID)
    rows = [_other(one, width, frame) for one in others]
    return [rule(frame, look.width, "others of this session"), *rows] if rows else []


def _same_session(requests: Iterable[RequestView], request: RequestView) -> Iterable[RequestView]:
    return (one for one in requests if one.session == request.session and one.id != request.id)


def _other(request: RequestView, width: int, frame: Frame) -> Line:
    word = request.outcome or request.state
    parts = [f"{pad(cut(frame.clean(request.id), width), width)} {pad(cut(frame.clean(word), 14), 14)}"]
    if request.state == "waiting":
        parts.append(f"waits {age(frame.view.now_ms - request.arrived_ms)}")
    else:
        parts.append(f"waited {duration(wait_ms(request))}")
    if request.state == "done":
        parts.append(f"ran {duration(run_ms(request))}")
    if request.output_tokens:
        parts.append(f"{count(request.output_tokens)} tok")
    return [Span(f" {'  '.join(parts)}")]
