"""Kernel timers on a TCP connection, so that a peer that vanished without a word is noticed."""

import socket

KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
"""Asks after 30 s of silence, then every 10 s; three times without an answer and the peer is gone."""


def watch_peer(connection: socket.socket, *, user_timeout: float | None = None) -> None:
    """`user_timeout`: seconds after which a peer that acknowledges nothing of what was sent is gone (RFC 5482)."""
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = [*KEEPALIVE]
    if user_timeout is not None:
        options.append(("TCP_USER_TIMEOUT", round(user_timeout * 1000)))
    for option, value in options:
        if hasattr(socket, option):  # macOS has some of them only
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
