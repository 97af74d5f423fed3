"""`llmgate config init`: a first settings file, to be edited."""

import os
from pathlib import Path
from typing import Annotated

import typer

from llmgate.cli.context import context_of, print_json, print_lines, say
from llmgate.errors import LlmgateError

TEMPLATE = """\
# Settings of llmgate. Look at the result with: llmgate config check
# Every key there is, with its default: llmgate config show; what each means: man 5 llmgate.toml

[server]
# Where clients come in. Beyond this machine only with keys, or with allow_open = true.
listen = ["127.0.0.1:8080"]

# One table for each server, under a name of your own.
[upstreams.local]
# Where the server is, without /v1. `llmgate probe URL` tells what it is and prints this table for it.
url = "http://127.0.0.1:8000"

# How many requests it may work on at once: for llama-server its --parallel. "auto" = as many as it says it can.
max_concurrent = "auto"

# How many may wait (more are refused at once), and for how long; without them any number, for ever.
#max_queued = 64
#queue_timeout = "1h"

# Models that are served here, names or patterns; without it those that the server lists itself, and while this is the
# only upstream every model.
#models = ["qwen2.5:3b-instruct", "qwen*"]
"""


def init(
    ctx: typer.Context,
    file: Annotated[Path | None, typer.Argument(metavar="FILE", hidden=True)] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write a small settings file to start from.

    It goes to FILE, or else to where serve looks first: ~/.config/llmgate/llmgate.toml.

    \b
    Example:
      llmgate config init ./llmgate.toml
    """
    context = context_of(ctx)
    target = (file or context.config or _place()).absolute()
    _write(target, force)
    if context.json:
        print_json({"written": str(target)})
        return
    print_lines([str(target)])
    if not context.quiet:
        say(_next_steps(target, found=file is None and context.config is None))


def _place() -> Path:
    from llmgate.config.paths import named_settings_file, settings_files

    return named_settings_file(os.environ) or settings_files(os.environ)[0]


def _write(target: Path, force: bool) -> None:
    if os.path.lexists(target) and not force:
        raise LlmgateError(
            f"llmgate: {target} is there already; edit it, name another FILE, or write over it with --force"
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("w" if force else "x", encoding="utf-8") as stream:
            stream.write(TEMPLATE)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise LlmgateError(f"llmgate: {target} cannot be written: {reason}; name another FILE") from None


def _next_steps(target: Path, *, found: bool) -> str:
    from llmgate.cli.program import program

    option = "" if found else f" --config {target}"
    return f"llmgate: written; edit its url, then: {program()} config check{option} && {program()} serve{option}"
