"""A daemon that asks for keys, before one upstream that the test answers."""

import socket
from collections.abc import AsyncIterator, Iterator

import pytest
from gateprocess import GateProcess
from hands import Hands
from keysfile import keys_file

LAPTOP = "laptop-key-0123456789"
TEAM = "team-key-0123456789"
SLOW = "slow-key-0123456789"
OFF = "off-key-0123456789"


@pytest.fixture(scope="session")
def keyed_daemon(tmp_path_factory: pytest.TempPathFactory, listening: socket.socket) -> Iterator[GateProcess]:
    folder = tmp_path_factory.mktemp("keyed")
    keys = keys_file(
        folder,
        laptop={"key": LAPTOP},
        team={"key": TEAM, "models": ["m"]},
        slow={"key": SLOW, "max_concurrent": 1},
        off={"key": OFF, "disabled": True},
    )
    upstream = {"url": f"http://127.0.0.1:{listening.getsockname()[1]}", "models": ["m", "other"], "max_concurrent": 1}
    settings = {
        "server": {"keys_file": keys, "cors": {"origins": ["https://chat.example.org"]}, "max_body": "1MiB"},
        "log": {"level": "debug", "format": "text"},
        "waiting": {"heartbeat": "60s"},
        "upstreams": {"up": {**upstream, "release_timeout": "5ms", "on_down": "fail", "forward_auth": True}},
    }
    with GateProcess(folder, settings) as gate:
        yield gate


@pytest.fixture
async def keyed(keyed_daemon: GateProcess, hands: Hands) -> AsyncIterator[GateProcess]:
    """Idle before and after."""
    await keyed_daemon.wait(lambda: keyed_daemon.is_idle() and keyed_daemon.has_found_its_servers())
    keyed_daemon.mark_log()
    yield keyed_daemon
    await keyed_daemon.wait(keyed_daemon.is_idle)
    keyed_daemon.assert_no_traceback()
