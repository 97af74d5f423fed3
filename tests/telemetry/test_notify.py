"""What the service manager is told, and that nobody is told anything where there is none."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmgate.telemetry.notify import Notifier


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as found:
        found.bind(str(tmp_path / "notify"))
        found.settimeout(10)
        yield found


def test_what_is_told(tmp_path: Path, manager: socket.socket) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")})
    notifier.ready("listening on x")
    notifier.reloading()
    notifier.stopping()
    notifier.alive()
    told = [manager.recv(999).decode() for _ in range(4)]
    assert told[0] == "READY=1\nSTATUS=listening on x"
    first, second = told[1].split("\n")
    assert first == "RELOADING=1"
    assert second.removeprefix("MONOTONIC_USEC=").isdigit()
    assert told[2:] == ["STOPPING=1\nSTATUS=stopping", "WATCHDOG=1"]


def test_an_abstract_socket() -> None:
    name = f"\0llmgate-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as found:
        found.bind(name)
        Notifier({"NOTIFY_SOCKET": "@" + name[1:]}).alive()
        assert found.recv(99) == b"WATCHDOG=1"


def test_without_a_manager_nothing_happens(tmp_path: Path) -> None:
    Notifier({}).ready("x")
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "nobody")}).ready("x")


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_is_fed_twice_as_often_as_it_asks(environ: dict[str, str], seconds: float | None) -> None:
    assert Notifier({"NOTIFY_SOCKET": "/x", **environ}).watchdog_seconds == seconds
    assert Notifier(environ).watchdog_seconds is None
