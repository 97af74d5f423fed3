"""The typer app: global options, the commands, and how an error becomes a message and an exit status.

Exit status: 0 fine; 1 failed; 2 usage; 3 the daemon is not running; 4 an upstream is down (`status --check`);
for `serve` and `demo` those of sysexits.h: 69 port or socket in use, 77 permission, 78 settings.
"""

import contextlib
import io
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

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
from llmgate.cli.context import Context, drop_output, say, wants_color
from llmgate.cli.hoist import hoist, is_quiet
from llmgate.errors import DaemonNotRunning, LlmgateError, SettingsError

FAILED = 1
NOT_RUNNING = 3
BAD_SETTINGS = 78


class Commands(TyperGroup):
    """A reader of standard output that leaves early, as `head` does, ends a command in silence and with 0."""

    def make_context(self, *args: Any, **named: Any) -> Any:
        """Writes the help, if that is asked for."""
        with _silence():
            return super().make_context(*args, **named)

    def invoke(self, ctx: Any) -> Any:
        with _silence():
            return super().invoke(ctx)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        drop_output()
        raise typer.Exit from None


app = typer.Typer(
    name="llmgate",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"llmgate {__version__}")
        raise typer.Exit


@app.callback()
def global_options(
    ctx: typer.Context,
    socket: Annotated[
        Path | None, typer.Option(help="The daemon's admin socket.", metavar="PATH", readable=False)
    ] = None,
    config: Annotated[Path | None, typer.Option(help="The settings file.", metavar="FILE", readable=False)] = None,
    json: Annotated[bool, typer.Option("--json", help="Print data as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say less.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more.")] = False,
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


app.command()(serve.serve)
app.command()(demo.demo)
app.command()(simulate.simulate)
app.command()(status.status)
app.command()(ps.ps)
app.command()(top.top)
app.command()(events.events)
app.command()(request.inspect)
app.command()(request.cancel)
app.command()(request.move)
app.command()(operate.pause)
app.command()(operate.resume)
app.command()(operate.drain)
app.command("set")(operate.set_limits)
app.command()(reload.reload)
app.command()(wait.wait)
app.command()(doctor.doctor)
app.command()(metrics.metrics)
app.command("try")(trial.try_)
app.command()(connect.connect)
app.command()(probe.probe)
app.add_typer(config_commands.app, name="config")
app.command()(paths.paths)
app.command()(completion.completion)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and leave with its exit status."""
    open_standard_files()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    given = sys.argv[1:] if arguments is None else arguments
    try:
        app(args=hoist(given), prog_name="llmgate")
    except LlmgateError as error:
        if not (isinstance(error, DaemonNotRunning) and is_quiet(given)):
            say(str(error))
        sys.exit(exit_status(error))
    finally:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            drop_output()
    sys.exit(0)


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
