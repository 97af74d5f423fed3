"""`llmgate ps`: one line a request, those that wait first, in the order in which they will run."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from llmgate.cli.context import context_of, print_json, print_lines, terminal_width
from llmgate.cli.table import Cell, Row, fitted, lapse, table

if TYPE_CHECKING:
    from llmgate.adminapi import Requests, RequestView
    from llmgate.adminclient import AdminClient
    from llmgate.adminclient.calls import Filters

HEADER = (
    "POS",
    "ID",
    "UPSTREAM",
    "STATE",
    "WAITED",
    "ETA",
    "RUN",
    "MODEL",
    "CLIENT",
    "SESSION",
    "PURPOSE",
    "API",
    "OUT",
)
STATE_STYLES = {"waiting": "full", "running": "ok", "draining": "full", "done": "dim"}
SESSION_WIDTH, NAME_WIDTH = 14, 32
STEPS = (
    *(("API", 0), ("PURPOSE", 12), ("SESSION", 8), ("ID", 10), ("CLIENT", 12), ("ETA", 0), ("MODEL", 20), ("OUT", 0)),
    *(("PURPOSE", 0), ("SESSION", 0), ("UPSTREAM", 12), ("MODEL", 12), ("CLIENT", 8), ("CLIENT", 0), ("MODEL", 0)),
)
"""What a narrow terminal costs, step by step: a column's cells, 0 = the column."""


class State(StrEnum):
    """The states that `--state` knows."""

    WAITING = "waiting"
    RUNNING = "running"
    DRAINING = "draining"
    DONE = "done"


def _state(text: str) -> State:
    try:
        return State(text)
    except ValueError:
        raise typer.BadParameter("must be waiting, running, draining or done") from None


def ps(
    ctx: typer.Context,
    show_all: Annotated[bool, typer.Option("--all", "-a", help="Also those that ended lately.")] = False,
    upstream: Annotated[str | None, typer.Option(help="Only those of this upstream.", metavar="NAME")] = None,
    model: Annotated[str | None, typer.Option(help="Only those for this model.", metavar="MODEL")] = None,
    client: Annotated[str | None, typer.Option(help="Only those of this client program.", metavar="CLIENT")] = None,
    session: Annotated[str | None, typer.Option(help="Only those whose session begins so.", metavar="SESSION")] = None,
    state: Annotated[
        State | None,
        typer.Option(
            help="Only those in this state: waiting, running, draining or done.", parser=_state, metavar="STATE"
        ),
    ] = None,
) -> None:
    """List the requests: one line each, waiting ones first.

    \b
    Examples:
      llmgate ps --upstream reasoning --state waiting
      llmgate ps --client claude-cli --session a3f9
      llmgate ps --all --json | jq '.requests[].outcome'
    """
    from llmgate.adminapi import as_plain

    context = context_of(ctx)
    filters: Filters = {"upstream": upstream, "model": model, "client": client, "session": session}
    asked = context.client("ps")
    found = _fetch(asked, show_all, filters, state)
    if context.json:
        print_json(as_plain(found))
    elif found.requests or not context.quiet:
        where = _places(asked, filters, found.requests)
        shown = fitted([HEADER, *rows(found.requests, found.now_ms, where)], terminal_width(), STEPS)
        print_lines(table(shown[0], shown[1:], color=context.color))


def _fetch(client: "AdminClient", show_all: bool, filters: "Filters", state: State | None) -> "Requests":
    import msgspec

    wanted: Filters = {"state": state.value if state else None, **filters}
    found = client.requests(**wanted)
    requests = {request.id: request for request in found.requests}
    if show_all and state is None:
        wanted = {"state": State.DONE.value, **filters}
        ended = client.requests(**wanted)
        requests = {request.id: request for request in ended.requests} | requests
    elif state is None:
        requests = {key: request for key, request in requests.items() if request.state != State.DONE}
    return msgspec.structs.replace(found, requests=in_order(requests.values()))


def in_order(requests: Iterable["RequestView"]) -> list["RequestView"]:
    """Waiting in dispatch order, then running and draining, oldest first, then those that ended, newest first."""
    return sorted(requests, key=_rank)


def _rank(request: "RequestView") -> tuple[int, str, int]:
    if request.state == State.WAITING:
        return 0, request.upstream, request.order
    if request.state == State.DONE:
        return 2, "", -(request.ended_ms or 0)
    return 1, request.upstream, request.dispatched_ms or 0


def _places(client: "AdminClient", filters: "Filters", shown: Sequence["RequestView"]) -> dict[str, int]:
    """The positions of those that wait, by id: those that a filter hides count, too."""
    if any(filters.get(name) is not None for name in ("model", "client", "session")):
        line = client.requests(state=State.WAITING.value, upstream=filters.get("upstream")).requests
        return places(in_order(line))
    return places(shown)


def places(requests: Iterable["RequestView"]) -> dict[str, int]:
    """Of requests in order: a position counts the waiting ones of its upstream."""
    waiting: dict[str, int] = {}
    found = {}
    for request in requests:
        if request.state == State.WAITING:
            found[request.id] = waiting[request.upstream] = waiting.get(request.upstream, 0) + 1
    return found


def rows(requests: Sequence["RequestView"], now_ms: int, places: Mapping[str, int]) -> list[Row]:
    """A row for each request, with its position where it has one."""
    return [_row(request, now_ms, str(places.get(request.id, "-"))) for request in requests]


def _row(request: "RequestView", now_ms: int, position: str) -> Row:
    from llmgate.tui.cells import cut, shorten

    left_queue = request.dispatched_ms or request.ended_ms or now_ms
    ran = None if request.dispatched_ms is None else (request.ended_ms or now_ms) - request.dispatched_ms
    return [
        position,
        request.id,
        request.upstream,
        Cell(request.outcome or request.state, STATE_STYLES.get(request.state, "")),
        lapse(left_queue - request.arrived_ms),
        "-" if request.eta_ms is None else f"~{lapse(request.eta_ms)}",
        lapse(ran),
        cut(request.model, NAME_WIDTH, "~"),
        cut(request.client, NAME_WIDTH, "~") or "-",
        shorten(request.session, SESSION_WIDTH) or "-",
        cut(request.purpose, NAME_WIDTH, "~") or "-",
        request.api,
        str(request.output_tokens),
    ]
