"""`llmgate inspect`, `cancel` and `move`: one request, named by its id or by the beginning of it."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from llmgate.cli.context import Context, context_of, print_json, print_lines
from llmgate.cli.failure import tell
from llmgate.cli.table import counted, lapse, table
from llmgate.errors import AdminRefusal
from llmgate.names import ambiguous, whole_ids

if TYPE_CHECKING:
    from llmgate.adminapi import RequestDetail, RequestView, Step, UpstreamView
    from llmgate.adminclient import AdminClient


def inspect(ctx: typer.Context, request: Annotated[str, typer.Argument(metavar="ID", hidden=True)]) -> None:
    """Show one request: who asks, and what happened to it.

    It is request ID. The beginning of an id is enough, if no other begins like that; llmgate ps lists them.

    \b
    Example:
      llmgate inspect req_7f3a
    """
    from llmgate.adminapi import as_plain

    context = context_of(ctx)
    client = context.client("inspect")
    detail = client.request(_find(client, request))
    if context.json:
        print_json(as_plain(detail))
    else:
        print_lines(_lines(detail, _why(client, detail), context))


def _why(client: "AdminClient", detail: "RequestDetail") -> str:
    """What it waits for; "" where it does not wait, or where that has just changed."""
    if detail.position is None:
        return ""
    try:
        upstream = client.upstream(detail.request.upstream).upstream
    except AdminRefusal:
        return ""
    return reason_to_wait(upstream)


def reason_to_wait(upstream: "UpstreamView") -> str:
    """What keeps those who wait at this upstream."""
    reasons = [f"{upstream.name} is down" + (f": {upstream.detail}" if upstream.detail else "")] * upstream.is_down
    if upstream.state == "paused":
        reasons.append(f"an operator has paused {upstream.name}, llmgate resume {upstream.name} ends that")
    elif upstream.state == "draining":
        reasons.append(f"{upstream.name} drains: it takes nobody new, and serves those that are there")
    taken = upstream.running + upstream.draining
    slots = upstream.max_concurrent
    if not reasons and slots and taken > slots:
        reasons.append(f"{taken} have a slot of {upstream.name}, though max_concurrent is {slots} now")
    elif not reasons and slots and taken == slots:
        reasons.append(f"{taken} of {counted(slots, 'slot')} of {upstream.name} taken")
    return ", and ".join(reasons)


def cancel(ctx: typer.Context, requests: Annotated[list[str], typer.Argument(metavar="ID", hidden=True)]) -> None:
    """Cancel requests; their clients are told.

    Each ID may wait or run.

    \b
    Example:
      llmgate cancel req_7f3a req_81c0
    """
    context = context_of(ctx)
    client = context.client("cancel")
    details, failed = [], False
    for each in requests:
        try:
            details.append(client.cancel(_find(client, each)))
        except AdminRefusal as error:
            tell(error, as_json=context.json)
            failed = True
    if details or not failed:
        _show(details, context, "cancelled")
    if failed:
        raise typer.Exit(1)


def move(
    ctx: typer.Context,
    request: Annotated[str, typer.Argument(metavar="ID", hidden=True)],
    front: Annotated[bool, typer.Option("--front", help="In front of all that wait.")] = False,
) -> None:
    """Make a waiting request, ID, the next to run.

    \b
    Example:
      llmgate move req_7f3a --front
    """
    if not front:
        raise typer.BadParameter("say where to, with --front")
    context = context_of(ctx)
    client = context.client("move")
    _show([client.move(_find(client, request))], context, "moved to the front")


def _show(details: Sequence["RequestDetail"], context: Context, what: str) -> None:
    from llmgate.adminapi import as_plain

    if context.json:
        print_json({"requests": [as_plain(detail.request) for detail in details]})
    elif not context.quiet:
        print_lines(f"{detail.request.id} {what} ({detail.request.upstream})" for detail in details)


def _find(client: "AdminClient", text: str) -> str:
    """The whole id of a request that is kept; AdminRefusal where several begin so."""
    known = [request.id for request in client.requests(state="all").requests]
    found = whole_ids(text, known)
    if len(found) > 1:
        raise AdminRefusal(f"llmgate: {ambiguous(text, found)}", "AMBIGUOUS")
    return found[0] if found else text


def _lines(detail: "RequestDetail", why: str, context: Context) -> Iterator[str]:
    from llmgate.tui.cells import clean

    facts = list(_facts(detail, why))
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        yield f"{name:<{width}}  {clean(value)}"
    if detail.journey:
        yield ""
        yield from table(
            ("AFTER", "WHAT", ""),
            [_step(step) for step in detail.journey],
            color=context.color,
        )
    if detail.of_session:
        yield ""
        yield from table(("OTHERS OF ITS SESSION", "STATE", "WAITED", "RAN", "OUT"), _others(detail))


def _step(step: "Step") -> tuple[str, str, str]:
    """After how long, what, and what more there is to say of it."""
    where = f"position {step.position}" if step.position is not None else ""
    if step.kind == "position" and where:
        return lapse(step.offset_ms), where, step.text
    word = step.word or step.kind.replace("_", " ")
    return lapse(step.offset_ms), word, ", ".join(filter(None, [step.text.removeprefix(word).lstrip(" :,"), where]))


def _facts(detail: "RequestDetail", why: str) -> Iterator[tuple[str, str]]:
    view = detail.request
    yield "id", view.id
    yield "state", _state(detail)
    if why:
        yield "because", why
    yield "upstream", " ".join(filter(None, [view.upstream, view.endpoint]))
    yield "model", view.model
    told = f", {counted(view.queue_frames, 'queue frame')} sent" if view.queue_frames else ""
    yield "api", f"POST {view.path}, {'a stream' if view.stream else 'not a stream'}{told}"
    yield "client", f"{' '.join(filter(None, [view.client or '-', view.client_version]))} from {view.peer or '-'}"
    if view.session:
        yield "session", view.session + (f" ({view.session_from})" if view.session_from else "")
    for name in ("purpose", "key"):
        if value := getattr(view, name):
            yield name, value
    yield "arrived", view.arrived_at
    yield "waited", lapse(_waited_ms(view, detail.now_ms))
    if view.dispatched_ms is not None:
        yield "ran", lapse((view.ended_ms or detail.now_ms) - view.dispatched_ms)
        yield "output", counted(view.output_tokens, "token")
    yield "body", counted(view.body_bytes, "byte")


def _state(detail: "RequestDetail") -> str:
    view = detail.request
    if detail.position is None:
        why = f": {view.reason}" if view.reason else ""
        return f"{view.state}, {view.outcome}{why}" if view.outcome and view.outcome != view.state else view.state
    eta = f", about {lapse(detail.eta_ms)} to go (an estimate)" if detail.eta_ms is not None else ""
    limit = f", at most {lapse(view.deadline_ms - view.arrived_ms)}" if view.deadline_ms is not None else ""
    return f"waiting, position {detail.position} of {detail.depth}{eta}{limit}"


def _waited_ms(view: "RequestView", now_ms: int) -> int:
    return (view.dispatched_ms or view.ended_ms or now_ms) - view.arrived_ms


def _others(detail: "RequestDetail") -> list[tuple[str, ...]]:
    return [
        (
            other.id,
            other.outcome or other.state,
            lapse(_waited_ms(other, detail.now_ms)),
            lapse(None if other.dispatched_ms is None else (other.ended_ms or detail.now_ms) - other.dispatched_ms),
            str(other.output_tokens),
        )
        for other in detail.of_session
    ]
