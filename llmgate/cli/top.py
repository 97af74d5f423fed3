"""`llmgate top`: the live view."""

from enum import StrEnum
from typing import Annotated

import typer

from llmgate.cli.context import context_of


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
    from llmgate.tui.app import run

    context = context_of(ctx)
    if context.json:
        raise typer.BadParameter("top draws a screen; status, ps and events have --json")
    raise typer.Exit(
        run(
            context.find_socket(),
            ascii=ascii_only,
            once=once,
            no_color=not context.color,
            quiet=context.quiet,
            read_only=read_only,
            theme=theme.value,
        )
    )
