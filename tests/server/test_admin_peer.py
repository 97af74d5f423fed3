"""Who is at the other end: on Linux as the kernel says, elsewhere as it would say."""

import asyncio
import os
import pwd
import socket
import struct
from typing import Any

import pytest

from llmgate.server import admin_peer
from llmgate.server.admin_peer import Peer, peer_of, user_name

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

    monkeypatch.setattr(admin_peer, "_NAME_SECONDS", 0.01)
    monkeypatch.setattr(asyncio, "to_thread", hang)
    assert await Peer(0).name() == "uid 0"
