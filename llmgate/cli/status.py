"""`llmgate status`: every upstream on one screen."""

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from llmgate.cli.context import Context, context_of, print_json, print_lines, terminal_width
from llmgate.cli.numbers import number
from llmgate.cli.table import ENDLESS, NOT_GATED, Cell, Row, counted, fitted, lapse, paint, table
from llmgate.names import unknown_upstream
from llmgate.tui.cells import clean

if TYPE_CHECKING:
    from llmgate.adminapi import Status, UpstreamView
    from llmgate.adminclient import AdminClient

UPSTREAM_DOWN = 4
"""A held one keeps its queue while no server of it is there."""
CLEAR = "\x1b[H\x1b[2J"
HEADER = (
    "UPSTREAM",
    "STATE",
    "RUN/SLOTS",
    "WAIT/MAX",
    "OLDEST",
    "P50 WAIT",
    "P95 WAIT",
    "FULL",
    "TIMEOUT",
    "REFUSED",
    "FAILED",
    "SERVED",
    "",
)
RARE = "REFUSED"
"""A column that is there only where it counts something: who came while an upstream drained, or as llmgate stopped."""
STEPS = (("", 0), ("P50 WAIT", 0), ("SERVED", 0), ("P95 WAIT", 0), ("OLDEST", 0), ("UPSTREAM", 16))
"""What a narrow terminal costs, step by step: a column's cells, 0 = the column; remarks go below the table then."""
STATE_STYLES = {"ok": "ok", "full": "full", "down": "down", "idle": "dim"}


def status(
    ctx: typer.Context,
    upstream: Annotated[str | None, typer.Argument(metavar="UPSTREAM", hidden=True)] = None,
    watch: Annotated[
        float | None,
        typer.Option(help="Show it again every so many seconds, until ctrl-c.", parser=number(0.1), metavar="SECONDS"),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with 4 when an upstream is down.")] = False,
) -> None:
    """Show every upstream, or only UPSTREAM.

    Its state, its slots, its queue, how long requests waited and how they ended.

    \b
    Examples:
      llmgate status --watch 2
      llmgate status --check --quiet || echo "an upstream is down"
    """
    context = context_of(ctx)
    client = context.client("status")
    if watch is not None:
        if check:
            raise typer.BadParameter("--check looks once: leave out --watch")
        _watch(client, upstream, context, watch)
        return
    shown = _show(client, upstream, context, silent=check and context.quiet)
    if check and any(view.is_down for view in shown.upstreams):
        raise typer.Exit(UPSTREAM_DOWN)


def _watch(client: "AdminClient", upstream: str | None, context: Context, seconds: float) -> None:
    while True:
        _show(client, upstream, context, clear=sys.stdout.isatty() and not context.json)
        time.sleep(seconds)


def _show(
    client: "AdminClient", upstream: str | None, context: Context, *, clear: bool = False, silent: bool = False
) -> "Status":
    from llmgate.adminapi import as_plain

    shown = only(client.status(), upstream)
    if context.json:
        print_json(as_plain(shown))
    elif not silent:
        lines = screen(shown, color=context.color, width=terminal_width())
        print_lines([CLEAR + lines[0], *lines[1:]] if clear else lines)
    return shown


def only(shown: "Status", upstream: str | None) -> "Status":
    """The status with this one upstream; AdminRefusal, as the daemon's own, when there is none of that name."""
    import msgspec

    if upstream is None:
        return shown
    chosen = [view for view in shown.upstreams if view.name == upstream]
    if not chosen:
        raise unknown_upstream(upstream, (view.name for view in shown.upstreams), shown.renamed)
    return msgspec.structs.replace(shown, upstreams=chosen)


def screen(shown: "Status", *, color: bool = False, width: int | None = None) -> list[str]:
    """The lines of the screen: one of the daemon, then the table, in at most `width` cells if that can be."""
    from llmgate.tui.figures import age

    addresses = [entry if "://" in entry or entry.startswith("unix:") else f"http://{entry}" for entry in shown.listen]
    parts = [f"llmgate {shown.version}", f"up {age(shown.uptime_ms)}", *addresses]
    if shown.config:
        parts.append(f"config {shown.config}")
    if shown.state != "running":
        parts.append(shown.state)
    bullet = paint("●", "ok" if shown.state == "running" else "full", color)
    return [f"{bullet} {', '.join(parts)}", *_table(shown, color, width)]


def _table(shown: "Status", color: bool, width: int | None) -> list[str]:
    whole = [HEADER, *rows(shown.upstreams, shown.now_ms)]
    if not any(view.refused for view in shown.upstreams):
        rare = HEADER.index(RARE)
        whole = [[*row[:rare], *row[rare + 1 :]] for row in whole]
    header, *rest = fitted(whole, width, STEPS)
    below = [] if len(header) == len(whole[0]) else [(view.name, _remarks(view)) for view in shown.upstreams]
    return [*table(header, rest, color=color), *(clean(f"{name}: {text}") for name, text in below if text)]


def rows(upstreams: Sequence["UpstreamView"], now_ms: int) -> list[Row]:
    return [_row(view, now_ms) for view in upstreams]


def _row(view: "UpstreamView", now_ms: int) -> Row:
    oldest = None if view.oldest_arrived_ms is None else now_ms - view.oldest_arrived_ms
    return [
        view.name,
        Cell(view.state, STATE_STYLES.get(view.state, "full")),
        f"{view.running + view.draining}/{view.max_concurrent or ENDLESS}",
        f"{view.waiting}/{ENDLESS if view.max_queued is None else view.max_queued}",
        lapse(oldest),
        lapse(view.p50_wait_ms),
        lapse(view.p95_wait_ms),
        str(view.queue_full),
        str(view.queue_timeout),
        str(view.refused),
        str(view.failed),
        str(view.served),
        _remarks(view),
    ]


def _remarks(view: "UpstreamView") -> str:
    details = [] if view.max_concurrent else [NOT_GATED]
    details += [not_free(view.draining)] if view.draining else []
    return ", ".join([*details, view.remarks] if view.remarks else details)


def not_free(draining: int) -> str:
    """Of requests that drain: they are over, and their server may not be. That an upstream drains is its state."""
    return f"{counted(draining, 'slot')} not free yet"
