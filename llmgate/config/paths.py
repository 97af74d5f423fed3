"""Where settings and the admin socket lie: functions of the environment and the user's id.

Only `find_file`, `make_private_folder` and what it asks touch the file system.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

SYSTEM_SETTINGS = Path("/etc/llmgate/llmgate.toml")
SYSTEM_ADMIN_SOCKET = Path("/run/llmgate/admin.sock")


def named_settings_file(environ: Mapping[str, str]) -> Path | None:
    """The file that $LLMGATE_CONFIG names: then no other is looked for."""
    return Path(environ["LLMGATE_CONFIG"]) if environ.get("LLMGATE_CONFIG") else None


def settings_files(environ: Mapping[str, str]) -> list[Path]:
    """The places that are searched for a settings file, first the user's own."""
    folder = _absolute(environ.get("XDG_CONFIG_HOME"))
    home = _absolute(environ.get("HOME"))
    if folder is None and home is not None:
        folder = home / ".config"
    own = [folder / "llmgate" / "llmgate.toml"] if folder is not None else []
    return [*own, SYSTEM_SETTINGS]


def find_file(environ: Mapping[str, str]) -> Path | None:
    """The settings file to use when the command line names none; one that $LLMGATE_CONFIG names need not exist."""
    named = named_settings_file(environ)
    return named or next((file for file in settings_files(environ) if os.path.lexists(file)), None)


def default_admin_socket(environ: Mapping[str, str], uid: int) -> Path:
    """Where a daemon of this user puts its admin socket unless `admin.socket` says otherwise."""
    if uid == 0:
        return SYSTEM_ADMIN_SOCKET
    runtime = _absolute(environ.get("XDG_RUNTIME_DIR"))
    if runtime is not None:
        return runtime / "llmgate" / "admin.sock"
    temporary = _absolute(environ.get("TMPDIR")) or Path("/tmp")  # noqa: S108  make_private_folder checks its owner
    return temporary / f"llmgate-{uid}" / "admin.sock"


def admin_sockets(environ: Mapping[str, str], uid: int) -> list[Path]:
    """Where a command looks for a daemon: the user's own, then the system's."""
    return list(dict.fromkeys([default_admin_socket(environ, uid), SYSTEM_ADMIN_SOCKET]))


def unit_files(environ: Mapping[str, str], uid: int) -> list[Path]:
    """Where systemd looks for the unit of a daemon of this user (systemd.unit(5)), as far as people put one there."""
    scope = "system" if uid == 0 else "user"
    shared = [Path(folder) for folder in ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib")]
    home = _absolute(environ.get("HOME"))
    config = _absolute(environ.get("XDG_CONFIG_HOME")) or (home and home / ".config")
    data = _absolute(environ.get("XDG_DATA_HOME")) or (home and home / ".local" / "share")
    own = [folder for folder in (config, data) if folder is not None and uid != 0]
    return [folder / "systemd" / scope / "llmgate.service" for folder in (*own, *shared)]


def _absolute(text: str | None) -> Path | None:
    """Relative paths in these variables are invalid and to be ignored (XDG Base Directory Specification)."""
    return Path(text) if text and text.startswith("/") else None


def make_private_folder(folder: Path, uid: int, *, for_group: bool = False, group: int | None = None) -> None:
    """Make `folder` where it is missing, with mode 0700, or 0750 where the group is to get at what lies in it.

    `group` is the id of that group, None = the process's own. PermissionError where others could replace what lies in
    it, or where it was there before and does not let that group in.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        reason = why_not_private(folder, uid) or (why_closed_to(folder, group) if group is not None else "")
        if reason:
            raise PermissionError(f"{folder} {reason}") from None
    else:
        if group is not None:
            os.chown(folder, -1, group)
        if for_group:
            folder.chmod(0o750)


def why_closed_to(folder: Path, group: int) -> str:
    """Why the group cannot get at what lies in `folder`, or "" when it can."""
    status = os.lstat(folder)
    if status.st_mode & 0o001 or (status.st_gid == group and status.st_mode & 0o010):
        return ""
    return "does not let the group of the socket in: see to that with chgrp, and chmod g+x"


def why_not_private(folder: Path, uid: int) -> str:
    """Why a socket in `folder` cannot be trusted to be this user's or root's, or "" when it can.

    In a sticky folder such as /tmp nobody can remove or replace what is another's.
    """
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode):
        return "is not a directory"
    if status.st_uid not in (uid, 0):
        return "belongs to another user"
    if status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX:
        return "can be written by others: take that away with chmod go-w"
    return ""
