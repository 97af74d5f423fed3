"""The columns of the overview: upstreams, waiting requests, running requests."""

from typing import NamedTuple

from llmgate.adminapi import RequestView, UpstreamView
from llmgate.tui.cells import Span, shorten
from llmgate.tui.columns import Column, Frame, is_selected
from llmgate.tui.figures import age, count, duration, filled, sparkline
from llmgate.tui.model import Lane

STATE_STYLES = {"ok": "ok", "full": "full", "down": "bad", "idle": "dim", "paused": "full"}
LOUD_STATES = frozenset(("down",))
BAR = 8
SLOTS_WIDTH = 14
WAIT_WIDTH = 8


class Waiter(NamedTuple):
    position: int
    request: RequestView
    upstream: UpstreamView


def state_word(upstream: UpstreamView) -> str:
    return upstream.state.upper() if upstream.state in LOUD_STATES else upstream.state


def slots_text(upstream: UpstreamView) -> str:
    """1/2, or 1+1/2 where one runs and one more slot is not yet known to be free."""
    draining = f"+{upstream.draining}" if upstream.draining else ""
    if upstream.max_concurrent == 0:
        return f"{upstream.running}{draining} not gated"
    return f"{upstream.running}{draining}/{upstream.max_concurrent}"


def slots(upstream: UpstreamView, frame: Frame) -> Span:
    """A bar of at most BAR cells and the figures; without the bar where the figures leave no room."""
    text, whole = slots_text(upstream), upstream.max_concurrent
    cells = min(BAR, whole, SLOTS_WIDTH - 1 - len(text))
    if cells <= 0:
        return Span(text)
    taken = filled(upstream.running + upstream.draining, whole, cells)
    bar = frame.glyphs.taken * taken + frame.glyphs.free * (cells - taken)
    return Span(f"{bar} {text}")


def wait_and_limit(upstream: UpstreamView, frame: Frame) -> Span:
    limit = frame.glyphs.endless if upstream.max_queued is None else str(upstream.max_queued)
    text = f"{upstream.waiting}/{limit}"
    if len(text) > WAIT_WIDTH and upstream.max_queued is not None:
        text = f"{_thousands(upstream.waiting)}/{_thousands(upstream.max_queued)}"
    return Span(text, "bold" if upstream.waiting else "")


def _thousands(number: int) -> str:
    return str(number) if number < 1000 else f"{number // 1000}k" if number < 1_000_000 else f"{number // 1_000_000}M"


def waited_style(waited_ms: int, timeout_ms: int | None) -> str:
    """Amber from half of the time that a request may wait, red from four fifths."""
    if not timeout_ms:
        return ""
    return "bad" if waited_ms * 10 >= timeout_ms * 8 else "amber" if waited_ms * 2 >= timeout_ms else ""


def oldest(lane: Lane, frame: Frame) -> Span:
    arrived = lane.upstream.oldest_arrived_ms
    if arrived is None:
        return Span("-", "dim")
    waited = frame.view.now_ms - arrived
    return Span(age(waited), waited_style(waited, lane.upstream.queue_timeout_ms))


def waited(waiter: Waiter, frame: Frame) -> Span:
    ms = frame.view.now_ms - waiter.request.arrived_ms
    return Span(age(ms), waited_style(ms, _patience(waiter.request)))


def _patience(request: RequestView) -> int | None:
    """How long this request may wait: a client can ask for less than its upstream allows."""
    return None if request.deadline_ms is None else request.deadline_ms - request.arrived_ms


def left(waiter: Waiter, frame: Frame) -> Span:
    deadline = waiter.request.deadline_ms
    return Span("-", "dim") if deadline is None else Span(age(deadline - frame.view.now_ms))


def ran(request: RequestView, frame: Frame) -> Span:
    began = request.dispatched_ms
    return Span("-") if began is None else Span(age(frame.view.now_ms - began))


def has_waited(request: RequestView, _frame: Frame) -> Span:
    began = request.dispatched_ms
    return Span(duration(None if began is None else max(0, began - request.arrived_ms)))


def first_byte(request: RequestView, _frame: Frame) -> Span:
    began, came = request.dispatched_ms, request.first_byte_ms
    return Span(duration(None if began is None or came is None else max(0, came - began)))


def speed(request: RequestView, frame: Frame) -> Span:
    """Tokens per second since the first byte, up to the moment when the daemon last counted."""
    if request.state == "draining":
        return Span("draining", "amber")
    if request.first_byte_ms is None or request.output_tokens == 0:
        return Span("-", "dim")
    elapsed = frame.view.counted_ms - request.first_byte_ms
    return Span("-", "dim") if elapsed < 500 else Span(f"{request.output_tokens * 1000 / elapsed:.1f}")


def tokens(request: RequestView, _frame: Frame) -> Span:
    return Span(count(request.output_tokens)) if request.output_tokens else Span("-", "dim")


def named(text: str, frame: Frame) -> Span:
    return Span(frame.clean(text)) if text else Span("-", "dim")


def session(request: RequestView, frame: Frame) -> Span:
    return Span(shorten(frame.clean(request.session), SESSION_WIDTH)) if request.session else Span("-", "dim")


def streams(waiter: Waiter, _frame: Frame) -> Span:
    return Span("yes" if waiter.request.stream else "no")


def mark(lane: Lane, frame: Frame) -> Span:
    return Span(f" {frame.glyphs.mark} " if is_selected(lane, frame) else "", "bold")


def name(lane: Lane, frame: Frame) -> Span:
    return Span(frame.clean(lane.upstream.name), "bold" if is_selected(lane, frame) else "")


def state(lane: Lane, frame: Frame) -> Span:
    return Span(frame.clean(state_word(lane.upstream)), STATE_STYLES.get(lane.upstream.state, ""))


def history(lane: Lane, frame: Frame) -> Span:
    return Span(sparkline(lane.history, frame.glyphs.levels))


SESSION_WIDTH = 8

UPSTREAMS: tuple[Column[Lane], ...] = (
    Column("", 3, mark, 0, gap=0, right=False),
    Column("UPSTREAM", 11, name, 0, gap=0, right=False, most=24),
    Column("STATE", 6, state, 0, right=False),
    Column("SLOTS", SLOTS_WIDTH, lambda lane, frame: slots(lane.upstream, frame), 1, right=False),
    Column("WAIT/MAX", WAIT_WIDTH, lambda lane, frame: wait_and_limit(lane.upstream, frame), 1),
    Column("OLDEST", 7, oldest, 2),
    Column("P50 W", 6, lambda lane, _: Span(duration(lane.upstream.p50_wait_ms)), 4),
    Column("P95 W", 6, lambda lane, _: Span(duration(lane.upstream.p95_wait_ms)), 5),
    Column("TTFT", 6, lambda lane, _: Span(duration(lane.upstream.ttft_ms, 2)), 6, wide=True),
    Column("RUN P50", 7, lambda lane, _: Span(duration(lane.upstream.p50_run_ms)), 7, wide=True),
    Column("RPS", 5, lambda lane, _: Span(f"{lane.upstream.rate:.2f}"), 8, wide=True),
    Column("SERVED", 7, lambda lane, _: Span(count(lane.upstream.served)), 3),
    Column("FAIL", 4, lambda lane, _: Span(count(lane.upstream.failed)), 9, wide=True),
    Column("WAITING (5 min)", 15, history, 10, gap=2, right=False, wide=True),
)

WAITING: tuple[Column[Waiter], ...] = (
    Column("#", 4, lambda waiter, _: Span(str(waiter.position), "bold"), 0, gap=0),
    Column("ID", 10, lambda waiter, frame: named(waiter.request.id, frame), 5, gap=2, right=False, wide=True),
    Column("WAITED", 12, waited, 0, gap=3),
    Column("LEFT", 7, left, 6, wide=True),
    Column("MODEL", 14, lambda waiter, frame: named(waiter.request.model, frame), 1, gap=2, right=False, most=40),
    Column("CLIENT", 11, lambda waiter, frame: named(waiter.request.client, frame), 2, gap=2, right=False, most=20),
    Column("SESSION", SESSION_WIDTH, lambda waiter, frame: session(waiter.request, frame), 3, gap=2, right=False),
    Column("PURPOSE", 14, lambda waiter, frame: named(waiter.request.purpose, frame), 4, gap=2, right=False),
    Column("API", 8, lambda waiter, frame: named(waiter.request.api, frame), 7, gap=2, right=False, wide=True),
    Column("SSE", 4, streams, 8, gap=2, right=False, wide=True),
)

RUNNING: tuple[Column[RequestView], ...] = (
    Column("", 4, lambda _request, _frame: Span(""), 0, gap=0),
    Column("ID", 10, lambda request, frame: named(request.id, frame), 6, gap=2, right=False, wide=True),
    Column("RUN", 7, ran, 0, gap=0),
    Column("WAITED", 7, has_waited, 4),
    Column("TTFT", 7, first_byte, 7, wide=True),
    Column("MODEL", 14, lambda request, frame: named(request.model, frame), 1, gap=2, right=False, most=40),
    Column("CLIENT", 11, lambda request, frame: named(request.client, frame), 2, gap=2, right=False, most=20),
    Column("SESSION", SESSION_WIDTH, session, 5, gap=2, right=False),
    Column("PURPOSE", 14, lambda request, frame: named(request.purpose, frame), 8, gap=2, right=False, wide=True),
    Column("OUT", 5, tokens, 3, gap=2),
    Column("TOK/S", 8, speed, 4),
)
