"""`llmgate reload`: the daemon reads its settings again, and tells what that changed."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer

from llmgate.cli.context import context_of, print_json, print_lines, say
from llmgate.cli.failure import sentence

if TYPE_CHECKING:
    from llmgate.adminapi import ConfigChange, Reloaded


def reload(ctx: typer.Context) -> None:
    """Have the settings read again; say what changed.

    As SIGHUP does. Where they cannot be used it says why and exits with 1; the old ones stay in force. Nobody loses a
    place.

    \b
    Example:
      llmgate config check && llmgate reload
    """
    from llmgate.adminapi import as_plain

    context = context_of(ctx)
    reloaded = context.client("reload").reload()
    if context.json:
        print_json(as_plain(reloaded))
    else:
        for warning in reloaded.warnings:
            say(sentence(warning))
        if reloaded.error:
            say(f"{sentence(reloaded.error)}\nllmgate: the old settings stay in force")
        elif not context.quiet:
            print_lines(_lines(reloaded))
    if reloaded.error:
        raise typer.Exit(1)


def _lines(reloaded: "Reloaded") -> Iterator[str]:
    if not reloaded.changed:
        yield "nothing changed"
    for change in reloaded.changed:
        yield _line(change)


def _line(change: "ConfigChange") -> str:
    later = "  (needs a new start)" if change.reload == "restart" else ""
    return f"{change.key}: {_value(change.old)} -> {_value(change.new)}{later}"


def _value(value: Any) -> str:
    from llmgate.config.toml import scalar

    return "none" if value is None else scalar(value)
