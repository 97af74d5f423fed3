"""Sockets that a parent passed: which are taken, which are refused, and what stays the parent's."""

import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from llmgate.config.settings import Settings
from llmgate.errors import SettingsError
from llmgate.server import passed
from llmgate.server.passed import NOTHING, Given, take

PID = 4711


def settings(listen: list[str] | None = None, mode: str = "0600", **server: Any) -> Settings:
    listened = {"listen": listen} if listen else {}
    return Settings.model_validate({"server": {**listened, **server}, "admin": {"mode": mode}})


def environ(count: int, names: str | None = None, pid: int = PID) -> dict[str, str]:
    named = {} if names is None else {"LISTEN_FDNAMES": names}
    return {"LISTEN_PID": str(pid), "LISTEN_FDS": str(count), **named}


class Row:
    """Files of this process in one row from number `first`, as systemd passes them from 3."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.count = 0

    def add(self, parent: socket.socket) -> int:
        """A file more of the parent's socket, which children would get."""
        number = self.first + self.count
        os.dup2(parent.fileno(), number)  # inheritable, as what came through exec
        self.count += 1
        return number


def close_all(given: Given) -> None:
    for one in (*given.clients, *([given.admin] if given.admin else [])):
        one.bound.close()


@pytest.fixture
def row(monkeypatch: pytest.MonkeyPatch) -> Iterator[Row]:
    made = Row(400)
    monkeypatch.setattr(passed, "_FIRST", made.first)
    yield made
    for number in range(made.first, made.first + made.count):
        try:
            os.close(number)
        except OSError:
            continue


Parent = Callable[..., socket.socket]


@pytest.fixture
def parent() -> Iterator[Parent]:
    made: list[socket.socket] = []

    def make(address: Any = ("127.0.0.1", 0), family: int = socket.AF_INET, *, listens: bool = True) -> socket.socket:
        one = socket.socket(family, socket.SOCK_STREAM)
        made.append(one)
        one.bind(address)
        if listens:
            one.listen()
        return one

    yield make
    for one in made:
        one.close()


def test_without_word_of_systemd_nothing_is_taken(row: Row, parent: Parent) -> None:
    row.add(parent())
    assert take({}, PID, settings()) == NOTHING
    assert take({"LISTEN_FDS": "1"}, PID, settings()) == NOTHING
    assert take(environ(0), PID, settings()) == NOTHING
    assert list(NOTHING.entries(["a", "b"])) == ["a", "b"]
    assert NOTHING.admin_path is None


def test_what_is_meant_for_another_process_is_left_alone_and_not_passed_on(row: Row, parent: Parent) -> None:
    number = row.add(parent())
    told = {**environ(1, "x", pid=PID + 1), "HOME": "/"}
    assert take(told, PID, settings()) == NOTHING
    assert told == {"HOME": "/"}
    assert os.get_inheritable(number)


def test_what_systemd_passed_serves_in_place_of_listen(row: Row, parent: Parent, tmp_path: Path) -> None:
    tcp, unix = parent(), parent(str(tmp_path / "s"), socket.AF_UNIX)
    numbers = [row.add(tcp), row.add(unix)]
    told = environ(2)
    given = take(told, PID, settings(["127.0.0.1:9", "unix:/x"]))
    assert told == {}
    assert given.replaces_listen
    assert list(given.entries(["127.0.0.1:9", "unix:/x"])) == list(given.clients)
    assert [one.number for one in given.clients] == numbers
    assert [one.address for one in given.clients] == [
        f"http://127.0.0.1:{tcp.getsockname()[1]}",
        f"unix:{tmp_path / 's'}",
    ]
    for one in given.clients:
        assert not one.bound.getblocking()
        assert not one.bound.get_inheritable()
    assert given.clients[0].bound.proto == socket.IPPROTO_TCP, "else asyncio leaves TCP_NODELAY off"
    close_all(given)
    with socket.create_connection(tcp.getsockname()):  # the parent's still listens
        assert stat.S_ISSOCK((tmp_path / "s").stat().st_mode)


def test_where_listen_names_one_both_serve_in_its_order_and_no_passed_one_is_forgotten(
    row: Row, parent: Parent
) -> None:
    first, second, third = (row.add(parent()) for _ in range(3))
    listen = [f"fd:{second}", "127.0.0.1:0"]
    given = take(environ(3, "::"), PID, settings(listen))
    assert not given.replaces_listen
    assert [str(entry) for entry in given.entries(listen)] == [*listen, f"fd:{first}", f"fd:{third}"]
    close_all(given)


def test_any_parent_may_pass_one_that_listen_names(row: Row, parent: Parent) -> None:
    number = row.add(parent())
    given = take({}, PID, settings([f"fd:{number}"]))
    assert [str(entry) for entry in given.entries([f"fd:{number}"])] == [f"fd:{number}"]
    close_all(given)


def test_one_of_them_may_be_the_admin_socket(row: Row, parent: Parent, tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    admin = parent(str(path), socket.AF_UNIX)
    path.chmod(0o600)
    row.add(admin)
    client = row.add(parent())
    given = take(environ(2, "admin:llmgate.socket"), PID, settings())
    assert given.admin_path == path
    assert [one.number for one in given.clients] == [client]
    close_all(given)


def test_the_admin_socket_alone_leaves_listen_in_force(row: Row, parent: Parent, tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    admin = parent(str(path), socket.AF_UNIX)
    path.chmod(0o660)
    row.add(admin)
    with pytest.raises(SettingsError, match=r"has mode 0660, so that others may act: say SocketMode=0600"):
        take(environ(1, "admin"), PID, settings())
    row.count = 0
    row.add(admin)
    given = take(environ(1, "admin"), PID, settings(mode="0660"))
    assert not given.replaces_listen
    assert list(given.entries(["127.0.0.1:0"])) == ["127.0.0.1:0"]
    close_all(given)


def test_there_is_one_admin_socket(row: Row, parent: Parent) -> None:
    numbers = [row.add(parent()), row.add(parent())]
    with pytest.raises(SettingsError, match="2 sockets are named admin"):
        take(environ(2, "admin:admin"), PID, settings())
    with pytest.raises(SettingsError, match=f"server.listen has fd:{numbers[0]}, which is the admin socket"):
        take(environ(2, "admin:x"), PID, settings([f"fd:{numbers[0]}"]))


@pytest.mark.parametrize(
    ("address", "family"), [(("127.0.0.1", 0), socket.AF_INET), ("\0llmgate-test-admin", socket.AF_UNIX)]
)
def test_the_admin_socket_must_have_a_path(row: Row, parent: Parent, address: Any, family: int) -> None:
    row.add(parent(address, family))
    with pytest.raises(SettingsError, match="it must be a Unix socket's path"):
        take(environ(1, "admin"), PID, settings())


def test_an_admin_socket_whose_path_is_gone(row: Row, parent: Parent, tmp_path: Path) -> None:
    row.add(parent(str(tmp_path / "a"), socket.AF_UNIX))
    (tmp_path / "a").unlink()
    with pytest.raises(SettingsError, match="/a, the admin socket: No such file"):
        take(environ(1, "admin"), PID, settings())


def test_an_abstract_socket_can_serve_clients(row: Row, parent: Parent) -> None:
    row.add(parent(f"\0llmgate-test-{os.getpid()}", socket.AF_UNIX))
    given = take(environ(1), PID, settings())
    assert given.clients[0].address == f"unix:@llmgate-test-{os.getpid()}"
    close_all(given)


@pytest.mark.parametrize("count", ["", "x", "-1", "１", "1000000"])
def test_a_count_that_is_none(count: str) -> None:
    with pytest.raises(SettingsError, match="LISTEN_FDS is no number"):
        take({"LISTEN_PID": str(PID), "LISTEN_FDS": count}, PID, settings())


@pytest.mark.parametrize("names", ["", "a:b", "a:b:c:d"])
def test_names_that_are_more_or_fewer(names: str) -> None:
    with pytest.raises(SettingsError, match="LISTEN_FDS says 3 and LISTEN_FDNAMES has"):
        take(environ(3, names), PID, settings())


def test_a_number_behind_which_nothing_is(row: Row) -> None:
    with pytest.raises(SettingsError, match=f"fd:{row.first} is no socket that was passed to llmgate$"):
        take(environ(1), PID, settings())
    with pytest.raises(SettingsError, match="fd:444 is no socket that was passed to llmgate; does who starts"):
        take({}, PID, settings(["fd:444"]))


def test_a_file_is_no_socket_and_stays_open(row: Row, tmp_path: Path) -> None:
    with (tmp_path / "f").open("w") as file:
        os.dup2(file.fileno(), row.first)
    row.count = 1
    with pytest.raises(SettingsError, match="is no socket that was passed"):
        take(environ(1), PID, settings())
    os.fstat(row.first)


@pytest.mark.parametrize("listens", [True, False])
def test_a_socket_of_our_own_is_no_passed_one_and_stays_open(parent: Parent, *, listens: bool) -> None:
    own = parent(listens=listens)
    with pytest.raises(SettingsError, match="is no socket that was passed to llmgate; does who"):
        take({}, PID, settings([f"fd:{own.fileno()}"]))
    assert own.getsockname()
    assert own.getblocking()


def test_a_socket_that_does_not_listen_is_refused(row: Row, parent: Parent) -> None:
    row.add(parent())
    number = row.add(parent(listens=False))
    with pytest.raises(SettingsError, match=f"fd:{number} is no listening stream socket: use ListenStream="):
        take(environ(2), PID, settings())


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_SEQPACKET])
def test_a_socket_of_another_kind_is_refused(row: Row, tmp_path: Path, kind: int) -> None:
    with socket.socket(socket.AF_UNIX, kind) as other:
        other.bind(str(tmp_path / "s"))
        if kind == socket.SOCK_SEQPACKET:
            other.listen()
        row.add(other)
    with pytest.raises(SettingsError, match="is no listening stream socket"):
        take(environ(1), PID, settings())


def test_a_socket_of_another_family_is_refused() -> None:
    class Vsock:
        family, type = 40, socket.SOCK_STREAM

        def getsockopt(self, *_: object) -> int:
            return 1

        def getsockname(self) -> tuple[int, int]:
            return 2, 8080

    with pytest.raises(SettingsError, match="fd:3 is neither a TCP nor a Unix socket"):
        passed._look_at(Vsock(), "fd:3")  # type: ignore[arg-type]


def test_one_beyond_loopback_needs_keys_or_leave(row: Row, parent: Parent) -> None:
    open_to_all = parent(("0.0.0.0", 0))
    number = row.add(open_to_all)
    port = open_to_all.getsockname()[1]
    with pytest.raises(
        SettingsError, match=rf"socket fd:{number} is 0\.0\.0\.0:{port}, which others than this machine"
    ):
        take(environ(1), PID, settings())
    row.count = 0
    row.add(open_to_all)
    given = take(environ(1), PID, settings(allow_open=True))
    assert given.find_problems(settings(allow_open=True)) == []
    assert [str(problem)[:12] for problem in given.find_problems(settings())] == ["socket fd:40"]
    assert len(given.find_problems(settings(["0.0.0.0:1"]))) == 2, "those of listen too"
    close_all(given)
