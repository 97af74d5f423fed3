"""How a command says that it failed: on standard error, as a sentence that begins with "llmgate: ", or as JSON.

Standard output has data only, under --json too: a script that keeps it never takes an error for an answer.
"""

import json
import re

import typer

from llmgate.cli.context import say
from llmgate.errors import AdminRefusal, DaemonNotRunning, DaemonSilent, LlmgateError, NotPermitted, SettingsError

PREFIX = "llmgate: "

IN_USE, NO_PERMISSION = 69, 77
_OF_A_START = {IN_USE: "IN_USE", NO_PERMISSION: "NO_PERMISSION"}
"""The words of exit statuses that only what listens has."""

_CHOICES = re.compile(r"\. Choose from:\n\t(.*)", re.DOTALL)
"""As click tells them: one a line."""


def tell(error: LlmgateError, *, as_json: bool) -> None:
    """The error in whole."""
    complain(code_of(error), str(error), as_json=as_json)


def complain(code: str, text: str, *, as_json: bool) -> None:
    """`code` is a stable word for programs; the text is for people, with the lines that help."""
    if as_json:
        message = sentence(text).removeprefix(PREFIX).replace(f"\n{PREFIX}", "\n")
        told = {"schema": 1, "error": {"code": code, "message": message}}
        say(json.dumps(told, ensure_ascii=False))
    else:
        say(sentence(text))


def complain_of_start(error: LlmgateError, status: int) -> None:
    """Why a program that was to listen does not, as JSON; `status` is what it exits with."""
    complain(_OF_A_START.get(status) or code_of(error), str(error), as_json=True)


def complain_of_usage(error: typer.TyperException, *, as_json: bool) -> None:
    """A wrong command line: how it would be right, then what is wrong with it."""
    text = error.format_message().removeprefix("Invalid value: ")
    text = _CHOICES.sub(lambda found: f": choose from {' '.join(found[1].split())}", text)
    if as_json:
        complain("USAGE", text, as_json=True)
    elif text.startswith("Usage: "):  # no command at all: the help
        say(text)
    else:
        say("".join(filter(None, [_usage(getattr(error, "ctx", None)), sentence(text)])))


def _usage(ctx: typer.Context | None) -> str:
    if ctx is None:
        return ""
    return f"{ctx.get_usage()}\nTry '{ctx.command_path} -h' for help.\n\n"


def sentence(text: str) -> str:
    """It goes on after the name of the program: with a small letter, unless it begins with a name in capitals."""
    if text.startswith(PREFIX):
        return text
    first = text[:1] if text[1:2].isupper() else text[:1].lower()
    return f"{PREFIX}{first}{text[1:]}"


def code_of(error: LlmgateError) -> str:
    """The daemon's own word where it refused."""
    if isinstance(error, AdminRefusal):
        return error.code
    known: list[tuple[type[LlmgateError], str]] = [
        (DaemonNotRunning, "NOT_RUNNING"),
        (DaemonSilent, "NO_ANSWER"),
        (NotPermitted, "NOT_PERMITTED"),
        (SettingsError, "BAD_SETTINGS"),
    ]
    return next((code for kind, code in known if isinstance(error, kind)), "FAILED")
