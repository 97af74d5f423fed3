"""`llmgate connect`: the lines that point a client at the gate, printed or written."""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llmgate.cli.context import Context, context_of, print_json, print_lines, say, terminal_width
from llmgate.errors import LlmgateError
from llmgate.names import unknown

if TYPE_CHECKING:
    from llmgate.cli.connect.find import Found
    from llmgate.cli.connect.recipe import Client, Recipe
    from llmgate.cli.connect.write import Change


def base_url_of(text: str) -> str:
    """As it is meant: without /v1, which is added where a client wants it."""
    from llmgate.config.units import BadValue
    from llmgate.config.values import parse_url

    try:
        return parse_url(text).removesuffix("/v1")
    except BadValue as error:
        raise typer.BadParameter(str(error)) from None


def connect(
    ctx: typer.Context,
    client: Annotated[str | None, typer.Argument(metavar="CLIENT", hidden=True)] = None,
    base_url: Annotated[
        str | None,
        typer.Option(help="Where the client reaches the gate, without /v1.", parser=base_url_of, metavar="URL"),
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model that the client is to ask for.", metavar="NAME")] = None,
    write: Annotated[bool, typer.Option("--write", help="Put it into the client's own settings file.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --write: do not ask.")] = False,
) -> None:
    """Print what points a client at the gate.

    Without CLIENT it lists those that are known. The URL, a model and how long requests may wait are those of the
    running daemon, else of the settings: the client's timeouts are made longer than that.

    \b
    Examples:
      llmgate connect claude-code
      llmgate connect codex --model reasoning --write
    """
    context = context_of(ctx)
    if client is None:
        _list(context)
        return
    chosen = _choose(client)
    from llmgate.cli.connect.authority import certificate_notes
    from llmgate.cli.connect.find import find

    found = find(context, base_url, model)
    recipe = chosen.render(found.target)
    told = certificate_notes(chosen.name, found.target.root, found.config)
    recipe = replace(recipe, notes=(*recipe.notes, *told))
    if write:
        _refuse_placeholder(found)
        _write(chosen, recipe, context, ask=not yes)
    elif context.json:
        print_json(_plain(chosen, found, recipe))
    else:
        print_lines(_lines(chosen, found, recipe))
    for note in (f"{found.source}.", *recipe.notes) if not (context.quiet or context.json) else ():
        say(f"llmgate: {note}")


def _choose(name: str) -> "Client":
    from llmgate.cli.connect.clients import CLIENTS, find_client

    chosen = find_client(name)
    if chosen is None:
        raise typer.BadParameter(unknown("client", name, CLIENTS))
    return chosen


FILES = "--write CHANGES"
STEPS = (("SPEAKS", 0), (FILES, 48))
"""What a narrow terminal costs, step by step: a column's cells, 0 = the column."""


def _list(context: Context) -> None:
    from llmgate.cli.connect.clients import CLIENTS
    from llmgate.cli.connect.target import Target
    from llmgate.cli.table import fitted, table

    known = {client: client.render(Target("http://127.0.0.1:8080/llm")) for client in CLIENTS.values()}
    if context.json:
        told = [
            {"name": client.name, "title": client.title, "files": [file.place for file in recipe.files]}
            for client, recipe in known.items()
        ]
        print_json({"clients": told})
        return
    rows = [
        (client.name, client.title, client.protocol, ", ".join(file.place for file in recipe.files) or "-")
        for client, recipe in known.items()
    ]
    shown = fitted([("CLIENT", "NAME", "SPEAKS", FILES), *rows], terminal_width(), STEPS)
    print_lines(table(shown[0], shown[1:], color=context.color))
    if not context.quiet:
        say("llmgate: the lines for one of them: llmgate connect CLIENT")


def _plain(client: "Client", found: "Found", recipe: "Recipe") -> dict[str, Any]:
    from llmgate.cli.connect.recipe import dump

    target = found.target
    return {
        "client": client.name,
        "tried": client.tried,
        "base_url": target.root,
        "openai_base_url": target.openai,
        "model": target.model,
        "queue_timeout": target.queue_timeout,
        "source": found.source,
        "blocks": [{"title": block.title, "language": block.language, "text": block.text} for block in recipe.blocks],
        "files": [
            {
                "path": file.place,
                "format": file.format,
                "values": file.values,
                "text": dump(file.format, file.values),
            }
            for file in recipe.files
        ],
        "notes": list(recipe.notes),
    }


def _lines(client: "Client", found: "Found", recipe: "Recipe") -> Iterator[str]:
    """Each piece of text under a comment that says where it goes."""
    from llmgate.cli.connect.recipe import dump

    tried = f" (tried with its version {client.tried})" if client.tried else ""
    yield f"# {client.title}, to {found.target.root} with {found.target.model}{tried}"
    for block in recipe.blocks:
        yield from ("", f"# {block.title}:", *block.text.splitlines())
    for file in recipe.files:
        yield from ("", f"# In {file.place} (--write puts it there):", *dump(file.format, file.values).splitlines())


def _refuse_placeholder(found: "Found") -> None:
    from llmgate.cli.connect.target import Target

    if found.target.model == Target.model:
        raise LlmgateError("llmgate: no model is known that could be written; name one with --model NAME")


def _write(client: "Client", recipe: "Recipe", context: Context, *, ask: bool) -> None:
    from llmgate.cli.connect.write import plan

    if not recipe.files:
        raise LlmgateError(
            f"llmgate: {client.title} has no settings file that could be written here; "
            f"see what to do by hand with: llmgate connect {client.name}"
        )
    changes = [plan(file, os.environ) for file in recipe.files]
    needed = [change for change in changes if change.is_needed]
    if not context.json:
        _show(changes)
    if needed and ask:
        _ask(needed)
    _carry_out(needed, context)


def _show(changes: "list[Change]") -> None:
    for change in changes:
        if change.is_needed:
            print_lines(change.diff())
        else:
            say(f"llmgate: {change.path} says so already")


def _ask(changes: "list[Change]") -> None:
    """A person is asked; a program must say --yes."""
    if not sys.stdin.isatty():
        raise LlmgateError("llmgate: nothing was written; to write it without being asked, say --yes")
    names = " and ".join(str(change.path) for change in changes)
    if not typer.confirm(f"Write {names}?", err=True):
        say("llmgate: nothing was written")
        raise typer.Exit(1)


def _carry_out(changes: "list[Change]", context: Context) -> None:
    from llmgate.cli.connect.write import write

    written = []
    for change in changes:
        kept = str(change.backup) if change.path.exists() else ""
        write(change)
        written.append({"path": str(change.path), "backup": kept})
        if not (context.json or context.quiet):
            say(f"llmgate: {change.path} is written" + (f"; as it was: {kept}" if kept else ""))
    if context.json:
        print_json({"written": written})
