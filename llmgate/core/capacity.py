"""How many connections a process can take before it has no file left, which it must never come to.

A client is one file, and its request one more while it runs at a server. The rest, which no client may take, is for
what the process itself has open, for the admin socket, and for those who are being told that there is no room.
"""

OWN_FILES = 18
"""Standard streams, event loop, listeners, locks, questions to servers: about 14 were counted with one upstream."""
SURPLUS = 6
"""Connections that are being told that there is no room, at each of the two doors at most."""
ADMIN_LEAST = 8
ADMIN_MOST = 256
_ADMIN_SHARE = 16


def admin_connections(files: int | None) -> int:
    """At the admin socket, where a process may open so many files (None = as many as it likes)."""
    return ADMIN_MOST if files is None else min(ADMIN_MOST, max(ADMIN_LEAST, files // _ADMIN_SHARE))


def client_connections(asked: int, files: int | None) -> int:
    """At the clients' ports: as many as asked for, or as there are files for; at least one."""
    if files is None:
        return asked
    return max(1, min(asked, (files - OWN_FILES - 2 * SURPLUS - admin_connections(files)) // 2))
