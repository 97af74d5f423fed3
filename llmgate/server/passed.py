"""Listening sockets that whoever started us passed on: systemd, as sd_listen_fds(3) says, or any parent, as fd:N.

Each of them is its maker's: ours is one more open file of the same socket. Closing it ends our listening and not the
socket, so that who connects while nobody serves waits for the next start; its path is never unlinked. All that systemd
passed serve, since who connects to one that nobody accepts from would wait for ever.

Take them before any file is opened, the log's too: until then no number can be one of ours. What is ours is known all
the same, since what a parent passes has come through exec, and is neither adopted nor closed here.
"""

import os
import socket
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from llmgate.config.checks import find_passed_problems, find_problems
from llmgate.config.listen import Listen, parse_listen
from llmgate.config.problems import Problem
from llmgate.config.settings import Settings
from llmgate.errors import SettingsError

ADMIN = "admin"
"""The FileDescriptorName= of the admin socket."""

_FIRST = 3
_VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


@dataclass(frozen=True)
class Passed:
    """One that may be used. `listen`: where it is bound; the path of an abstract Unix socket begins with "@"."""

    number: int
    bound: socket.socket
    listen: Listen

    def __str__(self) -> str:
        return f"fd:{self.number}"

    @property
    def address(self) -> str:
        """As the status shows it."""
        return str(self.listen) if self.listen.path else f"http://{self.listen}"


@dataclass(frozen=True)
class Given:
    """All that were passed. `replaces_listen`: the settings ask for none of them, so they serve in place of those."""

    clients: tuple[Passed, ...] = ()
    admin: Passed | None = None
    replaces_listen: bool = False

    @property
    def admin_path(self) -> Path | None:
        return Path(self.admin.listen.path) if self.admin is not None else None

    def entries(self, listen: Iterable[str]) -> Iterator[str | Passed]:
        """Where clients come in: what is to be bound, and what is there; in the order of `listen`, then the rest."""
        left = {str(passed): passed for passed in self.clients}
        for text in () if self.replaces_listen else listen:
            yield left.pop(text, text)
        yield from left.values()

    def find_problems(self, settings: Settings) -> list[Problem]:
        """What may not be, with these sockets too."""
        return [*find_problems(settings), *self.own_problems(settings)]

    def own_problems(self, settings: Settings) -> list[Problem]:
        """What may not be because of these sockets."""
        return find_passed_problems(settings, {str(passed): passed.listen for passed in self.clients})


NOTHING = Given()


def take(environ: MutableMapping[str, str], pid: int, settings: Settings) -> Given:
    """The sockets that were passed to the process `pid`. What says so is taken out of `environ`: it is not for our
    children. Raises SettingsError for what cannot be listened on, or must not be."""
    told = _told(environ, pid)
    for variable in _VARIABLES:
        environ.pop(variable, None)
    asked = [number for text in settings.server.listen if (number := parse_listen(text).fd) is not None]
    admins = [number for number, name in told.items() if name == ADMIN]
    clients = sorted({*told, *asked} - {*admins})
    if len(admins) > 1:
        raise SettingsError(f"llmgate: {len(admins)} sockets are named {ADMIN}: there is one admin socket")
    if set(asked) & set(admins):
        raise SettingsError(f"llmgate: server.listen has fd:{admins[0]}, which is the admin socket: leave it out")
    with ExitStack() as failed:
        adopted = {number: _adopt(number, told, failed) for number in (*clients, *admins)}
        given = Given(
            tuple(adopted[number] for number in clients),
            _check_admin(adopted[admins[0]], settings.admin.mode) if admins else None,
            replaces_listen=bool(clients) and not asked,
        )
        if problems := given.own_problems(settings):
            raise SettingsError("\n".join(f"llmgate: {problem}" for problem in problems))
        failed.pop_all()
    return given


def _told(environ: Mapping[str, str], pid: int) -> dict[int, str]:
    """Each number that systemd passed, with its name; "" of one without."""
    if environ.get("LISTEN_PID") != str(pid):
        return {}
    told = environ.get("LISTEN_FDS", "")
    if not (told.isascii() and told.isdecimal() and len(told) < 6):
        raise SettingsError("llmgate: LISTEN_PID is set for this process and LISTEN_FDS is no number: unset both")
    count = int(told)
    names = environ.get("LISTEN_FDNAMES", ":" * (count - 1)).split(":") if count else []
    if len(names) != count:
        raise SettingsError(f"llmgate: LISTEN_FDS says {count} and LISTEN_FDNAMES has {len(names)} names: unset one")
    return dict(enumerate(names, _FIRST))


def _adopt(number: int, told: Mapping[int, str], failed: ExitStack) -> Passed:
    """It becomes one that does not block, as an event loop needs, and that our children do not get."""
    name = f"fd:{number}"
    bound = _open(number)
    if bound is None:
        advice = "" if number in told else "; does who starts llmgate pass it, as llmgate.socket of systemd does?"
        raise SettingsError(f"llmgate: {name} is no socket that was passed to llmgate{advice}")
    failed.callback(bound.close)
    listen = _look_at(bound, name)
    bound.setblocking(False)
    bound.set_inheritable(False)
    return Passed(number, bound, listen)


def _open(number: int) -> socket.socket | None:
    """None: it is no socket, or this process opened it, since exec would have closed it."""
    try:
        return socket.socket(fileno=number) if os.get_inheritable(number) else None
    except OSError:
        return None


def _look_at(bound: socket.socket, name: str) -> Listen:
    if bound.type != socket.SOCK_STREAM or not bound.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        raise SettingsError(
            f"llmgate: {name} is no listening stream socket: use ListenStream= and Accept=no in its unit"
        )
    address = bound.getsockname()
    if bound.family == socket.AF_UNIX:
        return Listen(path=address if isinstance(address, str) else f"@{address[1:].decode(errors='replace')}")
    if bound.family in (socket.AF_INET, socket.AF_INET6):
        return Listen(host=address[0], port=address[1])
    raise SettingsError(f"llmgate: {name} is neither a TCP nor a Unix socket: clients of llmgate have no other")


def _check_admin(passed: Passed, mode: int) -> Passed:
    """Whoever may connect may act, so that its mode must let in no more than `mode` of the settings."""
    if not passed.listen.path.startswith("/"):
        raise SettingsError(f"llmgate: {passed}, the admin socket, is {passed.listen}: it must be a Unix socket's path")
    try:
        found = Path(passed.listen.path).stat().st_mode & 0o777
    except OSError as error:
        raise SettingsError(
            f"llmgate: {passed.listen.path}, the admin socket: {os.strerror(error.errno or 0)}"
        ) from None
    if found & 0o022 & ~mode:
        raise SettingsError(
            f"llmgate: the admin socket {passed.listen.path} has mode {found:04o}, so that others may act: "
            f"say SocketMode={mode:04o} in its unit, or change admin.mode"
        )
    return passed
