"""`llmgate reload`: the daemon reads its settings again, and tells what that changed."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer

from llmgate.cli.context import context_of, print_json, print_lines, say
from llmgate.cli.failure import code_of, complain, sentence
from llmgate.errors import SettingsError

if TYPE_CHECKING:
    from llmgate.adminapi import ConfigChange, Reloaded

_TABLE = re.compile(r"upstreams\.([^.\"]+|\"[^\"]*\")$")
"""A whole upstream: of what came or went there is its URL."""


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
    if reloaded.error:
        error = f"{reloaded.error}\nllmgate: the old settings stay in force"
        complain(code_of(SettingsError()), error, as_json=context.json)
        raise typer.Exit(1)
    if context.json:
        print_json(as_plain(reloaded))
        return
    for warning in reloaded.warnings:
        say(sentence(warning))
    if not context.quiet:
        print_lines(_lines(reloaded))


def _lines(reloaded: "Reloaded") -> Iterator[str]:
    if not reloaded.changed:
        yield "nothing changed"
    for change in reloaded.changed:
        yield _line(change)
    yield from reloaded.fates


def _line(change: "ConfigChange") -> str:
    later = "  (needs a new start)" if change.reload == "restart" else ""
    if change.old == change.new:
        return f"{change.key}: another value, which is not shown{later}"
    if _TABLE.match(change.key):
        was_there = change.new is None
        return f"{change.key}: {'gone' if was_there else 'new'}, {change.old if was_there else change.new}{later}"
    return f"{change.key}: {_value(change.key, change.old)} -> {_value(change.key, change.new)}{later}"


def _value(key: str, value: Any) -> str:
    from llmgate.config.toml import scalar

    if value == 0 and key.endswith(".max_concurrent"):
        return "0 (not gated)"
    return "none" if value is None else scalar(value)
