"""Who is at the other end of the admin socket: the uid that the kernel tells of it, and the name of that user."""

import asyncio
import contextlib
import os
import pwd
import socket
import struct
import time
from typing import NamedTuple

_LOCAL_PEERCRED = 1
"""macOS and BSD: <sys/un.h>; the level is SOL_LOCAL, 0. The answer is a struct xucred: version, uid, groups."""
_SOL_LOCAL = 0
_XUCRED_SIZE = 76
_NAME_SECONDS = 1.0
_KEPT_SECONDS = 60.0
_NAMES_KEPT = 64


class Peer(NamedTuple):
    """One process that has connected."""

    uid: int | None
    """None where the kernel does not tell."""

    async def name(self) -> str:
        """As events and log say it: "uid 1000 (alice)". The directory of users may be on another machine, and slow."""
        if self.uid is None:
            return "an unknown user"
        user = _names.get(self.uid)
        if user is None:
            user = await _look_up(self.uid)
        return f"uid {self.uid} ({user})" if user else f"uid {self.uid}"


class Names:
    """The newest users that were looked up, each for a minute: a script may act thousands of times."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[float, str]] = {}

    def get(self, uid: int) -> str | None:
        until, name = self._known.get(uid, (0.0, None))
        return name if time.monotonic() < until else None

    def keep(self, uid: int, name: str) -> None:
        if len(self._known) >= _NAMES_KEPT:
            self._known.clear()
        self._known[uid] = time.monotonic() + _KEPT_SECONDS, name


_names = Names()


async def _look_up(uid: int) -> str:
    """ "" where that takes too long."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_NAME_SECONDS):
            user = await asyncio.to_thread(user_name, uid)
            _names.keep(uid, user)
            return user
    return ""


def user_name(uid: int) -> str:
    """The user's name; "" where the system knows none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def peer_of(fileno: int) -> Peer:
    """The peer of a connected Unix socket."""
    with socket.socket(fileno=os.dup(fileno)) as connection:
        if connection.family != socket.AF_UNIX:
            return Peer(None)
        try:
            return Peer(_ask_uid(connection))
        except OSError:
            return Peer(None)


def _ask_uid(connection: socket.socket) -> int:
    if hasattr(socket, "SO_PEERCRED"):  # unix(7): struct ucred: pid, uid, gid
        return int(struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1])
    return int(struct.unpack_from("II", connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_SIZE))[1])
