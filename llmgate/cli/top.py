"""`llmgate top`: the live view."""

from typing import Annotated

import typer

from llmgate.cli.context import context_of


def top(
    ctx: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Print the screen once and leave.")] = False,
    ascii_only: Annotated[bool, typer.Option("--ascii", help="Only ASCII characters.")] = False,
) -> None:
    """Watch the queues live."""
    from llmgate.tui.app import run

    context = context_of(ctx)
    no_color = not context.color
    raise typer.Exit(run(context.find_socket(), ascii=ascii_only, once=once, no_color=no_color, quiet=context.quiet))
