"""`llmgate paths`: where settings, admin socket and log are looked for, and what is there."""

import os
import socket as sockets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from llmgate.cli.context import Context, context_of, print_json, print_lines

LOG = "standard error of the daemon; under systemd: journalctl -u llmgate, or journalctl --user -u llmgate"
ANSWER_SECONDS = 2.0


@dataclass(frozen=True)
class Place:
    """`state` says in a few words what is there; `used`: it is the one that counts."""

    path: Path
    why: str
    state: str
    used: bool = False


def paths(ctx: typer.Context) -> None:
    """Say where settings and admin socket are looked for.

    The first that is there counts; it is marked with a star.

    \b
    Example:
      llmgate paths --json
    """
    context = context_of(ctx)
    found = {"settings": settings_places(context, os.environ), "admin_socket": socket_places(context, os.environ)}
    if context.json:
        print_json({name: [_plain(place) for place in places] for name, places in found.items()} | {"log": LOG})
    else:
        print_lines(_lines(found, context))


def _plain(place: Place) -> dict[str, Any]:
    return {"path": str(place.path), "from": place.why, "state": place.state, "used": place.used}


def _lines(found: Mapping[str, list[Place]], context: Context) -> Iterator[str]:
    from llmgate.cli.table import Cell, table

    rows = [
        (
            "*" if place.used else "",
            name.replace("_", " "),
            str(place.path),
            place.why,
            Cell(place.state, _style(place)),
        )
        for name, places in found.items()
        for place in places
    ]
    yield from table(("", "WHAT", "PATH", "FROM", "STATE"), rows, color=context.color)
    yield f"log: {LOG}"


def _style(place: Place) -> str:
    return "ok" if place.used else "dim"


def settings_places(context: Context, environ: Mapping[str, str]) -> list[Place]:
    """Where `serve` looks, best first; one that is named is the only one."""
    from llmgate.config.paths import SYSTEM_SETTINGS, named_settings_file, settings_files

    named = named_settings_file(environ)
    if context.config is not None:
        places = [(context.config.absolute(), "--config")]
    elif named is not None:
        places = [(named, "LLMGATE_CONFIG")]
    else:
        places = [
            (path, "the system's" if path == SYSTEM_SETTINGS else "the user's") for path in settings_files(environ)
        ]
    states = [_file_state(path) for path, _ in places]
    used = next((index for index, state in enumerate(states) if state != "not there"), None)
    return [Place(path, why, states[at], at == used) for at, (path, why) in enumerate(places)]


def _file_state(path: Path) -> str:
    try:
        with path.open("rb"):
            return "there"
    except FileNotFoundError:
        return "a link to nothing" if path.is_symlink() else "not there"
    except OSError as error:
        return f"cannot be read: {os.strerror(error.errno or 0)}"


def socket_places(context: Context, environ: Mapping[str, str]) -> list[Place]:
    """Where commands look for a daemon, best first."""
    places = context.sockets(environ)
    states = [_socket_state(path) for path, _ in places]
    used = next((index for index, state in enumerate(states) if state != "not there"), None)
    return [Place(path, why, states[at], at == used) for at, (path, why) in enumerate(places)]


def _socket_state(path: Path) -> str:
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as knocking:
        knocking.settimeout(ANSWER_SECONDS)
        try:
            knocking.connect(os.fspath(path))
        except (FileNotFoundError, NotADirectoryError):
            return "not there"
        except ConnectionRefusedError:
            return "there, but nobody listens" if path.is_socket() else "there, but no socket"
        except PermissionError:
            return "no permission"
        except OSError as error:
            return f"no connection: {os.strerror(error.errno or 0)}"
    return "a daemon listens"
