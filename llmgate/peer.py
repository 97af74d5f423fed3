"""Kernel timers on a TCP connection, so that a peer that vanished without a word is noticed."""

import socket

KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
"""Asks after 30 s of silence, then every 10 s; three times without an answer and the peer is gone."""


def watch_peer(connection: socket.socket, *, user_timeout: float | None = None) -> None:
    """`user_timeout`: seconds after which a peer that acknowledges nothing of what was sent is gone (RFC 5482).

    A connection has from its listening socket what that has when it comes.
    """
    if not is_tcp(connection):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE:
        if hasattr(socket, option):  # macOS has some of them only
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    set_user_timeout(connection, user_timeout)


def set_user_timeout(connection: socket.socket, seconds: float | None) -> None:
    """Seconds after which a peer that acknowledges nothing is gone; None = as the kernel does it."""
    if is_tcp(connection) and hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round((seconds or 0) * 1000))


def is_tcp(connection: socket.socket) -> bool:
    """Whether it goes through the network, or could: no Unix socket."""
    return connection.family in (socket.AF_INET, socket.AF_INET6)
