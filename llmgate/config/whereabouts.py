"""Where a command looks for the daemon's admin socket: where `serve` would put it, then where daemons usually do.

Invariant: a healthy daemon is found whatever became of its settings file since. So nothing is checked here, of the file
only `admin.socket` is read, and what cannot be read names no socket.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from llmgate.config.paths import SYSTEM_ADMIN_SOCKET, admin_sockets, find_file, named_settings_file

_VARIABLE = "LLMGATE_ADMIN__SOCKET"
_LARGEST_FILE = 1 << 20


def socket_candidates(config: Path | None, environ: Mapping[str, str], uid: int) -> list[tuple[Path, str]]:
    """Sockets, the best first, with who names each. `config` is the file of --config.

    One that is named for this call (LLMGATE_ADMIN__SOCKET, or by the file of --config or LLMGATE_CONFIG) is the only
    one: who means that daemon must not act on another.
    """
    usual = [
        (path, "the system's" if path == SYSTEM_ADMIN_SOCKET else "the user's") for path in admin_sockets(environ, uid)
    ]
    variable = next((name for name in environ if name.startswith("LLMGATE_") and name.upper() == _VARIABLE), None)
    if variable is not None:
        path = _absolute(environ[variable])
        return usual if path is None else [(path, variable)]
    file = config or find_file(environ)
    path = _named_in(file) if file is not None else None
    if path is None:
        return usual
    if config is not None:
        return [(path, "admin.socket in --config")]
    if named_settings_file(environ) is not None:
        return [(path, "admin.socket in LLMGATE_CONFIG")]
    return [(path, f"admin.socket in {file}"), *(each for each in usual if each[0] != path)]


def _named_in(file: Path) -> Path | None:
    """`admin.socket` of a settings file; None where it names none, or is no TOML that can be read."""
    try:
        with file.open("rb") as stream:
            settings = tomllib.loads(stream.read(_LARGEST_FILE).decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return None
    admin = settings.get("admin")
    return _absolute(admin.get("socket")) if isinstance(admin, dict) else None


def _absolute(value: object) -> Path | None:
    """What `serve` would take for a path; None is the default."""
    return Path(value) if isinstance(value, str) and value.startswith("/") and "\0" not in value else None
