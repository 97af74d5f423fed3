"""What all commands have in common beside their work: the line of usage, and a reader of the output who leaves."""

import contextlib
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from llmgate.cli.context import drop_output


class Command(TyperCommand):
    """Its usage has arguments as every manual page has them, and every option that has to be there."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]
        needed = [parameter for parameter in self.params if parameter.required and parameter.opts[0].startswith("-")]
        return [*pieces[:1], *(f"{option.opts[0]} {option.metavar}" for option in needed), *pieces[1:]]

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """A wrong option may be meant for one of the global ones."""
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            _name_global_options(error, ctx)
            raise


def _name_global_options(error: typer.TyperException, ctx: Any) -> None:
    if (option := getattr(error, "option_name", "")) and hasattr(error, "possibilities"):
        from llmgate.names import nearest

        whole = [*ctx.command.params, *ctx.find_root().command.params]
        near = nearest(option, [name for parameter in whole for name in (*parameter.opts, *parameter.secondary_opts)])
        error.possibilities = None
        error.message = f"No such option: {option}." + (f" Did you mean {near}?" if near else "")


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
