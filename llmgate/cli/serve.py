"""`llmgate serve`: the daemon in the foreground."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llmgate.cli.context import Context, context_of, print_json, print_lines, say
from llmgate.cli.failure import complain_of_start, sentence
from llmgate.errors import SettingsError

if TYPE_CHECKING:
    from llmgate.config.load import Loaded

NO_UPSTREAM = """\
llmgate: no upstream is given, so there is nothing to stand in front of.

  one server, no file   llmgate serve --upstream NAME=http://127.0.0.1:8000,max_concurrent=1
  a settings file       llmgate serve --config FILE, with [upstreams.NAME] in it; see llmgate.toml(5)
  only to try it        llmgate demo"""


def serve(
    ctx: typer.Context,
    listen: Annotated[
        list[str] | None,
        typer.Option(help="Address for clients: host:port, unix:/path or fd:3; may be repeated.", metavar="ADDRESS"),
    ] = None,
    admin_socket: Annotated[
        Path | None, typer.Option(help="Where to put the admin socket.", metavar="PATH", readable=False)
    ] = None,
    upstream: Annotated[
        list[str] | None,
        typer.Option(
            help="An upstream that needs no file; ,KEY=VALUE pairs may follow its URL; may be repeated.",
            metavar="NAME=URL",
        ),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only check the settings.")] = False,
) -> None:
    """Run the daemon in the foreground.

    Without --upstream its servers are those of the settings file. Exit status: 69 port or socket in use, 77 no
    permission, 78 the settings, or the sockets passed to it, are wrong.

    \b
    Examples:
      llmgate serve --upstream local=http://127.0.0.1:8000,max_concurrent=1
      llmgate --config ./llmgate.toml serve --check
    """
    from llmgate.config.load import load

    context = context_of(ctx)
    given = overrides(context, listen, admin_socket, upstream)

    def read() -> "Loaded":
        return load(context.config, environ=os.environ, overrides=given)

    loaded = read()
    if not loaded.settings.upstreams:
        raise SettingsError(NO_UPSTREAM)
    if check:
        _show_checked(context, loaded.path, loaded.warnings)
        return
    from llmgate.daemon import serve as serve_daemon

    raise typer.Exit(serve_daemon(loaded, read, complain_of_start if context.json else None))


def overrides(
    context: Context, listen: Sequence[str] | None, admin_socket: Path | None, upstreams: Sequence[str] | None
) -> dict[str, Any]:
    """The command line as settings, nested as in the file. typer.BadParameter says what is wrong with it."""
    settings: dict[str, Any] = {}
    if listen:
        settings["server"] = {"listen": list(listen)}
    if admin_socket is not None:
        settings["admin"] = {"socket": os.path.abspath(admin_socket)}
    if context.verbose or context.quiet:
        settings["log"] = {"level": "debug" if context.verbose else "warning"}
    if upstreams:
        settings["upstreams"] = _upstreams(upstreams)
    _refuse_bad_values(settings)
    return settings


def _upstreams(texts: Sequence[str]) -> dict[str, Any]:
    from llmgate.config.environment import parse_upstream

    found: dict[str, Any] = {}
    for text in texts:
        try:
            parsed = parse_upstream(text)
        except SettingsError as error:
            reason = str(error).removeprefix("llmgate: --upstream").removeprefix(":").strip()
            raise typer.BadParameter(reason, param_hint="'--upstream'") from None
        if twice := parsed.keys() & found.keys():
            raise typer.BadParameter(f"{min(twice)} is given twice", param_hint="'--upstream'")
        found |= parsed
    return found


def _refuse_bad_values(settings: dict[str, Any]) -> None:
    """Values that no file can make good are mistakes of the command line, not of the settings."""
    from pydantic import ValidationError

    from llmgate.config.refusals import find_refusals
    from llmgate.config.settings import Settings

    upstreams = {name: {"max_concurrent": "auto", **table} for name, table in settings.get("upstreams", {}).items()}
    try:
        Settings.model_validate({**settings, "upstreams": upstreams})
    except ValidationError as error:
        problem = find_refusals(error)[0]
    else:
        return
    option = {"server": "--listen", "admin": "--admin-socket"}.get(str(problem.path[0]), "--upstream")
    said = str(problem).removeprefix("upstreams.") if option == "--upstream" else problem.text
    raise typer.BadParameter(said, param_hint=f"'{option}'")


def _show_checked(context: Context, path: Path | None, warnings: Sequence[str]) -> None:
    for warning in warnings:
        say(sentence(warning))
    if context.json:
        print_json({"valid": True, "config": str(path or ""), "warnings": list(warnings)})
    elif not context.quiet:
        print_lines([f"{path or 'the command line'}: the settings are fine"])
