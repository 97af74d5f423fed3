"""`llmgate pause`, `resume`, `drain` and `set`: what an operator does to one upstream."""

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llmgate.cli.context import Context, context_of, print_json, print_lines, say
from llmgate.cli.patience import Patience, seconds, time_out
from llmgate.cli.status import not_free
from llmgate.errors import AdminError, AdminRefusal, DaemonSilent, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from llmgate.adminapi import LimitsAnswer, UpstreamAnswer, UpstreamView
    from llmgate.adminclient import AdminClient
    from llmgate.adminclient.limits import Limit

UpstreamArgument = Annotated[str, typer.Argument(metavar="UPSTREAM", hidden=True)]

POLL_SECONDS = 0.2
_NEXT_PROBE = re.compile(r", next probe in \w+")
"""It is another one each second, and nothing that anybody waits for."""


def pause(ctx: typer.Context, upstream: UpstreamArgument) -> None:
    """Send nobody to UPSTREAM: who comes waits.

    Who runs runs on.

    \b
    Example:
      llmgate pause reasoning
    """
    _change(ctx, upstream, "pause")


def resume(ctx: typer.Context, upstream: UpstreamArgument) -> None:
    """End a pause or a drain of UPSTREAM.

    \b
    Example:
      llmgate resume reasoning
    """
    _change(ctx, upstream, "resume")


def drain(
    ctx: typer.Context,
    upstream: UpstreamArgument,
    wait: Annotated[bool, typer.Option("--wait", help="Come back when nobody waits or runs there any more.")] = False,
    timeout: Annotated[
        float | None,
        typer.Option(help="With --wait: for so long at most, then exit with 5.", parser=seconds, metavar="DURATION"),
    ] = None,
) -> None:
    """Let UPSTREAM run empty: who comes is refused.

    Who waits or runs is served to the end; resume ends the drain. With --wait it tells what it waits for, first and
    whenever that is something else.

    \b
    Example:
      llmgate drain reasoning --wait && systemctl restart llama-server
    """
    from msgspec import structs

    if not wait:
        _change(ctx, upstream, "drain")
        return
    context, patience = context_of(ctx), Patience(timeout)
    client = context.client("drain")
    answer = begun = client.within(patience.left()).drain(upstream)
    told: str | None = None
    while _in_hand(answer.upstream):
        told = _tell_obstacle(answer.upstream, told, context)
        if patience.is_over():
            time_out(f"{_sentence(answer.upstream)}{told}; the drain goes on", context)
        time.sleep(POLL_SECONDS)
        try:
            answer = client.within(patience.left()).upstream(upstream)
        except DaemonSilent:
            if not patience.is_over():
                raise
        if not answer.upstream.state.startswith("drain"):
            raise AdminRefusal(f"llmgate: somebody ended the drain meanwhile: {_sentence(answer.upstream)}", "CONFLICT")
    _show(structs.replace(answer, changed=begun.changed), context)


def _tell_obstacle(view: "UpstreamView", told: str | None, context: Context) -> str:
    """What keeps it from running empty, told where that was not `told` last; "" is nothing but time."""
    detail = _NEXT_PROBE.sub("", view.detail) or "no server of it takes requests"
    obstacle = f"; it is down: {detail}" if view.is_down else ""
    if view.is_down and view.waiting:
        obstacle += ", and who waits there waits for it to come back"
    if obstacle != told and not (context.quiet or context.json):
        say(f"llmgate: waiting: {_sentence(view)}{obstacle}")
    return obstacle


def _change(ctx: typer.Context, upstream: str, how: str) -> None:
    context = context_of(ctx)
    client = context.client(how)
    calls: dict[str, Callable[[str], UpstreamAnswer]] = {
        "pause": client.pause,
        "resume": client.resume,
        "drain": client.drain,
    }
    _show(calls[how](upstream), context)


def _show(answer: "UpstreamAnswer", context: Context) -> None:
    from llmgate.adminapi import as_plain

    if context.json:
        print_json(as_plain(answer))
    elif not context.quiet:
        print_lines([_sentence(answer.upstream)])


def _sentence(view: "UpstreamView") -> str:
    """ "reasoning is paused: 1 runs, 3 wait"."""
    draining = f", {not_free(view.draining)}" if view.draining else ""
    return f"{view.name} is {view.state}: {view.running} running, {view.waiting} waiting{draining}"


def _in_hand(view: "UpstreamView") -> int:
    return view.running + view.waiting + view.draining


def set_limits(
    ctx: typer.Context,
    upstream: UpstreamArgument,
    limits: Annotated[list[str], typer.Argument(metavar="LIMIT=VALUE", hidden=True)],
    persist: Annotated[bool, typer.Option("--persist", help="Write them into the settings file, too.")] = False,
) -> None:
    """Change limits of UPSTREAM while it runs.

    Several LIMIT=VALUE may follow. LIMIT is max_concurrent (0 = not gated; auto = the server's own slots), max_queued
    (none = no limit) or queue_timeout (30s, 5m; none = for ever). They hold until the next start, or until the settings
    file has another value at a reload; --persist writes them down.

    \b
    Example:
      llmgate set reasoning max_concurrent=2 queue_timeout=10m
    """
    context = context_of(ctx)
    wanted = _limits(limits)
    client = context.client("set")
    file = _settings_file(client) if persist else None
    answer = client.set_limits(upstream, **wanted)
    if file is not None:
        _write(file, upstream, wanted)
        _tell_written(client, upstream, wanted)
    _show_limits(answer, context, file)


def _tell_written(client: "AdminClient", upstream: str, wanted: "dict[str, Limit]") -> None:
    """An older daemon does not know of it."""
    try:
        client.set_limits(upstream, persisted=True, **wanted)
    except AdminError as error:
        first = str(error).removeprefix("llmgate: ").split("\n", 1)[0]
        say(f"llmgate: written, but the daemon does not know that, so that a reload takes it as new: {first}")


def _write(file: Path, upstream: str, wanted: "dict[str, Limit]") -> None:
    """Raises SettingsError, which says that they are in force all the same."""
    from llmgate.adminclient.limits import write_limits

    try:
        write_limits(file, upstream, wanted)
    except SettingsError as error:
        raise SettingsError(f"{error}\nllmgate: the limits are in force, until the next start") from None


def _limits(texts: list[str]) -> "dict[str, Limit]":
    wanted: dict[str, Limit] = {}
    for name, value in map(_limit, texts):
        if name in wanted:
            raise typer.BadParameter(f"{name} is given twice: each limit once")
        wanted[name] = value
    return wanted


def _limit(text: str) -> "tuple[str, Limit]":
    from llmgate.adminclient.limits import parse_limit
    from llmgate.config.units import BadValue

    try:
        return parse_limit(text)
    except BadValue as error:
        raise typer.BadParameter(str(error)) from None


def _settings_file(client: "AdminClient") -> Path:
    file = client.status().config
    if not file:
        raise AdminError(
            "llmgate: the daemon runs without a settings file, so there is nothing to write into; leave out --persist"
        )
    return Path(file)


def _show_limits(answer: "LimitsAnswer", context: Context, file: Path | None) -> None:
    from llmgate.adminapi import as_plain
    from llmgate.adminclient.limits import LIMITS

    if context.json:
        print_json(as_plain(answer) | {"written_to": str(file or "")})
    elif not context.quiet:
        old, new = ({name: _value(limits, name) for name in LIMITS} for limits in (answer.old, answer.new))
        for limits, is_auto in ((old, answer.was_auto), (new, answer.is_auto)):
            limits["max_concurrent"] = f"auto ({limits['max_concurrent']} now)" if is_auto else limits["max_concurrent"]
        told = [f"{name} {old[name]} -> {new[name]}" for name in LIMITS if old[name] != new[name]]
        where = f", written to {file}" if file else ""
        print_lines([f"{answer.upstream}: {', '.join(told) or 'nothing changed'}{where}", *filter(None, [answer.note])])


def _value(limits: Any, name: str) -> str:
    from llmgate.adminclient.limits import limit_text

    return limit_text(name, getattr(limits, name))
