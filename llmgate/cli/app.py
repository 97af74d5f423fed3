"""The typer app: global options, the commands, and how an error becomes a message and an exit status.

Exit status: 0 fine; 1 failed; 2 usage; 3 the daemon is not running; 4 an upstream is down (`status --check`); 5 timed
out; 130 ctrl-c, as a shell counts it; for `serve`, `demo` and `simulate` those of sysexits.h: 69 port or socket in use,
77 permission, 78 settings.
"""

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from llmgate import __version__
from llmgate.cli import (
    completion,
    demo,
    doctor,
    events,
    metrics,
    operate,
    paths,
    probe,
    ps,
    reload,
    request,
    serve,
    simulate,
    status,
    top,
    trial,
    wait,
)
from llmgate.cli import config as config_commands
from llmgate.cli.connect import command as connect
from llmgate.cli.context import Context, drop_output, print_json, wants_color
from llmgate.cli.failure import complain_of_usage, tell
from llmgate.cli.hoist import hoist, is_json, is_quiet
from llmgate.cli.tree import Command, Commands
from llmgate.errors import DaemonNotRunning, LlmgateError, SettingsError

FAILED = 1
NOT_RUNNING = 3
BAD_SETTINGS = 78


app = typer.Typer(
    name="llmgate",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(ctx: typer.Context, wanted: bool) -> None:
    """--json, which is eager too and comes first on a hoisted line, is known by then."""
    if not wanted:
        return
    if ctx.params.get("json"):
        print_json({"version": __version__})
    else:
        typer.echo(f"llmgate {__version__}")
    raise typer.Exit


@app.callback()
def global_options(
    ctx: typer.Context,
    socket: Annotated[
        Path | None, typer.Option(help="The daemon's admin socket.", metavar="PATH", readable=False)
    ] = None,
    config: Annotated[Path | None, typer.Option(help="The settings file.", metavar="FILE", readable=False)] = None,
    json: Annotated[bool, typer.Option("--json", is_eager=True, help="Print data as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say less.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Say more: of the calls of the daemon, for serve its log.")
    ] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colour, as with NO_COLOR set.")] = False,
    version: Annotated[  # noqa: ARG001  its callback has done the work
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A first come, first served queue between LLM clients and LLM servers.

    The options below may also stand after the command.

    \b
    Examples:
      llmgate serve --upstream local=http://127.0.0.1:8000
      llmgate status --json
      llmgate COMMAND --help
    """
    color = wants_color(os.environ, no_color, sys.stdout.isatty())
    ctx.obj = Context(socket=socket, config=config, json=json, quiet=quiet, verbose=verbose, color=color)


app.command(cls=Command)(serve.serve)
app.command(cls=Command)(demo.demo)
app.command(cls=Command)(simulate.simulate)
app.command(cls=Command)(status.status)
app.command(cls=Command)(ps.ps)
app.command(cls=Command)(top.top)
app.command(cls=Command)(events.events)
app.command(cls=Command)(request.inspect)
app.command(cls=Command)(request.cancel)
app.command(cls=Command)(request.move)
app.command(cls=Command)(operate.pause)
app.command(cls=Command)(operate.resume)
app.command(cls=Command)(operate.drain)
app.command("set", cls=Command)(operate.set_limits)
app.command(cls=Command)(reload.reload)
app.command(cls=Command)(wait.wait)
app.command(cls=Command)(doctor.doctor)
app.command(cls=Command)(metrics.metrics)
app.command("try", cls=Command)(trial.try_)
app.command(cls=Command)(connect.connect)
app.command(cls=Command)(probe.probe)
app.add_typer(config_commands.app, name="config")
app.command(cls=Command)(paths.paths)
app.command(cls=Command)(completion.completion)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and leave with its exit status."""
    open_standard_files()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        status = _run(sys.argv[1:] if arguments is None else arguments)
    finally:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            drop_output()
    sys.exit(status)


def _run(given: Sequence[str]) -> int:
    """The exit status; what is wrong is told."""
    try:
        return app(args=hoist(given), prog_name="llmgate", standalone_mode=False) or 0
    except LlmgateError as error:
        if not (isinstance(error, DaemonNotRunning) and is_quiet(given)):
            tell(error, as_json=is_json(given))
        return exit_status(error)
    except typer.TyperException as error:
        complain_of_usage(error, as_json=is_json(given))
        return error.exit_code
    except typer.Abort:
        return FAILED


def open_standard_files() -> None:
    """Whoever starts us may have closed some of 0, 1 and 2: a socket that got such a number would be taken for them."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))


def exit_status(error: LlmgateError) -> int:
    if isinstance(error, DaemonNotRunning):
        return NOT_RUNNING
    return BAD_SETTINGS if isinstance(error, SettingsError) else FAILED
