"""The admin socket is made safely: nobody else gets in for a moment, and nothing that is not ours is touched."""

import asyncio
import os
import signal
import socket
import stat
import threading
from pathlib import Path
from typing import Any, Self

import pytest
from adminsocket import Refusal, curl
from gateprocess import GateProcess
from hands import Hands, free_port
from rawclient import name_of

IN_USE, NOT_ALLOWED = os.EX_UNAVAILABLE, os.EX_NOPERM
ME = os.getuid()


def settings(**admin: Any) -> dict[str, Any]:
    upstream = {"url": "http://127.0.0.1:9", "models": ["m"], "max_concurrent": 1}
    return {"admin": admin, "upstreams": {"a": upstream}}


class Look(threading.Thread):
    """Looks at a socket and its folder again and again: every pair of modes that was ever there."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.seen: set[tuple[int, int]] = set()
        self._path = path
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.is_set():
            try:
                modes = self._path.lstat().st_mode, self._path.parent.lstat().st_mode
            except FileNotFoundError:
                continue
            self.seen.add((stat.S_IMODE(modes[0]), stat.S_IMODE(modes[1])))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()


async def test_f69_killed_and_started_again_it_is_private_from_the_first_moment(folder: Path) -> None:
    gate = GateProcess(folder, settings())
    before = os.umask(0)
    try:
        with Look(gate.socket) as look:
            gate.start()
            first = gate.pid
            gate.signal(signal.SIGKILL)
            await gate.wait_exit()
            assert gate.socket.is_socket(), "a stale one is left"
            gate.start()
            assert gate.pid != first
        assert look.seen == {(0o600, 0o700)}
    finally:
        os.umask(before)
    gate.stop()
    assert not gate.socket.exists()


async def test_f69_a_group_is_let_in_only_once_the_socket_is_its_own(folder: Path) -> None:
    group = os.getgroups()[-1] if os.getgroups() else os.getgid()
    gate = GateProcess(folder, settings(mode="0660", group=str(group)))
    with Look(gate.socket) as look:
        gate.start()
    assert look.seen <= {(0o600, 0o750), (0o660, 0o750)}
    for path, mode in ((gate.socket, 0o660), (gate.socket.parent, 0o750)):
        found = path.lstat()
        assert (stat.S_IMODE(found.st_mode), found.st_gid, found.st_uid) == (mode, group, ME)
    gate.stop()


async def race(folder: Path, rounds: int) -> None:
    """Two daemons on one socket and one port, started at once."""
    port = free_port()
    shared = folder / "run" / "admin.sock"
    both = []
    for name in ("one", "two"):
        (folder / name).mkdir()
        made = GateProcess(folder / name, {**settings(socket=str(shared)), "server": {"listen": [f"127.0.0.1:{port}"]}})
        made.socket = shared
        both.append(made)
    for _ in range(rounds):
        for gate in both:
            gate.mark_log()
            gate.spawn()
        async with asyncio.timeout(60):
            while all(gate.exit_status is None for gate in both):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        (loser,) = [gate for gate in both if gate.exit_status is not None]
        winner = both[1 - both.index(loser)]
        assert loser.exit_status == IN_USE
        (line,) = loser.new_log
        assert line.startswith(("llmgate: another llmgate answers on", "llmgate: cannot listen on"))
        await winner.wait(winner._is_up)
        assert winner.status()["pid"] == winner.pid, "its socket is there, and it answers"
        winner.stop()
        assert not shared.exists()


@pytest.mark.timeout(600)
async def test_f70_of_two_that_start_at_once_one_wins(folder: Path) -> None:
    await race(folder, 10)


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_f70_of_two_that_start_at_once_one_wins_again_and_again(folder: Path) -> None:
    await race(folder, 60)


async def test_f70_an_old_one_that_still_drains_keeps_its_socket(folder: Path) -> None:
    """The newcomer is refused while the old one answers, and the old one's end removes nobody else's socket."""
    (folder / "old").mkdir()
    (folder / "new").mkdir()
    async with Hands() as hands:
        busy = {"upstreams": {"a": {"url": hands.url, "models": ["m"], "max_concurrent": 1}}}
        old = GateProcess(folder / "old", busy)
        new = GateProcess(folder / "new", settings(socket=str(old.socket)))
        new.socket = old.socket
        old.start()
        running = await old.ask("m")
        turn = await hands.turn()
        await turn.begin()
        old.signal(signal.SIGTERM)
        await old.wait(lambda: old.status()["state"] == "stopping")
        new.spawn()
        assert await new.wait_exit() == IN_USE
        assert (old.status()["pid"], old.status()["state"]) == (old.pid, "stopping")
        await turn.end()
        assert name_of((await running.frames())[-1]) == "message_stop"
        assert await old.wait_exit() == 0
        assert not old.socket.exists()
    new.start()
    assert new.status()["pid"] == new.pid
    new.stop()


def make_regular(path: Path) -> None:
    path.write_text("precious")


def make_folder(path: Path) -> None:
    path.mkdir()
    (path / "precious").write_text("precious")


def make_symlink(path: Path) -> None:
    target = path.parent / "precious"
    target.write_text("precious")
    path.symlink_to(target)


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_somebody_elses(path: Path) -> None:
    """One that is listened on, by another program."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen(8)
    LISTENING.append(listening)


LISTENING: list[socket.socket] = []


def picture(folder: Path) -> list[tuple[str, int, int, float, bytes]]:
    """All that lies there, but for our lock."""
    found = []
    for path in sorted(folder.rglob("*")):
        it = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(it.st_mode) else b""
        if path.name != "admin.sock.lock":
            found.append((str(path), it.st_mode, it.st_ino, it.st_mtime, content))
    return found


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (make_regular, NOT_ALLOWED),
        (make_folder, NOT_ALLOWED),
        (make_symlink, NOT_ALLOWED),
        (make_pipe, NOT_ALLOWED),
        (make_somebody_elses, IN_USE),
    ],
)
async def test_f71_what_lies_in_its_place_is_refused_and_not_touched(folder: Path, make: Any, status: int) -> None:
    gate = GateProcess(folder, settings())
    gate.socket.parent.mkdir(mode=0o700)
    make(gate.socket)
    before = picture(gate.socket.parent)
    gate.spawn()
    assert await gate.wait_exit() == status
    assert picture(gate.socket.parent) == before
    (line,) = gate.log.splitlines()
    assert str(gate.socket) in line
    assert "--admin-socket PATH" in line, "it says what to do"
    for listening in LISTENING:
        listening.close()
    LISTENING.clear()


async def test_f71_a_folder_that_others_may_write_to_is_refused(folder: Path) -> None:
    gate = GateProcess(folder, settings())
    gate.socket.parent.mkdir()
    gate.socket.parent.chmod(0o777)
    gate.spawn()
    assert await gate.wait_exit() == NOT_ALLOWED
    assert list(gate.socket.parent.iterdir()) == []


async def test_a_group_that_does_not_exist_is_told(folder: Path) -> None:
    gate = GateProcess(folder, settings(mode="0660", group="no-such-group"))
    gate.spawn()
    assert await gate.wait_exit() == NOT_ALLOWED
    assert "there is no group 'no-such-group' here; name another in admin.group" in gate.log


# ---- who may act


async def test_who_may_only_look_is_told_so_and_changes_nothing(folder: Path) -> None:
    gate = GateProcess(folder, settings(read_only_uids=[ME]))
    with gate:
        assert (await curl(gate.socket, "GET", "/v1/status"))["may_act"] is False
        for method, path in (
            ("POST", "/v1/upstreams/a/pause"),
            ("PATCH", "/v1/upstreams/a"),
            ("DELETE", "/v1/requests/x"),
            ("POST", "/v1/reload"),
        ):
            with pytest.raises(Refusal, match=r"may look here, but not act: see admin\.read_only_uids") as caught:
                await curl(gate.socket, method, path, {"max_concurrent": 2})
            assert (caught.value.status, caught.value.code) == (403, "FORBIDDEN")
        view = (await curl(gate.socket, "GET", "/v1/upstreams/a"))["upstream"]
        assert (view["state"] != "paused", view["max_concurrent"]) == (True, 1)
