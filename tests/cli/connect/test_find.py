"""Where the gate is and how it is set: of the daemon, of the settings, or guessed."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import make_pem

from llmgate.adminapi import CertificateView
from llmgate.cli.connect.find import (
    DEFAULT_ROOT,
    Listed,
    ask_models,
    find,
    find_running,
    longest,
    root_of,
    under_its_name,
)
from llmgate.cli.connect.target import Target
from llmgate.cli.context import Context
from llmgate.errors import DaemonNotRunning, LlmgateError, SettingsError
from tests.cli.conftest import FakeDaemon, status_of, upstream


class FrontDoor:
    """Answers every GET with this, and keeps the keys that it was shown."""

    def __init__(self) -> None:
        self.port = 0
        self.status = 200
        self.body = json.dumps({"data": [{"id": "m1", "context_window": 8192}, {"id": "m2", "context_window": "x"}]})
        self.keys: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture
def front() -> Iterator[FrontDoor]:
    door = FrontDoor()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            door.keys.append(self.headers["authorization"])
            self.send_response(door.status)
            self.send_header("content-length", str(len(door.body)))
            self.end_headers()
            self.wfile.write(door.body.encode())

        def log_message(self, *_: object) -> None:
            """Not on the test's output."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        door.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield door
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("LLMGATE_CONFIG", "LLMGATE_API_KEY", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))


def running(daemon: FakeDaemon, front: FrontDoor, *timeouts: int | None) -> Context:
    upstreams = [upstream(f"u{number}", queue_timeout_ms=ms) for number, ms in enumerate(timeouts)]
    daemon.status = status_of(*upstreams, listen=["unix:/x", front.url], path_prefix=["/llm", ""])
    return Context(socket=daemon.socket)


def test_the_daemon_tells_all(daemon: FakeDaemon, front: FrontDoor) -> None:
    found = find(running(daemon, front, 5_000, 60_000), None, None)
    assert found.target == Target(f"{front.url}/llm", "m1", 60.0, context_window=8192)
    assert "the daemon that runs" in found.source


def test_one_upstream_without_a_limit_lets_wait_for_ever(daemon: FakeDaemon, front: FrontDoor) -> None:
    assert find(running(daemon, front, 5_000, None), None, None).target.queue_timeout is None


def test_options_win(daemon: FakeDaemon, front: FrontDoor) -> None:
    target = find(running(daemon, front, 1_000), None, "m2").target
    assert (target.model, target.context_window) == ("m2", None)
    assert find(running(daemon, front, 1_000), "http://far/x", "m").target.root == "http://far/x"


def test_a_daemon_that_is_named_must_run(tmp_path: Path) -> None:
    with pytest.raises(DaemonNotRunning):
        find(Context(socket=tmp_path / "none.sock"), None, None)


SETTINGS = """\
[server]
listen = ["0.0.0.0:9"]
allow_open = true
path_prefix = ["/x"]
[admin]
socket = "{socket}"
[upstreams.a]
url = "http://h"
max_concurrent = 1
models = ["r*", "real"]
queue_timeout = "2h"
"""


def test_without_a_daemon_the_settings_tell(tmp_path: Path) -> None:
    file = tmp_path / "l.toml"
    file.write_text(SETTINGS.format(socket=tmp_path / "none.sock"))
    found = find(Context(config=file), None, None)
    assert found.target == Target("http://127.0.0.1:9/x", "real", 7200.0)
    assert found.source == f"no daemon answers; from {file}"


def test_without_anything_it_is_a_guess(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llmgate.config.paths.SYSTEM_SETTINGS", tmp_path / "none.toml")
    monkeypatch.setattr("llmgate.cli.context.Context.find_socket", lambda _: tmp_path / "none.sock")
    found = find(Context(), None, None)
    assert found.target == Target(DEFAULT_ROOT)
    assert "a guess" in found.source


def test_settings_that_cannot_be_used_are_no_hindrance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "none" / "llmgate" / "llmgate.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[upstreams.a]\nurl = "http://h"\nmax_concurrent = 1\napi_key_env = "NOT_SET_ANYWHERE"\n')
    monkeypatch.setattr("llmgate.cli.context.Context.find_socket", lambda _: tmp_path / "none.sock")
    found = find(Context(), None, "m")
    assert found.target == Target(DEFAULT_ROOT, "m")
    assert f"the settings cannot be used ({file}:4: " in found.source
    with pytest.raises(SettingsError):
        find(Context(config=file), None, "m")


@pytest.mark.parametrize(
    ("listens", "prefixes", "root"),
    [
        (["127.0.0.1:8080"], ["/llm", ""], "http://127.0.0.1:8080/llm"),
        (["http://[::]:1"], [""], "http://[::1]:1"),
        (["unix:/x", "fd:3", "http://0.0.0.0:1"], [], "http://127.0.0.1:1"),
        (["https://0.0.0.0:1"], ["/llm"], "https://127.0.0.1:1/llm"),
    ],
)
def test_the_base_url_is_one_that_can_be_used(listens: list[str], prefixes: list[str], root: str) -> None:
    assert root_of(listens, prefixes) == root


def test_of_settings_with_a_certificate_it_is_https(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert root_of(["127.0.0.1:8443"], [""], secure=True) == "https://127.0.0.1:8443"
    file = tmp_path / "llmgate.toml"
    paths = make_pem().write(tmp_path)
    file.write_text("[server]\n" + "".join(f'{name} = "{path}"\n' for name, path in paths.items()))
    monkeypatch.setattr("llmgate.cli.context.Context.find_socket", lambda _: tmp_path / "none.sock")
    assert find(Context(config=file), None, "m").target.root == "https://127.0.0.1:8080/llm"


@pytest.mark.parametrize(
    ("root", "names", "called"),
    [
        ("https://127.0.0.1:8443/llm", ["127.0.0.1", "gate.lan"], "https://127.0.0.1:8443/llm"),
        ("https://127.0.0.1:8443/llm", ["10.0.0.1", "*.lan", "gate.lan", "b.lan"], "https://gate.lan:8443/llm"),
        ("https://[::1]:8443", ["gate.lan"], "https://gate.lan:8443"),
        ("https://[::1]:8443", ["::1", "gate.lan"], "https://[::1]:8443"),
        ("https://127.0.0.1/llm", ["gate.lan"], "https://gate.lan/llm"),
        ("https://127.0.0.1:8443/llm", ["*.lan"], "https://127.0.0.1:8443/llm"),
        ("http://127.0.0.1:8080/llm", [], "http://127.0.0.1:8080/llm"),
    ],
)
def test_clients_get_a_name_that_the_certificate_is_for(root: str, names: list[str], called: str) -> None:
    assert under_its_name(root, names) == called


def test_the_daemon_tells_the_name_and_is_asked_at_its_address(daemon: FakeDaemon) -> None:
    names = CertificateView(fingerprint="00", names=["gate.lan"])
    daemon.status = status_of(upstream("a"), listen=["https://127.0.0.1:1"], certificate=names)
    context = Context(socket=daemon.socket)
    assert find(context, None, "m").target.root.startswith("https://gate.lan:1")
    target = find_running(context, None, "m")
    assert (target.root, target.fingerprint) == ("https://127.0.0.1:1", "00")


def test_a_gate_on_a_unix_socket_only_must_be_told_how_it_is_reached() -> None:
    with pytest.raises(LlmgateError, match="--base-url"):
        root_of(["unix:/x"], [""])


def test_the_longest_wait_counts() -> None:
    assert (longest([]), longest([3.0, None]), longest([3.0, 9.0])) == (None, None, 9.0)


@pytest.mark.parametrize("body", ["[]", "{", '{"data": 3}', '{"data": [3]}', "{}"])
def test_a_front_door_that_lists_nothing_is_no_error(front: FrontDoor, body: str) -> None:
    front.body = body
    assert ask_models(front.url, None) == Listed()
    assert ask_models("http://127.0.0.1:1", None) == Listed()


def test_that_a_key_is_asked_for_is_seen(front: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not ask_models(front.url, None).key_needed
    front.status = 401
    assert ask_models(front.url, None).key_needed
    monkeypatch.setenv("LLMGATE_API_KEY", "k")
    assert ask_models(front.url, None).key_needed
    assert front.keys == [None, None, "Bearer k"]


def test_a_trial_needs_a_daemon_and_a_model(daemon: FakeDaemon, front: FrontDoor, tmp_path: Path) -> None:
    context = running(daemon, front, None)
    assert find_running(context, None, None) == Target(f"{front.url}/llm", "m1")
    assert find_running(context, None, "m2").model == "m2"
    assert find_running(Context(socket=tmp_path / "none.sock"), "http://far", "m") == Target("http://far", "m")
    with pytest.raises(DaemonNotRunning):
        find_running(Context(socket=tmp_path / "none.sock"), None, "m")


def test_a_trial_without_any_model_is_told_to_name_one(daemon: FakeDaemon, front: FrontDoor) -> None:
    front.body = '{"data": []}'
    with pytest.raises(LlmgateError, match="llmgate try MODEL"):
        find_running(running(daemon, front, None), None, None)
