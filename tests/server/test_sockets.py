"""Sockets that we bind: one daemon wins, whoever is there is left alone, and nobody else ever gets in."""

import contextlib
import errno
import grp
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmgate.server import sockets
from llmgate.server.sockets import SocketInUse, SocketNotAllowed, UnixSocket, bind_listen

WORKER = """
import sys
from pathlib import Path
from llmgate.server.sockets import SocketInUse, UnixSocket

for line in sys.stdin:
    what, path = line.split()
    if what == "open":
        unix = UnixSocket(Path(path), mode=0o600, private=True)
        try:
            unix.open()
        except SocketInUse as error:
            print("lost", error, flush=True)
        else:
            print("won", flush=True)
    else:
        unix.close()
        print("closed", flush=True)
"""


class Daemon:
    """Another process that opens and closes sockets as it is told."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def tell(self, what: str, path: Path) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what} {path}\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self.process.wait()


@pytest.fixture
def path() -> Iterator[Path]:
    """Where a socket may lie, in a folder that is not made yet; short, as such paths must be."""
    folder = Path(tempfile.mkdtemp(prefix="llmgate-"))
    yield folder / "run" / "admin.sock"
    shutil.rmtree(folder)


@pytest.fixture
def daemons() -> Iterator[list[Daemon]]:
    started = [Daemon(), Daemon()]
    yield started
    for daemon in started:
        daemon.stop()


def private(path: Path, mode: int = 0o600) -> UnixSocket:
    return UnixSocket(path, mode=mode, private=True)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            return False
    return True


def leave_stale(path: Path) -> None:
    """What a daemon leaves that was killed."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


# ---- who may come in


@pytest.mark.parametrize("mode", [0o600, 0o660])
def test_the_socket_has_its_mode_from_the_first_moment(path: Path, mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    umask = os.umask

    def watched(mask: int) -> int:
        if path.exists():
            seen.append(mode_of(path))
        return umask(mask)

    before = umask(0o022)
    try:
        monkeypatch.setattr(os, "umask", watched)
        with private(path, mode):
            assert seen == [mode], "as bind made it, before anything else"
            assert mode_of(path) == mode
            assert mode_of(path.parent) == (0o750 if mode & 0o060 else 0o700)
            assert mode_of(Path(f"{path}.lock")) == 0o600
        monkeypatch.undo()
        assert umask(0o022) == 0o022, "the process's own mask is as it was"
    finally:
        umask(before)


def test_a_folder_in_which_others_write_is_refused(path: Path) -> None:
    path.parent.mkdir()
    path.parent.chmod(0o777)
    with pytest.raises(SocketNotAllowed, match="can be written by others"):
        private(path).open()
    assert list(path.parent.iterdir()) == []


def test_a_socket_for_clients_may_lie_in_any_folder(path: Path) -> None:
    with UnixSocket(path, mode=0o660, private=False) as unix:
        assert mode_of(path) == 0o660
        assert answers(path)
        assert not unix.bound.getblocking()


def test_it_listens_while_it_is_open(path: Path) -> None:
    unix = private(path)
    with pytest.raises(RuntimeError, match="not open"):
        _ = unix.bound
    with unix:
        assert answers(path)
    assert not path.exists()
    unix.close()
    with unix:
        assert answers(path), "it can be opened again"


# ---- two daemons


def test_of_two_at_once_one_wins(path: Path, daemons: list[Daemon]) -> None:
    """F70: 30 rounds, every other one over a stale socket; the winner's socket outlives the loser."""
    for number in range(30):
        if number % 2:
            leave_stale(path)
        for daemon in daemons[:: -1 if number % 4 < 2 else 1]:
            daemon.tell("open", path)
        told = [daemon.answer() for daemon in daemons]
        won = [answer == "won" for answer in told]
        assert sorted(won) == [False, True]
        winner, loser = daemons[won.index(True)], daemons[won.index(False)]
        message = f"llmgate: another llmgate answers on {path}; stop it, or name another with --admin-socket PATH"
        assert told[won.index(False)] == f"lost {message}"
        assert answers(path)
        loser.tell("close", path)
        assert loser.answer() == "closed"
        assert answers(path), "the loser took nothing with it"
        winner.tell("close", path)
        assert winner.answer() == "closed"
        assert not path.exists()


def test_a_killed_daemon_is_followed_by_the_next(path: Path, daemons: list[Daemon]) -> None:
    """F69."""
    daemons[0].tell("open", path)
    assert daemons[0].answer() == "won"
    with pytest.raises(SocketInUse):
        private(path).open()
    daemons[0].kill()
    assert path.exists()
    assert not answers(path)
    with private(path):
        assert answers(path)
        assert mode_of(path) == 0o600


def test_a_close_leaves_the_next_ones_socket_alone(path: Path) -> None:
    """Somebody moved ours away and put his own there."""
    unix = private(path)
    unix.open()
    path.rename(path.with_name("moved"))
    leave_stale(path)
    unix.close()
    assert path.exists()
    path.unlink()


def test_a_socket_that_is_gone_already_can_be_closed(path: Path) -> None:
    with private(path):
        path.unlink()
    assert list(path.parent.iterdir()) == [Path(f"{path}.lock")]


# ---- what is not ours


@pytest.mark.parametrize("what", ["file", "symlink", "dangling symlink", "directory", "fifo"])
def test_what_is_no_socket_is_left_alone(path: Path, what: str) -> None:
    """F71."""
    path.parent.mkdir(mode=0o700)
    target = path.with_name("target")
    if what == "file":
        path.write_text("precious")
    elif what == "directory":
        path.mkdir()
    elif what == "fifo":
        os.mkfifo(path)
    else:
        if what == "symlink":
            leave_stale(target)
        path.symlink_to(target)
    before = path.lstat()
    with pytest.raises(
        SocketNotAllowed, match="exists and is not a socket; move it away, or name another with --admin-socket PATH"
    ):
        private(path).open()
    assert path.lstat() == before
    assert what != "file" or path.read_text() == "precious"
    assert target.exists() == (what == "symlink")


def test_another_users_socket_is_left_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_stale(path)
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    with pytest.raises(SocketNotAllowed, match="belongs to another user; name another with --listen unix:PATH"):
        UnixSocket(path, mode=0o660, private=False).open()
    assert path.exists()


def test_a_strangers_socket_that_answers_is_left_alone(path: Path) -> None:
    """One that knows nothing of our lock file."""
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(str(path))
        stranger.listen(1)
        with pytest.raises(SocketInUse, match="stop it, or name another with --admin-socket PATH"):
            private(path).open()
        assert answers(path)


def test_a_stranger_that_is_too_busy_to_answer_is_left_alone(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    with contextlib.ExitStack() as stack:
        stranger = stack.enter_context(socket.socket(socket.AF_UNIX))
        stranger.bind(str(path))
        stranger.listen(0)
        for _ in range(4):
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.connect(str(path))
        with pytest.raises(SocketInUse, match="stop it, or name another with --admin-socket PATH"):
            private(path).open()
        assert path.exists()


def test_a_lock_that_is_a_symlink_is_not_followed(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    target = path.with_name("target")
    Path(f"{path}.lock").symlink_to(target)
    with pytest.raises(SocketNotAllowed, match="cannot listen on"):
        private(path).open()
    assert not target.exists()


def test_without_permission_it_says_what_to_do(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(SocketNotAllowed, match="Permission denied; choose another place, or another user"):
        private(path).open()


def test_a_path_that_is_too_long_leaves_no_lock_taken(path: Path) -> None:
    long = path.with_name("x" * 120)
    for _ in range(2):
        with pytest.raises(SocketNotAllowed, match="cannot listen on"):
            private(long).open()
    assert not long.exists()


# ---- TCP


@pytest.mark.parametrize(("address", "family"), [("127.0.0.1:0", socket.AF_INET), ("localhost:0", socket.AF_INET)])
def test_a_tcp_socket_listens(address: str, family: int) -> None:
    with bind_listen(address) as bound:
        assert bound.family == family
        assert not bound.getblocking()
        with socket.create_connection(bound.getsockname()[:2]):
            pass


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_ipv6_takes_no_ipv4() -> None:
    try:
        bound = bind_listen("[::]:0")
    except SocketNotAllowed:
        pytest.skip("no IPv6 here")
    with bound:
        assert bound.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == 1
        port = bound.getsockname()[1]
        with bind_listen(f"127.0.0.1:{port}"):
            pass


def test_a_port_in_use_says_what_to_do() -> None:
    with bind_listen("127.0.0.1:0") as first:
        address = f"127.0.0.1:{first.getsockname()[1]}"
        message = f"cannot listen on {address}: Address already in use; stop who listens there, "
        message += "or choose another with --listen HOST:PORT$"
        with pytest.raises(SocketInUse, match=message):
            bind_listen(address)


def test_a_port_of_the_system_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(sockets.socket.socket, "bind", denied)
    with pytest.raises(
        SocketNotAllowed, match=re.escape("cannot listen on 127.0.0.1:80: Permission denied; choose another")
    ):
        bind_listen("127.0.0.1:80")


def test_an_address_of_another_machine() -> None:
    with pytest.raises(
        SocketNotAllowed, match=re.escape("cannot listen on 192.0.2.1:0: Cannot assign requested address")
    ):
        bind_listen("192.0.2.1:0")


def test_a_name_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(sockets.socket, "getaddrinfo", unknown)
    with pytest.raises(
        SocketNotAllowed, match=re.escape("cannot listen on nowhere.invalid:80: Name or service not known")
    ):
        bind_listen("nowhere.invalid:80")


@pytest.mark.parametrize("address", ["unix:/tmp/x.sock", "fd:3"])
def test_what_is_no_tcp_address_is_not_bound(address: str) -> None:
    with pytest.raises(SocketNotAllowed, match="is no TCP address"):
        bind_listen(address)


# ---- a group


def a_group() -> int:
    """One that is not the process's own, and that it may give a file to."""
    others = [os.getgid() + 1] if os.getuid() == 0 else [group for group in os.getgroups() if group != os.getgid()]
    if not others:
        pytest.skip("this user is in one group only")
    return others[0]


def test_socket_and_folder_belong_to_the_group(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody of the group the process had could have come in before: it was made for the owner alone."""
    seen: list[int] = []
    chown = os.chown

    def watched(place: Path, uid: int, gid: int, **more: bool) -> None:
        if place == path:
            seen.append(mode_of(path))
            assert not answers(path), "nobody listens yet"
        chown(place, uid, gid, **more)

    monkeypatch.setattr(os, "chown", watched)
    with UnixSocket(path, mode=0o660, private=True, group=str(a_group())):
        assert seen == [0o600]
        assert (mode_of(path), path.lstat().st_gid) == (0o660, a_group())
        assert (mode_of(path.parent), path.parent.lstat().st_gid) == (0o750, a_group())
        assert answers(path)


def test_where_the_group_is_the_process_s_own_nothing_is_changed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The units of systemd take the right to change owners away."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "no")

    path.parent.mkdir(mode=0o750)
    monkeypatch.setattr(os, "chown", refuse)
    with UnixSocket(path, mode=0o660, private=True, group=str(os.getgid())):
        assert (mode_of(path), path.lstat().st_gid) == (0o660, os.getgid())


def test_groups_by_number_and_by_name() -> None:
    assert sockets.find_group("42") == 42
    assert sockets.find_group(grp.getgrgid(0).gr_name) == 0
    for name in ("no-such-group", "9" * 40, "-1", ""):
        with pytest.raises(SocketNotAllowed, match=re.escape(f"there is no group {name!r} here")):
            sockets.find_group(name)


def test_an_unknown_group_makes_nothing(path: Path) -> None:
    with pytest.raises(SocketNotAllowed, match="there is no group"):
        UnixSocket(path, mode=0o660, private=True, group="no-such-group").open()
    assert not path.parent.exists()


def test_a_group_that_is_not_allowed_leaves_no_socket(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chown = os.chown

    def refuse(place: Path, uid: int, gid: int, **more: bool) -> None:
        if place == path:
            raise PermissionError(errno.EPERM, "no")
        chown(place, uid, gid, **more)

    monkeypatch.setattr(os, "chown", refuse)
    with pytest.raises(SocketNotAllowed, match="Operation not permitted"):
        UnixSocket(path, mode=0o660, private=True, group=str(a_group())).open()
    assert not path.exists()
