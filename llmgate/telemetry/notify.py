"""Tells systemd how the service is (sd_notify(3)): ready, reloading, stopping, and, from the event loop, alive.

Without $NOTIFY_SOCKET nobody is told anything.
"""

import contextlib
import os
import socket
import time
from collections.abc import Mapping


class Notifier:
    """Sends datagrams to the service manager that started this process."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog_seconds = _watchdog(environ) if address else None
        """How often it wants to hear that we live, half of what it allows; None: it does not."""

    def ready(self, status: str) -> None:
        """It may be used, or a reload is over; `status` is what `systemctl status` shows."""
        self._send(f"READY=1\nSTATUS={status}")

    def reloading(self) -> None:
        """For Type=notify-reload, which wants to know when that began."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        self._send("STOPPING=1\nSTATUS=stopping")

    def alive(self) -> None:
        """The event loop turns."""
        self._send("WATCHDOG=1")

    def _send(self, text: str) -> None:
        if not self._address:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.setblocking(False)
            to.sendto(text.encode(), self._address)


def _watchdog(environ: Mapping[str, str]) -> float | None:
    """sd_watchdog_enabled(3): the time is in microseconds, and meant for one process."""
    microseconds, process = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not microseconds.isdigit() or int(microseconds) == 0 or (process and process != str(os.getpid())):
        return None
    return int(microseconds) / 2_000_000
