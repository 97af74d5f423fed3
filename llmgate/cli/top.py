"""`llmgate top`: the live view."""

import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from llmgate.cli.context import Context, context_of, print_json


class Theme(StrEnum):
    """The themes of the screen; those of tui/themes.py, which is not imported for it."""

    DEFAULT = "default"
    DARK = "dark"
    LIGHT = "light"
    MONO = "mono"


def _theme(text: str) -> Theme:
    try:
        return Theme(text)
    except ValueError:
        raise typer.BadParameter(f"must be {', '.join(list(Theme)[:-1])} or {list(Theme)[-1]}") from None


def top(
    ctx: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Print the screen once and leave.")] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Only look: no key changes anything.")] = False,
    ascii_only: Annotated[bool, typer.Option("--ascii", help="Only ASCII characters.")] = False,
    theme: Annotated[
        Theme, typer.Option(help="Colours: default, dark, light or mono.", parser=_theme, metavar="NAME")
    ] = Theme.DEFAULT,
) -> None:
    """Watch the queues live, and act on them.

    ? tells the keys.

    \b
    Examples:
      llmgate top --read-only
      llmgate top --once --ascii
    """
    context = context_of(ctx)
    if context.json:
        _print(context, once=once)
        return
    from llmgate.tui.app import run

    if once:
        context.client("top").status()  # what is wrong with it is told as everywhere
    _let_textual_clean_up()
    socket = context.find_socket()
    raise typer.Exit(
        run(
            socket,
            ascii=ascii_only,
            doctor=_doctor(context, socket),
            once=once,
            no_color=not context.color,
            quiet=context.quiet,
            read_only=read_only,
            settings=context.config,
            theme=theme.value,
        )
    )


def _doctor(context: Context, socket: Path) -> list[str]:
    """The command that looks for what is wrong with this daemon."""
    config = ["--config", str(context.config)] if context.config is not None else []
    return [sys.executable, "-m", "llmgate", *config, "--socket", str(socket), "doctor"]


def _print(context: Context, *, once: bool) -> None:
    """What the screen is made of."""
    from llmgate.adminapi import as_plain

    if not once:
        raise typer.BadParameter("top draws a screen; it has --json with --once only, as status, ps and events have it")
    client = context.client("top")
    status, requests = client.status(), client.requests()
    print_json(as_plain(status) | {"requests": as_plain(requests)["requests"]})


def _let_textual_clean_up() -> None:
    """SIGINT must not leave the terminal as the screen needs it: Python's own handler raises, and that cleans up."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
