"""`llmgate config`: the settings without starting anything; here the group and `config check`."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llmgate.cli.config_import import import_settings
from llmgate.cli.config_init import init
from llmgate.cli.config_show import schema, show
from llmgate.cli.context import context_of, print_json, print_lines, say
from llmgate.cli.failure import sentence
from llmgate.cli.tree import Command

if TYPE_CHECKING:
    from llmgate.config.load import Loaded
    from llmgate.config.settings import UpstreamSettings

app = typer.Typer(help="Look at the settings, begin them, bring others' along.", no_args_is_help=True)


@app.callback()
def config() -> None:
    """Look at the settings, begin them, bring others' along."""


app.command(cls=Command)(init)


@app.command(cls=Command)
def check(
    ctx: typer.Context,
    file: Annotated[Path | None, typer.Argument(metavar="FILE", hidden=True)] = None,
) -> None:
    """Say what would be used, or all that is wrong.

    It looks at FILE, or else at what serve would use. Exit status 78: serve would refuse to start.

    \b
    Example:
      llmgate config check ./llmgate.toml && llmgate reload
    """
    from llmgate.config.load import load
    from llmgate.errors import SettingsError

    context = context_of(ctx)
    try:
        loaded = load(file or context.config, environ=os.environ)
    except SettingsError as error:
        if context.json:
            print_json({"valid": False, "errors": str(error).splitlines()})
        else:
            say(sentence(str(error)))
        raise typer.Exit(os.EX_CONFIG) from None
    if context.json:
        print_json(_plain(loaded))
    else:
        print_lines(_lines(loaded))
        for warning in (*loaded.warnings, *_errors(loaded)):
            say(sentence(warning))
    if _errors(loaded):
        raise typer.Exit(os.EX_CONFIG)


app.command(cls=Command)(show)
app.command(cls=Command)(schema)
app.command("import", cls=Command)(import_settings)


def _errors(loaded: "Loaded") -> list[str]:
    """Why `serve` would refuse to start with settings that are right as far as they go."""
    return [] if loaded.settings.upstreams else ["llmgate: no upstream: serve would refuse to start"]


def _plain(loaded: "Loaded") -> dict[str, Any]:
    """What would be used, for `--json`: durations in seconds, null = no limit, no keys and no headers."""
    errors, settings = _errors(loaded), loaded.settings
    return {
        "valid": not errors,
        "config": str(loaded.path or ""),
        "listen": list(settings.server.listen),
        "admin_socket": str(_admin_socket(loaded)),
        "upstreams": {name: _plain_upstream(upstream) for name, upstream in settings.upstreams.items()},
        "warnings": list(loaded.warnings),
        "errors": errors,
    }


def _plain_upstream(upstream: "UpstreamSettings") -> dict[str, Any]:
    return {
        "url": upstream.display_url,
        "endpoints": [{"url": each.url, "max_concurrent": each.max_concurrent} for each in upstream.all_endpoints],
        "models": list(upstream.models),
        "aliases": dict(upstream.aliases),
        "max_concurrent": upstream.max_concurrent,
        "max_queued": upstream.max_queued,
        "queue_timeout": upstream.queue_timeout,
        "queue_timeout_nonstream": upstream.nonstream_queue_timeout,
    }


def _admin_socket(loaded: "Loaded") -> Path:
    from llmgate.config.paths import default_admin_socket

    return loaded.settings.admin.socket or default_admin_socket(os.environ, os.getuid())


def _lines(loaded: "Loaded") -> Iterator[str]:
    settings = loaded.settings
    yield f"file        {loaded.path or 'none found: defaults and environment'}"
    yield f"listen      {', '.join(settings.server.listen)}"
    yield f"admin       {_admin_socket(loaded)}"
    if not settings.upstreams:
        yield "upstreams   none: add one with [upstreams.NAME], or start with serve --upstream NAME=URL"
        return
    yield f"upstreams   {len(settings.upstreams)}"
    width = max(map(len, settings.upstreams))
    for name, upstream in settings.upstreams.items():
        yield f"  {name:<{width}}  {_servers(upstream)}  {', '.join(_limits(upstream))}"


def _servers(upstream: "UpstreamSettings") -> str:
    if upstream.endpoints is None:
        return upstream.url
    return ", ".join(f"{endpoint.url} (max_concurrent {endpoint.max_concurrent})" for endpoint in upstream.endpoints)


def _limits(upstream: "UpstreamSettings") -> Iterator[str]:
    from llmgate.config.units import format_duration

    if upstream.endpoints is None or upstream.max_concurrent != "auto":
        yield f"max_concurrent {upstream.max_concurrent}" if upstream.max_concurrent != 0 else "not gated"
    if upstream.max_queued is not None:
        yield f"max_queued {upstream.max_queued}"
    if upstream.queue_timeout is not None:
        yield f"queue_timeout {format_duration(upstream.queue_timeout)}"
    yield f"models {' '.join(upstream.models)}" if upstream.models else "models as the server lists them"
    if upstream.aliases:
        yield f"aliases {' '.join(upstream.aliases)}"
