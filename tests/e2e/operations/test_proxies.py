"""nginx and Caddy as etc/nginx.conf and etc/Caddyfile set them up, in front of a real llmgate: streams pass piece by
piece, and a client that leaves is gone for llmgate too."""

import contextlib
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gateprocess import MESSAGES, ROOT, START_SECONDS, GateProcess
from hands import Hands, free_port
from rawclient import Client, positions_of

pytestmark = pytest.mark.slow

ETC = ROOT / "etc"
NAME = "llm.example.org"


def program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def replaced(text: str, *changes: tuple[str, str]) -> str:
    """With nothing changed that is not there just once."""
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def nginx(folder: Path, port: int, gate: str) -> list[str]:
    site = replaced(
        (ETC / "nginx.conf").read_text(), ("    listen 80;", f"    listen {port};"), ("127.0.0.1:8080", gate)
    )
    (folder / "site.conf").write_text(site)
    kept = [f"{kind}_temp_path {folder / kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")]
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log stderr; events {{}}\n"
        f"http {{ access_log off; {' '.join(kept)} include {folder}/site.conf; }}\n"
    )
    command = [program("nginx"), "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]
    subprocess.run([*command, "-t"], check=True, capture_output=True)
    return command


def caddy(folder: Path, port: int, gate: str) -> list[str]:
    found = program("caddy")
    written = ETC / "Caddyfile"
    formatted = subprocess.run([found, "fmt", str(written)], check=True, capture_output=True, text=True).stdout
    assert formatted == written.read_text()
    site = replaced(written.read_text(), (f"\n{NAME} {{", f"\nhttp://{NAME}:{port} {{"), ("127.0.0.1:8080", gate))
    file = folder / "Caddyfile"
    file.write_text(f"{{\n\tadmin off\n\tstorage file_system {folder}\n}}\n{site}")
    told = ["--config", str(file), "--adapter", "caddyfile"]
    subprocess.run([found, "validate", *told], check=True, capture_output=True)
    return [found, "run", *told]


Make = Callable[[Path, int, str], list[str]]


@contextlib.contextmanager
def running(command: list[str], folder: Path, port: int) -> Iterator[None]:
    """Once it takes connections."""
    environ = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
    with (folder / "proxy.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log, env=environ) as it:
        try:
            wait_listening(port, it, folder / "proxy.log")
            yield
        finally:
            it.terminate()
            it.wait(START_SECONDS)


def wait_listening(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        assert process.poll() is None, log.read_text()


class Behind:
    """A gate, and the proxy before it."""

    def __init__(self, gate: GateProcess, port: int) -> None:
        self.gate = gate
        self.port = port

    async def ask(self, path: str = MESSAGES, **fields: Any) -> Client:
        """A client that comes through the proxy."""
        own, self.gate.port = self.gate.port, self.port
        try:
            return await self.gate.ask("m", path=path, headers={"host": NAME}, **fields)
        finally:
            self.gate.port = own


@pytest.fixture(scope="module", params=[nginx, caddy], ids=["nginx", "caddy"])
def front(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, listening: socket.socket
) -> Iterator[Behind]:
    """One of each for all tests."""
    make: Make = request.param
    folder = tmp_path_factory.mktemp("front")
    own = folder / "proxy"
    own.mkdir()
    port, listen = free_port(), f"127.0.0.1:{free_port()}"
    command = make(own, port, listen)
    comment = (ETC / ("nginx.conf" if make is nginx else "Caddyfile")).read_text()
    assert f'allowed_hosts = ["{NAME}"], trusted_proxies = ["127.0.0.1/32"]' in comment
    server = {"listen": [listen], "allowed_hosts": [NAME], "trusted_proxies": ["127.0.0.1/32"]}
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    upstreams = {"a": {"url": url, "models": ["m"], "max_concurrent": 1, "release_timeout": "5ms"}}
    with GateProcess(folder, {"server": server, "upstreams": upstreams}) as gate, running(command, own, port):
        yield Behind(gate, port)


@pytest.fixture
async def behind(front: Behind, hands: Hands) -> AsyncIterator[Behind]:
    """Nothing waits or runs in it before and after."""
    await front.gate.wait(lambda: front.gate.is_idle() and front.gate.has_found_its_servers())
    yield front
    await Client.close_all()
    await front.gate.wait(front.gate.is_idle)


async def test_who_waits_hears_its_place_as_it_changes_and_who_leaves_is_gone(behind: Behind, hands: Hands) -> None:
    running_client = await behind.ask()
    turn = await hands.turn()
    await turn.begin()
    await running_client.frame()
    second = await behind.ask()
    assert positions_of([await second.frame()]) == [(1, 1)]
    third = await behind.ask()
    assert positions_of([await third.frame()]) == [(2, 2)]
    second.fin()
    assert positions_of([await third.frame()]) == [(1, 1)], "told at once, while nothing else comes"
    running_client.fin()
    await turn.wait_closed()
    following = await hands.turn()
    await following.complete()
    assert b"Hello" in await third.body()


async def test_an_answer_comes_piece_by_piece(behind: Behind, hands: Hands) -> None:
    client = await behind.ask("/api/chat")
    turn = await hands.turn()
    await turn.begin(b'{"message":{"role":"assistant","content":"one"},"done":false}\n')
    assert b"one" in await client.line(), "before the server has said anything more"
    (view,) = behind.gate.requests()
    assert view["peer"] == "127.0.0.1", "as the proxy tells it, since a connection of its own would have a port"
    await turn.end(b'{"message":{"role":"assistant","content":"two"},"done":true}\n')
    assert b"two" in await client.line()


async def test_one_that_wants_no_stream_waits_and_leaves(behind: Behind, hands: Hands) -> None:
    first = await behind.ask(stream=False)
    turn = await hands.turn()
    leaving = await behind.ask(stream=False)
    await behind.gate.wait_waiting("a", 1)
    leaving.fin()
    await behind.gate.wait_waiting("a", 0)
    await turn.complete()
    assert b"Hello" in await first.body()
