"""What a person is told when the admin socket does not give what was asked: what is wrong, and the lines that help."""

import errno
import grp
import json
import os
import pwd
import shlex
import stat
from pathlib import Path
from typing import TypeVar

import msgspec

from llmgate.adminapi import SCHEMA
from llmgate.config.paths import named_settings_file, settings_files, unit_files
from llmgate.errors import AdminError, AdminRefusal, DaemonNotRunning, DaemonSilent, NotPermitted

TIMEOUTS = frozenset(("ReadTimeout", "ConnectTimeout", "WriteTimeout", "PoolTimeout"))
"""httpx's names for them, which need no import of httpx."""

_UNKNOWN_PATH = ("NOT_FOUND", "METHOD_NOT_ALLOWED")
"""What a daemon says that has no such path, or not with this method."""

Kind = TypeVar("Kind")


def decode(data: bytes, kind: type[Kind], socket: Path) -> Kind:
    """The view in an answer; fields that we do not know are passed over."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        schema = _schema(data)
        if schema > SCHEMA:
            raise AdminError(
                f"The daemon on {socket} is newer than this llmgate (schema {schema}, known {SCHEMA})\n"
                "and its answer can not be read.\n\nInstall the llmgate of the daemon's version."
            ) from error
        raise garbage(socket) from error


def _schema(data: bytes) -> int:
    try:
        return int(json.loads(data)["schema"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0


def check_answer(status: int, body: bytes, socket: Path, asked: str) -> None:
    """Raises AdminRefusal with the daemon's own sentence for an answer other than 200; `asked` is what for."""
    if status == 200:
        return
    try:
        error = json.loads(body)["error"]
        message, code = str(error["message"]), str(error["code"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise garbage(socket) from None
    if code in _UNKNOWN_PATH:
        raise AdminRefusal(
            f"The daemon on {socket} is older than this llmgate: it does not know {asked}.\n\n"
            "Restart it, so that the installed version runs, or use the llmgate of its version.",
            code,
        )
    raise AdminRefusal(message, code)


def closed(socket: Path) -> AdminError:
    return AdminError(f"The daemon closed the connection on {socket}")


def silent(socket: Path) -> AdminError:
    return DaemonSilent(
        f"The daemon on {socket} does not answer: nothing was heard from it in time.\n\n"
        "It is stopped or too busy, and may still do what it was asked.\n"
        "Look at its log; where that stands still, restart it."
    )


def garbage(socket: Path) -> AdminError:
    return AdminError(
        f"What answers on {socket} does not speak as llmgate does.\n\nIs it the socket of another program?"
    )


def explain(error: Exception, socket: Path, command: str, settings: Path | None = None) -> AdminError:
    """The error of a call that got no answer: what was tried, what is wrong with it, and the lines that help.

    The first line names the socket, the second paragraph the cause; then come the indented lines to run. `settings` is
    the file that the command line named.
    """
    code = _errno(error)
    if code in (errno.EACCES, errno.EPERM):
        return NotPermitted("\n".join([f"Permission denied on {socket}", "", *_permission_lines(socket, command)]))
    if code in (errno.ENOENT, errno.ENOTDIR):
        return _not_running(socket, "The socket file does not exist.", command, settings)
    if code == errno.ECONNREFUSED:
        return _not_running(socket, _refused(socket), command, settings)
    if isinstance(error, TimeoutError) or type(error).__name__ in TIMEOUTS:
        return silent(socket)
    if type(error).__name__ == "RemoteProtocolError" and code is None:
        return closed(socket) if "connect" in str(error) else garbage(socket)
    return AdminError(f"The connection on {socket} failed: {_root(error) or type(error).__name__}")


def _refused(socket: Path) -> str:
    """The kernel says the same of a socket that is left over and of what never was one."""
    if socket.is_dir():
        return "That is a folder, not a socket."
    if socket.exists() and not socket.is_socket():
        return "That is a file, but not a socket."
    return "The file is there, but nobody listens on it."


def _not_running(socket: Path, cause: str, command: str, settings: Path | None) -> DaemonNotRunning:
    lines = [f"No daemon answers on {socket}", "", cause, "", *_start_lines(command, settings)]
    return DaemonNotRunning("\n".join(lines))


def _start_lines(command: str, settings: Path | None) -> list[str]:
    return [
        f"  start it now          llmgate {_serve(settings)}",
        *_unit_lines(),
        "  only to try it        llmgate demo",
        f"  another socket        llmgate --socket PATH {command}",
        "  a remote machine      ssh -L ~/gate.sock:/run/llmgate/admin.sock host",
        f"                        llmgate --socket ~/gate.sock {command}",
    ]


def _serve(settings: Path | None) -> str:
    if settings is not None:
        return f"--config {shlex.quote(str(settings))} serve"
    return "serve" if _finds_settings() else "serve --upstream NAME=http://127.0.0.1:8000"


def _unit_lines() -> list[str]:
    """Only where there is a unit to start."""
    if not any(map(os.path.lexists, unit_files(os.environ, os.getuid()))):
        return []
    if os.getuid() == 0:
        return ["  as a service          systemctl enable --now llmgate"]
    return ["  as a user service     systemctl --user enable --now llmgate"]


def _finds_settings() -> bool:
    """Whether `llmgate serve` alone would read a settings file."""
    return bool(named_settings_file(os.environ)) or any(map(os.path.lexists, settings_files(os.environ)))


def _permission_lines(socket: Path, command: str) -> list[str]:
    """Whose it is, and how to get in: told by the socket, or by its folder where the socket cannot be seen."""
    what, needed = "The socket", stat.S_IWGRP
    try:
        found = socket.stat()
    except OSError:
        what, needed = f"The folder {socket.parent}", stat.S_IXGRP
        try:
            found = socket.parent.stat()
        except OSError:
            return [f"You may not enter the folder {socket.parent}."]
    group, user = _group_name(found.st_gid), _user_name(found.st_uid)
    if found.st_mode & needed:
        return [
            f"{what} belongs to group {group}, and you are not in it.",
            "",
            f"  join the group        sudo usermod -aG {group} $USER   (then log in again)",
        ]
    return [
        f"{what} belongs to user {user}, and only that user may use it.",
        "",
        f"  as that user          sudo -u {user} llmgate --socket {socket} {command}",
    ]


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _errno(error: BaseException) -> int | None:
    root = _root(error)
    return None if root is None else root.errno


def _root(error: BaseException) -> OSError | None:
    """The operating system's error under what httpx made of it."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, OSError):
        seen = seen.__cause__ or seen.__context__
    return seen
