"""Who is at the other end: on Linux as the kernel says, elsewhere as it would say."""

import asyncio
import os
import pwd
import socket
import struct
import time
from typing import Any

import pytest

from llmgate.server import admin_peer
from llmgate.server.admin_peer import Names, Peer, peer_of, user_name

ME = os.getuid()


def test_the_peer_of_a_unix_socket_is_this_process() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert peer_of(ours.fileno()) == Peer(ME)
        assert ours.fileno() >= 0, "it is not closed by being looked at"
        ours.send(b"x")


def test_one_on_tcp_is_unknown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert peer_of(client.fileno()) == Peer(None)


def test_elsewhere_it_is_asked_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """struct xucred of macOS: version, uid, number of groups, groups."""
    asked: list[tuple[Any, ...]] = []

    class Connection:
        def getsockopt(self, *what: Any) -> bytes:
            asked.append(what)
            return struct.pack("IIh16I", 0, 501, 1, 20, *[0] * 15)

    monkeypatch.delattr(socket, "SO_PEERCRED", raising=False)
    assert admin_peer._ask_uid(Connection()) == 501  # type: ignore[arg-type]
    assert asked == [(0, 1, 76)]


def test_one_that_the_kernel_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: socket.socket) -> int:
        raise OSError

    monkeypatch.setattr(admin_peer, "_ask_uid", refuse)
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert peer_of(ours.fileno()) == Peer(None)


async def test_its_name() -> None:
    assert await Peer(0).name() == f"uid 0 ({pwd.getpwuid(0).pw_name})"
    assert await Peer(2_000_000_001).name() == "uid 2000000001"
    assert await Peer(None).name() == "an unknown user"


def test_a_user_without_a_name() -> None:
    assert user_name(2_000_000_001) == ""


async def test_a_slow_directory_of_users_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    never = asyncio.Event()

    async def hang(*_: object) -> str:
        await never.wait()
        return ""

    monkeypatch.setattr(admin_peer, "_names", Names())
    monkeypatch.setattr(admin_peer, "_NAME_SECONDS", 0.01)
    monkeypatch.setattr(asyncio, "to_thread", hang)
    assert await Peer(0).name() == "uid 0"


async def test_a_script_that_acts_thousands_of_times_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And again after a minute: it may have another name."""
    asked: list[int] = []
    now = [1000.0]

    def look_up(uid: int) -> str:
        asked.append(uid)
        return "alice"

    monkeypatch.setattr(admin_peer, "_names", Names())
    monkeypatch.setattr(admin_peer, "user_name", look_up)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    for uid in (5, 5, 6, 5):
        assert await Peer(uid).name() == f"uid {uid} (alice)"
    assert asked == [5, 6]
    now[0] += 61
    assert await Peer(5).name() == "uid 5 (alice)"
    assert asked == [5, 6, 5]


def test_as_many_users_as_there_are_do_not_pile_up() -> None:
    names = Names()
    for uid in range(10_000):
        names.keep(uid, "")
        assert names.get(uid) == ""
    assert len(names._known) <= 64
