"""`llmgate serve`: the daemon in the foreground."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from llmgate.cli.context import Context, context_of, print_json, print_lines, say
from llmgate.errors import SettingsError

NO_UPSTREAM = """\
llmgate: no upstream is given, so there is nothing to stand in front of.

  one server, no file   llmgate serve --upstream NAME=http://127.0.0.1:8000,max_concurrent=1
  a settings file       llmgate serve --config FILE, with [upstreams.NAME] in it; see llmgate.toml(5)
  only to try it        llmgate demo"""


def serve(
    ctx: typer.Context,
    listen: Annotated[
        list[str] | None,
        typer.Option(help="Address for clients: host:port or unix:/path; may be repeated.", metavar="ADDRESS"),
    ] = None,
    admin_socket: Annotated[Path | None, typer.Option(help="Where to put the admin socket.", metavar="PATH")] = None,
    upstream: Annotated[
        list[str] | None,
        typer.Option(
            help="An upstream that needs no file: NAME=URL[,KEY=VALUE]...; may be repeated.", metavar="UPSTREAM"
        ),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only check the settings.")] = False,
) -> None:
    """Run the daemon in the foreground."""
    from llmgate.config.load import load

    context = context_of(ctx)
    loaded = load(context.config, environ=os.environ, overrides=overrides(context, listen, admin_socket, upstream))
    if not loaded.settings.upstreams:
        raise SettingsError(NO_UPSTREAM)
    if check:
        _show_checked(context, loaded.path, loaded.warnings)
        return
    from llmgate.daemon import serve as serve_daemon

    raise typer.Exit(serve_daemon(loaded))


def overrides(
    context: Context, listen: Sequence[str] | None, admin_socket: Path | None, upstreams: Sequence[str] | None
) -> dict[str, Any]:
    """The command line as settings, nested as in the file."""
    from llmgate.config.environment import parse_upstream

    settings: dict[str, Any] = {}
    if listen:
        settings["server"] = {"listen": list(listen)}
    if admin_socket is not None:
        settings["admin"] = {"socket": os.path.abspath(admin_socket)}
    if context.verbose or context.quiet:
        settings["log"] = {"level": "debug" if context.verbose else "warning"}
    for text in upstreams or ():
        parsed = parse_upstream(text)
        if twice := parsed.keys() & settings.get("upstreams", {}).keys():
            raise SettingsError(f"llmgate: --upstream {min(twice)}: is given twice")
        settings.setdefault("upstreams", {}).update(parsed)
    return settings


def _show_checked(context: Context, path: Path | None, warnings: Sequence[str]) -> None:
    for warning in warnings:
        say(warning)
    if context.json:
        print_json({"valid": True, "config": str(path or ""), "warnings": list(warnings)})
    elif not context.quiet:
        print_lines([f"{path or 'the command line'}: the settings are fine"])
