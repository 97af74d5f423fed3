"""`llmgate wait`: until the daemon takes requests, or has none, for scripts."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from llmgate.cli.context import Context, context_of, print_json
from llmgate.cli.patience import Patience, seconds, time_out
from llmgate.cli.status import only
from llmgate.errors import DaemonNotRunning, DaemonSilent

if TYPE_CHECKING:
    from llmgate.adminapi import Status

POLL_SECONDS = 0.2
CLOSED = ("draining", "drained")
"""States in which an upstream refuses who comes."""


def wait(
    ctx: typer.Context,
    ready: Annotated[bool, typer.Option("--ready", help="Until it runs and none of its upstreams is down.")] = False,
    idle: Annotated[bool, typer.Option("--idle", help="Until nobody waits, runs or drains.")] = False,
    upstream: Annotated[str | None, typer.Option(help="Look at this upstream only.", metavar="NAME")] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            help="For so long at most, then exit with 5; without: for ever.", parser=seconds, metavar="DURATION"
        ),
    ] = None,
) -> None:
    """Wait until the daemon is ready, or idle.

    With neither option: until it is ready.

    \b
    Example:
      llmgate wait --ready --timeout 30s && ./run-agents
    """
    context, patience = context_of(ctx), Patience(timeout)
    client = context.client("wait")
    readiness = [_is_ready] if upstream is None else [_is_ready, _is_open]
    tests = readiness * (ready or not idle) + [_is_idle] * idle
    why = ""
    while True:
        try:
            status = only(client.within(patience.left()).status(), upstream)
            why = _why_not(status, tests)
            if not why:
                _show(status, context)
                return
        except DaemonNotRunning:
            why = "no daemon answers"
        except DaemonSilent:
            why = "the daemon does not answer"
        if patience.is_over():
            time_out(why, context)
        time.sleep(POLL_SECONDS)


def _show(status: "Status", context: Context) -> None:
    """What it was waited for; nothing for a person, who sees it come back."""
    from llmgate.adminapi import as_plain

    if context.json:
        print_json(as_plain(status))


def _why_not(status: "Status", tests: Sequence[Callable[["Status"], str]]) -> str:
    return next(filter(None, (test(status) for test in tests)), "")


def _is_ready(status: "Status") -> str:
    """Why not; "" = it is."""
    if status.state != "running":
        return "the daemon is stopping"
    down = [f"{view.name} is down{f': {view.detail}' if view.detail else ''}" for view in status.upstreams
            if view.is_down]  # fmt: skip
    return "; ".join(down)


def _is_open(status: "Status") -> str:
    """Why not; "" = the upstreams refuse nobody. Asked of one by name: of others an operator may have closed some."""
    closed = [view for view in status.upstreams if view.state in CLOSED]
    return "; ".join(f"{view.name} is {view.state}, and refuses who comes until it is resumed" for view in closed)


def _is_idle(status: "Status") -> str:
    """Why not; "" = it is."""
    busy = [
        f"{view.name}: {view.running} running, {view.waiting} waiting, {view.draining} draining"
        for view in status.upstreams
        if view.running or view.waiting or view.draining
    ]
    return "; ".join(busy)
