"""The columns of the tables: upstreams, and requests that wait, that run, that ended."""

from collections.abc import Callable
from operator import attrgetter

from llmgate.adminapi import RequestView, UpstreamView
from llmgate.tui.cells import Span, shorten
from llmgate.tui.columns import Column, Frame, Row, is_selected
from llmgate.tui.figures import age, count, duration, estimate, filled, sparkline
from llmgate.tui.model import Lane
from llmgate.tui.waiters import Waiter

STATE_STYLES = {
    "ok": "ok", "full": "full", "down": "bad", "idle": "dim",
    "paused": "amber", "draining": "amber", "drained": "amber",
}  # fmt: skip
LOUD_STATES = frozenset(("down",))
BAR = 8
SLOTS_WIDTH = 14
LOUD_OUTCOMES = frozenset(("queue_full", "queue_timeout"))
"""Their codes, in capitals, are what clients and logs call them."""
BAD_OUTCOMES = LOUD_OUTCOMES | {"upstream_error", "upstream_timeout", "upstream_down"}
WAIT_WIDTH = 8


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
    """3/16; 3/∞ where any number may wait."""
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


def eta(waiter: Waiter, frame: Frame) -> Span:
    ms = waiter.upstream.eta_ms(waiter.position, frame.view.now_ms)
    return Span(estimate(ms), "dim" if ms is None else "")


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
    marked = frame.glyphs.marked if lane.upstream.name in frame.state.marked_upstreams else " "
    return Span(marked + (frame.glyphs.mark if is_selected(lane, frame) else " "), "bold")


def request_mark(request: RequestView, frame: Frame) -> Span:
    return Span(frame.marks(request.id, frame.state.marked), "bold")


def name(lane: Lane, frame: Frame) -> Span:
    return Span(frame.clean(lane.upstream.name), "bold" if is_selected(lane, frame) else "")


def state(lane: Lane, frame: Frame) -> Span:
    return Span(frame.clean(state_word(lane.upstream)), STATE_STYLES.get(lane.upstream.state, ""))


def history(lane: Lane, frame: Frame) -> Span:
    return Span(sparkline(lane.history, frame.glyphs.levels))


def ended(request: RequestView, frame: Frame) -> Span:
    return Span("-") if request.ended_ms is None else Span(age(frame.view.now_ms - request.ended_ms))


def outcome(request: RequestView, frame: Frame) -> Span:
    word = frame.clean(request.outcome or "-")
    return Span(word, "ok" if word == "completed" else "bad" if word in BAD_OUTCOMES else "amber")


def run_ms(request: RequestView) -> int | None:
    """How long it had a slot, once it ended."""
    began, over = request.dispatched_ms, request.ended_ms
    return None if began is None or over is None else max(0, over - began)


def wait_ms(request: RequestView) -> int:
    """How long it waited, or has waited when it ended without a slot."""
    over = request.dispatched_ms if request.dispatched_ms is not None else request.ended_ms
    return 0 if over is None else max(0, over - request.arrived_ms)


def final_speed(request: RequestView, _frame: Frame) -> Span:
    """Tokens per second from the first byte to the end."""
    came, over = request.first_byte_ms, request.ended_ms
    if came is None or over is None or over - came < 1 or not request.output_tokens:
        return Span("-", "dim")
    return Span(f"{request.output_tokens * 1000 / (over - came):.1f}")


SESSION_WIDTH = 8

UPSTREAMS: tuple[Column[Lane], ...] = (
    Column("", 3, mark, 0, gap=0, right=False),
    Column("UPSTREAM", 10, name, 0, gap=0, right=False, most=24, order=lambda lane: lane.upstream.name),
    Column("STATE", 8, state, 0, right=False, order=lambda lane: lane.upstream.state),
    Column("SLOTS", SLOTS_WIDTH, lambda lane, frame: slots(lane.upstream, frame), 1, right=False,
           order=lambda lane: -lane.upstream.running),
    Column("WAIT/MAX", WAIT_WIDTH, lambda lane, frame: wait_and_limit(lane.upstream, frame), 1,
           order=lambda lane: -lane.upstream.waiting),
    Column("OLDEST", 7, oldest, 2, order=lambda lane: _late(lane.upstream.oldest_arrived_ms)),
    Column("P50 W", 6, lambda lane, _: Span(duration(lane.upstream.p50_wait_ms)), 4,
           order=lambda lane: -(lane.upstream.p50_wait_ms or 0)),
    Column("P95 W", 6, lambda lane, _: Span(duration(lane.upstream.p95_wait_ms)), 5,
           order=lambda lane: -(lane.upstream.p95_wait_ms or 0)),
    Column("TTFT", 6, lambda lane, _: Span(duration(lane.upstream.ttft_ms, 2)), 6, wide=True),
    Column("RUN P50", 7, lambda lane, _: Span(duration(lane.upstream.p50_run_ms)), 7, wide=True),
    Column("RPS", 5, lambda lane, _: Span(f"{lane.upstream.rate:.2f}"), 8, wide=True,
           order=lambda lane: -lane.upstream.rate),
    Column("SERVED", 7, lambda lane, _: Span(count(lane.upstream.served)), 3,
           order=lambda lane: -lane.upstream.served),
    Column("FAILED", 6, lambda lane, _: Span(count(lane.upstream.failed)), 9, wide=True,
           order=lambda lane: -lane.upstream.failed),
    Column("WAITING (5 min)", 15, history, 10, gap=1, right=False, wide=True),
)  # fmt: skip


def _late(ms: int | None) -> float:
    """For sorting: what is not there comes last."""
    return float("inf") if ms is None else ms


Of = Callable[[Row], RequestView]
BY_POSITION: Callable[[RequestView], int] = attrgetter("order")
"""A request alone does not know its position: its queue sorts by that (waiters.py)."""


def _upstream(of: "Of[Row]") -> Column[Row]:
    return Column("UPSTREAM", 9, lambda row, frame: named(of(row).upstream, frame), 0, right=False, most=12,
                  order=attrgetter("upstream"))  # fmt: skip


def _about(of: "Of[Row]", ranks: tuple[int, int, int, int, int, int], **wide: bool) -> tuple[Column[Row], ...]:
    """Who sent it and what it is: the columns that all tables of requests have. Ranks: ID, MODEL ... API."""
    return (
        Column("MODEL", 14, lambda row, frame: named(of(row).model, frame), ranks[1], gap=2, right=False, most=40,
               order=attrgetter("model")),
        Column("CLIENT", 11, lambda row, frame: named(of(row).client, frame), ranks[2], gap=2, right=False, most=20,
               order=attrgetter("client")),
        Column("SESSION", SESSION_WIDTH, lambda row, frame: session(of(row), frame), ranks[3], gap=2, right=False,
               order=attrgetter("session")),
        Column("PURPOSE", 13, lambda row, frame: named(of(row).purpose, frame), ranks[4], gap=2, right=False,
               wide=wide.get("purpose", False), order=attrgetter("purpose")),
        Column("API", 8, lambda row, frame: named(of(row).api, frame), ranks[5], gap=2, right=False, wide=True,
               order=attrgetter("api")),
    )  # fmt: skip


def _id(of: "Of[Row]", rank: int) -> Column[Row]:
    return Column("ID", 10, lambda row, frame: named(of(row).id, frame), rank, gap=2, right=False, wide=True, most=20)


def _waiter(waiter: Waiter) -> RequestView:
    return waiter.request


def _itself(request: RequestView) -> RequestView:
    return request


WAITING: tuple[Column[Waiter], ...] = (
    Column("", 2, lambda waiter, frame: request_mark(waiter.request, frame), 0, gap=0),
    Column("#", 4, lambda waiter, _: Span(_thousands(waiter.position), "bold"), 0, gap=0,
           order=BY_POSITION),
    _id(_waiter, 6),
    Column("WAITED", 7, waited, 0, order=attrgetter("arrived_ms")),
    Column("ETA", 5, eta, 1),
    Column("LEFT", 7, left, 7, wide=True, order=lambda request: _late(request.deadline_ms)),
    *_about(_waiter, (6, 2, 3, 4, 5, 8)),
    Column("SSE", 4, streams, 9, gap=2, right=False, wide=True),
)  # fmt: skip

RUNNING: tuple[Column[RequestView], ...] = (
    Column("", 2, request_mark, 0, gap=0),
    _id(_itself, 6),
    Column("RUN", 7, ran, 0, gap=3, order=lambda request: request.dispatched_ms or 0),
    Column("WAITED", 7, has_waited, 4, order=lambda request: -wait_ms(request)),
    Column("TTFT", 7, first_byte, 7, wide=True),
    *_about(_itself, (6, 1, 2, 5, 8, 9), purpose=True),
    Column("OUT", 5, tokens, 3, gap=2, order=lambda request: -request.output_tokens),
    Column("TOK/S", 8, speed, 4),
)

RECENT: tuple[Column[RequestView], ...] = (
    Column("", 2, request_mark, 0, gap=0),
    Column("AGO", 6, ended, 0, gap=0, order=lambda request: -(request.ended_ms or 0)),
    _id(_itself, 6),
    Column("UPSTREAM", 9, lambda request, frame: named(request.upstream, frame), 0, gap=2, right=False, most=12,
           order=lambda request: request.upstream),
    Column("OUTCOME", 14, outcome, 0, gap=2, right=False, most=16, order=lambda request: request.outcome or ""),
    Column("WAITED", 6, lambda request, _: Span(duration(wait_ms(request))), 2,
           order=lambda request: -wait_ms(request)),
    Column("RAN", 6, lambda request, _: Span(duration(run_ms(request))), 1,
           order=lambda request: -(run_ms(request) or 0)),
    *_about(_itself, (6, 4, 2, 5, 8, 9), purpose=True),
    Column("OUT", 5, tokens, 3, gap=2, order=lambda request: -request.output_tokens),
    Column("TOK/S", 6, final_speed, 7, wide=True),
    Column("REASON", 12, lambda request, frame: named(request.reason, frame), 7, gap=2, right=False, wide=True,
           most=80, order=attrgetter("reason")),
)  # fmt: skip

ALL_WAITING: tuple[Column[Waiter], ...] = (WAITING[0], _upstream(_waiter), *WAITING[1:])
"""With the column that tells upstreams apart."""
ALL_RUNNING: tuple[Column[RequestView], ...] = (RUNNING[0], _upstream(_itself), *RUNNING[1:])
