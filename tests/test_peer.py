"""The kernel's own timers on a connection."""

import socket

import pytest

from llmgate.peer import KEEPALIVE, watch_peer


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
@pytest.mark.parametrize(("seconds", "told"), [(None, 0), (70.0, 70_000), (0.5, 500)])
def test_a_peer_that_vanishes_is_noticed(family: int, seconds: float | None, told: int) -> None:
    with socket.socket(family) as connection:
        watch_peer(connection, user_timeout=seconds)
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        for name, value in KEEPALIVE:
            if hasattr(socket, name):
                assert connection.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) == value
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == told


def test_a_unix_socket_has_no_peer_to_lose() -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        watch_peer(connection, user_timeout=1)
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 0
