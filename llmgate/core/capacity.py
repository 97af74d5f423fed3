"""How many connections a process can take before it has no file left, which it must never come to.

A client is one file, and its request one more while it runs at a server. The rest, which no client may take, is for
what the process itself has open, for the admin socket and the address of the metrics, and for those who are being told
that there is no room.
"""

OWN_FILES = 18
"""Standard streams, event loop, listeners, locks, questions to servers: about 14 were counted with one upstream."""
SURPLUS = 6
"""Connections that are being told that there is no room, at each door at most."""
ADMIN_LEAST = 8
ADMIN_MOST = 256
_ADMIN_SHARE = 16
METRICS_MOST = 32


def admin_connections(files: int | None) -> int:
    """At the admin socket, where a process may open so many files (None = as many as it likes)."""
    return ADMIN_MOST if files is None else min(ADMIN_MOST, max(ADMIN_LEAST, files // _ADMIN_SHARE))


def metrics_connections(files: int | None) -> int:
    """At the address of the metrics, where they have one: a few programs look there, as at the admin socket."""
    return min(METRICS_MOST, admin_connections(files))


def client_connections(asked: int, files: int | None, *, metrics: bool = False) -> int:
    """At the clients' ports: as many as asked for, or as there are files for; at least one.

    `metrics`: they have an address of their own.
    """
    if files is None:
        return asked
    others = OWN_FILES + 2 * SURPLUS + admin_connections(files)
    if metrics:
        others += 1 + SURPLUS + metrics_connections(files)
    return max(1, min(asked, (files - others) // 2))
