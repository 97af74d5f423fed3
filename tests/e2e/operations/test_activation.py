"""Sockets that are there before the daemon, and after it: as systemd passes them, and as any parent does."""

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from gateprocess import ROOT, START_SECONDS, GateProcess
from hands import Hands, free_port
from rawclient import Client, positions_of

HEALTH = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"


def settings(url: str = "http://127.0.0.1:1", **server: Any) -> dict[str, Any]:
    upstream = {"url": url, "models": ["m"], "max_concurrent": 1}
    return {"server": {"drain_timeout": "1s", **server}, "upstreams": {"a": upstream}}


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    """What systemd would have bound."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@pytest.fixture
def unix(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "clients.sock"))
        made.listen()
        yield made


def knock(address: Any, family: int = socket.AF_INET) -> socket.socket:
    """A client that has sent its request, whoever may answer."""
    client = socket.socket(family)
    client.connect(address)
    return ask_health(client)


def ask_health(client: socket.socket) -> socket.socket:
    client.settimeout(START_SECONDS)
    client.sendall(HEALTH)
    return client


def heard(client: socket.socket) -> bytes:
    with client:
        return client.recv(15)


async def test_who_came_before_the_daemon_or_after_it_is_answered_by_the_next(
    folder: Path, listening: socket.socket, unix: socket.socket
) -> None:
    address, path = listening.getsockname(), unix.getsockname()
    early = [knock(address), knock(path, socket.AF_UNIX)]
    passed = [listening, unix]
    with GateProcess(folder, settings(), passed=passed) as gate:
        assert [heard(client) for client in early] == [b"HTTP/1.1 200 OK"] * 2
        assert gate.status()["listen"] == [f"http://127.0.0.1:{address[1]}", f"unix:{path}"]
        assert "server.listen is not used: sockets were passed" in gate.log
    between = [knock(address), knock(path, socket.AF_UNIX)]
    with GateProcess(folder, settings(), passed=passed):
        assert [heard(client) for client in between] == [b"HTTP/1.1 200 OK"] * 2


async def test_listen_may_name_it_beside_others(folder: Path, listening: socket.socket) -> None:
    address = listening.getsockname()
    async with Hands() as hands:
        with GateProcess(folder, settings(hands.url, listen=["fd:3", "127.0.0.1:0"]), passed=[listening]) as gate:
            passed, own = gate.status()["listen"]
            assert passed == f"http://127.0.0.1:{address[1]}"
            assert own != passed
            assert heard(knock(("127.0.0.1", int(own.rpartition(":")[2])))) == b"HTTP/1.1 200 OK"
            await gate.ask("m")
            turn = await hands.turn()
            waiting = await gate.ask("m")
            assert positions_of([await waiting.frame()]) == [(1, 1)]
            await turn.complete()
            await (await hands.turn()).complete()
            assert b"Hello" in await waiting.body()
            await Client.close_all()


async def test_the_admin_socket_may_be_passed(folder: Path, listening: socket.socket) -> None:
    path = folder / "run" / "admin.sock"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as admin:
        admin.bind(str(path))
        admin.listen()
        path.chmod(0o600)
        names = {"LISTEN_FDNAMES": "admin:llmgate.socket"}
        with GateProcess(folder, settings(), passed=[admin, listening], environ=names) as gate:
            assert gate.status()["socket"] == str(path)
            assert await run(gate.environment, "--socket", str(path), "pause", "a") == 0
            assert gate.upstream("a")["state"] == "paused"
        assert path.is_socket()


async def run(environ: Mapping[str, str], *arguments: str) -> int:
    command = [sys.executable, "-m", "llmgate", *arguments]
    async with asyncio.timeout(START_SECONDS):
        process = await asyncio.create_subprocess_exec(*command, env=environ, stdout=subprocess.DEVNULL)
        return await process.wait()


async def test_one_that_others_reach_keeps_its_keys(folder: Path) -> None:
    keys = folder / "keys.toml"
    keys.write_text('[keys.laptop]\nkey = "a-long-key-of-the-tests"\n')
    keys.chmod(0o600)
    with (
        socket.create_server(("0.0.0.0", 0)) as reachable,
        GateProcess(folder, settings(keys_file=str(keys)), passed=[reachable]) as gate,
    ):
        assert gate.get("/v1/models")[0] == 401
        gate.write_settings(settings())
        assert "socket fd:3 is 0.0.0.0:" in gate.reload()["error"]
        assert gate.get("/v1/models")[0] == 401
        gate.write_settings(settings(keys_file=str(keys), listen=["127.0.0.1:9"]))
        (change,) = gate.reload()["changed"]
        assert (change["key"], change["reload"]) == ("server.listen", "restart")
        assert gate.get("/v1/models")[0] == 401


JOURNAL = """\
import pathlib
import llmgate.telemetry.journald as journald

journald.SOCKET = pathlib.Path({path!r})
journald.JournalHandler.__init__.__defaults__ = (journald.SOCKET,)
"""
"""Puts the journal of a test in the place of the system's."""


@pytest.mark.parametrize("number", range(3, 9))
def test_without_its_socket_it_says_so_in_the_journal(folder: Path, number: int) -> None:
    """The usual case of fd:3 under systemd: llmgate.socket is not enabled. No number is that of a file of our own."""
    path = folder / "journal"
    (folder / "sitecustomize.py").write_text(JOURNAL.format(path=str(path)))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal, (folder / "err").open("wb") as err:
        journal.bind(str(path))
        journal.setblocking(False)
        found = os.fstat(err.fileno())
        gate = GateProcess(folder, settings(listen=[f"fd:{number}"]))
        gate.write_settings({**settings(listen=[f"fd:{number}"]), "log": {"format": "auto"}})
        own = {"PYTHONPATH": f"{folder}:{ROOT}", "JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}
        command = [sys.executable, "-m", "llmgate", "--config", str(gate.settings_path), "serve"]
        done = subprocess.run(
            command, stderr=err, stdin=subprocess.DEVNULL, env={**gate.environment, **own}, check=False, timeout=100
        )
        assert done.returncode == os.EX_CONFIG
        told = journal.recv(1 << 16).decode()
    assert f"MESSAGE=llmgate: fd:{number} is no socket that was passed to llmgate; does who starts" in told


async def test_systemd_starts_it_for_the_first_who_comes(folder: Path) -> None:
    """The real systemd-socket-activate(1): it listens, and becomes the daemon when somebody connects."""
    activate = shutil.which("systemd-socket-activate")
    if activate is None:
        pytest.skip("systemd is not installed")
    port = free_port()
    gate = GateProcess(folder, settings())
    environ = [
        word for name in ("PYTHONPATH", "UPSTREAM_KEY_OF_TESTS") for word in ("-E", f"{name}={gate.environment[name]}")
    ]
    command = [activate, "-l", f"127.0.0.1:{port}", *environ, sys.executable, "-m", "llmgate"]
    process = start([*command, "--config", str(gate.settings_path), "serve"], folder / "log")
    try:
        client = await asyncio.to_thread(knock_until, ("127.0.0.1", port), process)
        assert await asyncio.to_thread(heard, client) == b"HTTP/1.1 200 OK"
        assert gate.status()["listen"] == [f"http://127.0.0.1:{port}"]
        assert gate.status()["pid"] == process.pid
    finally:
        process.terminate()
        assert await asyncio.to_thread(process.wait, START_SECONDS) == 0, (folder / "log").read_text()


def start(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as file:
        return subprocess.Popen(command, stdout=file, stderr=file)


def knock_until(address: tuple[str, int], process: subprocess.Popen[bytes]) -> socket.socket:
    """As soon as somebody listens."""
    while True:
        with contextlib.suppress(ConnectionRefusedError), contextlib.ExitStack() as failed:
            client = failed.enter_context(socket.socket())
            client.connect(address)
            failed.pop_all()
            return ask_health(client)
        assert process.poll() is None, "it ended"
        time.sleep(0.02)
