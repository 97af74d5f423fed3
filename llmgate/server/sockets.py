"""Listening sockets that we bind ourselves: uvicorn exits on a failure to bind, and makes its Unix sockets open to all.

A Unix socket is bound under a lock file next to it, which its daemon holds as long as it lives, and only after nobody
answered on an existing one: so of two daemons one wins, and nobody unlinks a socket that is in use.
"""

import errno
import fcntl
import grp
import os
import socket
import stat
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from llmgate.config.listen import Listen, parse_listen
from llmgate.config.paths import make_private_folder
from llmgate.errors import LlmgateError
from llmgate.server.passed import Passed

BACKLOG = 4096


class SocketInUse(LlmgateError):
    """Somebody else listens there."""


class SocketNotAllowed(LlmgateError):
    """The place is not ours to bind: permission, or something that is no socket lies there."""


def bind_listen(address: str) -> socket.socket:
    """A listening TCP or Unix socket for one entry of `server.listen`. Raises SocketInUse, SocketNotAllowed."""
    listen = parse_listen(address)
    if not listen.host:
        raise SocketNotAllowed(
            f"llmgate: {address} is no TCP address: bind it with UnixSocket, or take what was passed"
        )
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    try:
        info = socket.getaddrinfo(listen.host, listen.port, family, socket.SOCK_STREAM)[0]
    except OSError as error:
        raise SocketNotAllowed(f"llmgate: cannot listen on {address}: {error.strerror or error}") from error
    bound = socket.socket(*info[:3])  # with the protocol: asyncio turns TCP_NODELAY on only where it is told
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(info[4])
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise _explain(error, address) from error
    bound.setblocking(False)
    return bound


def open_entrance(entry: str | Passed, stack: ExitStack) -> tuple[socket.socket, str]:
    """A listening socket for clients that `stack` closes, and its address as the status shows it. Raises SocketInUse,
    SocketNotAllowed."""
    if isinstance(entry, Passed):
        stack.callback(entry.bound.close)
        return entry.bound, entry.address
    if entry.startswith("unix:"):
        unix = UnixSocket(Path(entry.removeprefix("unix:")), mode=0o660, private=False)
        return stack.enter_context(unix).bound, entry
    bound = bind_listen(entry)
    stack.callback(bound.close)
    host, port = bound.getsockname()[:2]
    return bound, f"http://{Listen(host, port)}"


def open_admin(place: Path | Passed, stack: ExitStack, *, mode: int, group: str) -> socket.socket:
    """The listening admin socket, which `stack` closes. Raises SocketInUse, SocketNotAllowed."""
    if isinstance(place, Passed):
        stack.callback(place.bound.close)
        return place.bound
    return stack.enter_context(UnixSocket(place, mode=mode, private=True, group=group)).bound


def find_group(name: str) -> int:
    """The id of a group by its name or number. Raises SocketNotAllowed."""
    if name.isascii() and name.isdecimal() and len(name) < 10:
        return int(name)
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise SocketNotAllowed(f"llmgate: there is no group {name!r} here; name another in admin.group") from None


class UnixSocket:
    """A listening Unix socket of one mode, from `open` to `close`; `with` closes it."""

    def __init__(self, path: Path, *, mode: int, private: bool, group: str = "") -> None:
        """`private`: its folder is made, or must be, one that others cannot write to. `group`: whose it is, with its
        folder; "" = the process's own."""
        self.path = path
        self._mode = mode
        self._group_name = group
        self._group: int | None = None
        self._private = private
        self._lock: IO[bytes] | None = None
        self._bound: socket.socket | None = None
        self._inode = 0

    @property
    def bound(self) -> socket.socket:
        """The listening socket, between `open` and `close`."""
        if self._bound is None:
            raise RuntimeError("it is not open")
        return self._bound

    def open(self) -> None:
        """Binds and listens. Raises SocketInUse, SocketNotAllowed; what it does not own it does not touch."""
        try:
            self._group = find_group(self._group_name) if self._group_name else None
            self._prepare_folder()
            self._lock = self._take_lock()
            self._clear_stale()
            self._bound = self._bind()
        except OSError as error:
            self.close()
            raise _explain(error, str(self.path)) from error
        except LlmgateError:
            self.close()
            raise
        self._inode = os.lstat(self.path).st_ino

    def close(self) -> None:
        """Closes and removes the socket, if it is still ours."""
        if self._bound is not None:
            self._bound.close()
            self._bound = None
            self._unlink_own()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _prepare_folder(self) -> None:
        if self._private:
            for_group = bool(self._mode & 0o060)
            make_private_folder(self.path.parent, os.getuid(), for_group=for_group, group=self._group)
        else:
            self.path.parent.mkdir(parents=True, exist_ok=True)

    def _take_lock(self) -> IO[bytes]:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        lock = os.fdopen(os.open(f"{self.path}.lock", flags, 0o600), "r+b")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise self._in_use() from None
        return lock

    def _clear_stale(self) -> None:
        """Removes the socket of a daemon that is gone."""
        try:
            found = os.lstat(self.path)
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(found.st_mode):
            raise SocketNotAllowed(
                f"llmgate: {self.path} exists and is not a socket; move it away, or name another with {self._option()}"
            )
        if found.st_uid != os.getuid():
            raise SocketNotAllowed(f"llmgate: {self.path} belongs to another user; name another with {self._option()}")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1)
            try:
                probe.connect(str(self.path))
            except (ConnectionRefusedError, FileNotFoundError):
                self.path.unlink(missing_ok=True)
            except (BlockingIOError, TimeoutError):  # its backlog is full: somebody is there, and busy
                raise self._in_use() from None
            else:
                raise self._in_use()

    def _bind(self) -> socket.socket:
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mode = self._mode if self._group is None else self._mode & 0o700
        before = os.umask(0o777 & ~mode)
        is_there = False
        try:
            bound.bind(str(self.path))
            is_there = True
            if self._group is not None:  # wider than it was made only once it has its group; nobody listens yet
                self._give_to(self._group)
                self.path.chmod(self._mode)
        except OSError:
            bound.close()
            if is_there:
                self.path.unlink(missing_ok=True)
            raise
        finally:
            os.umask(before)
        bound.listen(BACKLOG)
        bound.setblocking(False)
        return bound

    def _give_to(self, group: int) -> None:
        """Where that is the process's own it has it: a hardened service may not even ask."""
        if os.lstat(self.path).st_gid != group:
            os.chown(self.path, -1, group, follow_symlinks=False)

    def _unlink_own(self) -> None:
        try:
            if os.lstat(self.path).st_ino == self._inode:
                self.path.unlink()
        except FileNotFoundError:
            return

    def _in_use(self) -> SocketInUse:
        return SocketInUse(
            f"llmgate: another llmgate answers on {self.path}; stop it, or name another with {self._option()}"
        )

    def _option(self) -> str:
        """The option that names another one: only the admin socket is private."""
        return "--admin-socket PATH" if self._private else "--listen unix:PATH"


def _explain(error: OSError, where: str) -> LlmgateError:
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in (errno.EACCES, errno.EPERM):
        return SocketNotAllowed(f"llmgate: cannot listen on {where}: {reason}; choose another place, or another user")
    if error.errno == errno.EADDRINUSE:
        return SocketInUse(
            f"llmgate: cannot listen on {where}: {reason}; stop who listens there, "
            "or choose another with --listen HOST:PORT"
        )
    return SocketNotAllowed(f"llmgate: cannot listen on {where}: {reason}")
