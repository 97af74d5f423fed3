"""What the global options say, and what every command needs of it: the daemon's socket, the output, its colour."""

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from llmgate.errors import LlmgateError

if TYPE_CHECKING:
    from llmgate.adminclient import AdminClient


_PLAIN = str.maketrans({"●": "*", "∞": "-"})
"""Our own signs, for a locale without them."""


@dataclass(frozen=True)
class Context:
    """The global options of one call. `json`: data goes out as JSON that begins with "schema": 1."""

    socket: Path | None = None
    config: Path | None = None
    json: bool = False
    quiet: bool = False
    verbose: bool = False
    color: bool = False

    def find_socket(self) -> Path:
        """The first of the sockets that is there."""
        from llmgate.adminclient import find_socket

        return self.socket or find_socket(path for path, _ in self.sockets(os.environ))

    def sockets(self, environ: Mapping[str, str]) -> list[tuple[Path, str]]:
        """--socket alone, else that of the settings, the user's own daemon, the system's; with who names each."""
        from llmgate.config.whereabouts import socket_candidates

        if self.socket is not None:
            return [(self.socket.absolute(), "--socket")]
        return socket_candidates(self.config, environ, os.getuid())

    def client(self, command: str) -> "AdminClient":
        """The daemon; `command` is what its errors tell to run again."""
        from llmgate.adminclient import AdminClient

        told = _say_call if self.verbose else None
        return AdminClient(self.find_socket(), command=command, settings=self.config, told=told)


def _say_call(call: str) -> None:
    say(f"llmgate: {call}")


def context_of(ctx: typer.Context) -> Context:
    """The global options, from whatever command."""
    found = ctx.find_object(Context)
    return found or Context()


def wants_color(environ: Mapping[str, str], no_color: bool, tty: bool) -> bool:
    """Colour only on a terminal that has it, for a person who wants it (no-color.org)."""
    return tty and not no_color and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def terminal_width() -> int | None:
    """Cells of a line on the terminal that standard output is; None where it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_lines(lines: Iterable[str]) -> None:
    """Data: to stdout. BrokenPipeError where its reader has left, as `head` does: the app ends then, in silence."""
    text = "".join(f"{line}\n" for line in lines)
    try:
        sys.stdout.write(text if _can_be_written(text) else text.translate(_PLAIN))
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_output()
        raise LlmgateError(f"llmgate: standard output cannot be written to: {error.strerror}") from None


def _can_be_written(text: str) -> bool:
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def drop_output() -> None:
    """What is still to be written goes nowhere: Python would complain of it at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_json(value: Mapping[str, Any]) -> None:
    """Data as one line of JSON; it begins with the schema."""
    print_lines([json.dumps({"schema": 1} | dict(value), ensure_ascii=False)])


def say(text: str) -> None:
    """All that is not data: to stderr; a reader who has left misses it."""
    with contextlib.suppress(BrokenPipeError):
        typer.echo(text, err=True)
