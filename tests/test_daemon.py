"""The daemon in this process: how it starts, or refuses to; what it shows; the order in which it comes down."""

import asyncio
import dataclasses
import gc
import json
import logging
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest
from gateprocess import CHAT, MESSAGES, request_body
from hands import START, STOP, Hands, Turn, delta
from puppet import LIVENESS_SECONDS, Connection, Puppet
from pydantic import SecretStr
from rawclient import Client, data_of, name_of

from llmgate import daemon as daemon_module
from llmgate.adminapi import ConfigChange, FeedItem, Reloaded, Status
from llmgate.config.load import Loaded, load
from llmgate.daemon import Daemon, serve
from llmgate.errors import LlmgateError
from llmgate.server.sockets import UnixSocket, bind_listen
from llmgate.tui.model import Model
from tests.server.house import logged

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)


def loaded(
    folder: Path, url: str = "http://127.0.0.1:1", upstream: dict[str, Any] | None = None, **server: Any
) -> Loaded:
    one = {"url": url, "models": ["m"], "max_concurrent": 1, "release_timeout": 0, **(upstream or {})}
    overrides = {
        "server": {"listen": ["127.0.0.1:0"], **server},
        "admin": {"socket": str(folder / "run" / "admin.sock")},
        "log": {"format": "text"},
        "upstreams": {"a": one},
    }
    return load(None, environ={"KEY": "secret"}, overrides=overrides)


class Running:
    """A daemon that runs while the block does; `over` is its end."""

    def __init__(self, settings: Loaded) -> None:
        self.loaded = settings
        self.daemon: Daemon
        self.over: asyncio.Future[None]
        self.complaints: list[Any] = []

    async def __aenter__(self) -> Self:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self.complaints.append(context))
        self.daemon = Daemon(self.loaded)
        self.over = asyncio.ensure_future(self._run())
        while not (self.over.done() or (self.daemon._listen and await self.is_up())):  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        return self

    async def _run(self) -> None:
        with ExitStack() as stack:
            await self.daemon.run(stack)

    async def is_up(self) -> bool:
        try:
            await self.look("/healthz")
        except OSError:
            return False
        return True

    async def __aexit__(self, *_: object) -> None:
        self.daemon.stop()
        self.daemon.stop()
        await self.wait_over()
        await Client.close_all()
        assert self.complaints == []

    async def wait_over(self) -> None:
        async with asyncio.timeout(LIVENESS_SECONDS):
            await self.over

    @property
    def port(self) -> int:
        return int(self.daemon._listen[0].rpartition(":")[2])

    async def look(self, path: str) -> Any:
        """JSON of the admin socket."""
        reader, writer = await asyncio.open_unix_connection(str(self.daemon._socket))
        writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return json.loads(answer.partition(b"\r\n\r\n")[2])

    async def ask(self, *, path: str = MESSAGES, stream: bool = True) -> Client:
        client = await Client.connect(self.port)
        client.post(path, request_body("m", stream=stream))
        return client

    async def wait(self, condition: Callable[[Status], bool]) -> None:
        async with asyncio.timeout(LIVENESS_SECONDS):
            while not condition(self.daemon.status()):  # noqa: ASYNC110
                await asyncio.sleep(0.002)

    async def fill(self, hands: Hands) -> tuple[Client, Turn, Client, Client]:
        """One runs, and two wait: with a stream, without."""
        running = await self.ask()
        turn = await hands.turn()
        await turn.begin()
        await running.head()
        streaming = await self.ask()
        await self.wait(lambda status: status.upstreams[0].waiting == 1)
        silent = await self.ask(stream=False)
        await self.wait(lambda status: status.upstreams[0].waiting == 2)
        await streaming.frame()
        return running, turn, streaming, silent


@pytest.fixture
async def hands() -> AsyncIterator[Hands]:
    async with Hands() as server:
        yield server


@pytest.fixture(autouse=True)
def log_lines() -> Iterator[list[str]]:
    """From INFO up; `serve` puts its own handler in, which is taken out again."""
    root, own = logging.getLogger(), logging.getLogger("llmgate")
    before = root.handlers, root.level, own.level, logging.raiseExceptions
    with logged(logging.INFO) as lines:
        own.setLevel(logging.INFO)
        yield lines
    root.handlers, level, own_level, logging.raiseExceptions = before
    root.setLevel(level)
    own.setLevel(own_level)


# ---- coming down


async def test_told_to_stop_it_ends_in_order(tmp_path: Path, hands: Hands, log_lines: list[str]) -> None:
    """F76: nobody new, the waiting are dismissed, the running go on to their end; the admin socket answers."""
    async with Running(loaded(tmp_path, hands.url)) as running:
        client, turn, streaming, silent = await running.fill(hands)
        kept = await Client.connect(running.port)
        running.daemon.stop()
        assert name_of((await streaming.frames())[-1]) == "error"
        assert ((await silent.head()).status, (await silent.json())["error"]["type"]) == (503, "overloaded_error")
        assert (await running.look("/v1/status"))["state"] == "stopping"
        with pytest.raises(ConnectionRefusedError):
            await running.ask()
        kept.post(CHAT, request_body("m"))
        assert (await kept.head()).headers["llmgate-code"] == "REFUSED"
        assert not running.over.done()
        await turn.end()
        assert await client.body() == START + STOP
        await running.wait_over()
        assert not running.daemon._socket.exists()
    assert hands.untaken == 0
    assert log_lines[-1] == "stopped"
    assert [line for line in log_lines if line.startswith("stopping: 1 running get 300s")]


async def test_past_drain_timeout_the_running_are_cut(tmp_path: Path, hands: Hands, log_lines: list[str]) -> None:
    async with Running(loaded(tmp_path, hands.url, drain_timeout=0.02)) as running:
        client, turn, *_ = await running.fill(hands)
        running.daemon.stop()
        error = (await client.frames())[-1]
        assert "this request was cut (REFUSED)" in data_of(error)["error"]["message"]
        await turn.wait_closed()
        await running.wait_over()
    assert "drain_timeout is over: 1 requests are cut" in log_lines


async def test_told_twice_it_cuts_at_once(tmp_path: Path, hands: Hands, log_lines: list[str]) -> None:
    async with Running(loaded(tmp_path, hands.url)) as running:
        client, turn, *_ = await running.fill(hands)
        running.daemon.stop()
        await running.wait(lambda status: status.state == "stopping")
        assert not running.over.done()
        running.daemon.stop()
        assert name_of((await client.frames())[-1]) == "error"
        await turn.wait_closed()
        await running.wait_over()
    assert not [line for line in log_lines if "drain_timeout" in line]


async def test_a_client_that_does_not_take_its_error_is_not_waited_for(
    tmp_path: Path, hands: Hands, log_lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon_module, "CUT_SECONDS", 0.02)
    async with Running(loaded(tmp_path, hands.url)) as running:
        client = await Client.connect(running.port, receive_buffer=4096)
        client.post(MESSAGES, request_body("m"))
        turn = await hands.turn()
        await turn.begin()
        sending = asyncio.ensure_future(turn.say(*[delta("x" * 100) * 300] * 2000))
        (exchange,) = list(running.daemon._services.running)
        async with asyncio.timeout(LIVENESS_SECONDS):
            while not exchange._reply.blocked:  # type: ignore[attr-defined]  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        running.daemon.stop()
        running.daemon.stop()
        await running.wait_over()
        with pytest.raises(ConnectionError):
            await sending
    assert "1 clients did not take their error in time" in log_lines


@pytest.mark.parametrize("drain_timeout", [0, 300])
async def test_with_nobody_there_it_stops_at_once(
    tmp_path: Path, hands: Hands, log_lines: list[str], drain_timeout: float
) -> None:
    async with Running(loaded(tmp_path, hands.url, drain_timeout=drain_timeout)) as running:
        running.daemon.stop()
        await running.wait_over()
    told = [line.split()[0] for line in log_lines if line != "a draining"]
    assert told == ["listening", "stopping:", "stopped"]


async def test_watchers_see_it_stop_and_are_closed(tmp_path: Path, hands: Hands) -> None:
    async with Running(loaded(tmp_path, hands.url)) as running:
        _, turn, *_ = await running.fill(hands)
        reader, writer = await asyncio.open_unix_connection(str(running.daemon._socket))
        writer.write(b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert b'"state":"running"' in await reader.readuntil(b"\n\n\r\n")
        running.daemon.stop()
        assert b'"state":"stopping"' in await reader.readuntil(b'"stopping"')
        await turn.end()
        await reader.read()
        writer.close()
        await running.wait_over()


async def test_nothing_is_left_of_it(tmp_path: Path, hands: Hands) -> None:
    before, files = asyncio.all_tasks(), []
    for _ in range(3):
        async with Running(loaded(tmp_path, hands.url)) as running:
            client, turn, *_ = await running.fill(hands)
            running.daemon.stop()
            await turn.end()
            await client.body()
            await running.wait_over()
        assert running.daemon._services.upstreams["a"]._transport._links == set()  # type: ignore[attr-defined]
        await hands.wait_all_closed()
        files.append(len(os.listdir("/dev/fd")))
    assert files[1] == files[2]
    assert {task for task in asyncio.all_tasks() - before if "llmgate" in repr(task)} == set()


# ---- starting


@pytest.fixture
def taken(tmp_path: Path) -> Iterator[str]:
    with bind_listen("127.0.0.1:0") as bound:
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def test_a_port_in_use(tmp_path: Path, taken: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert serve(loaded(tmp_path, listen=[taken])) == os.EX_UNAVAILABLE
    assert f"llmgate: cannot listen on {taken}: Address already in use" in capsys.readouterr().err
    assert not (tmp_path / "run" / "admin.sock").exists()


def test_why_it_does_not_start_is_told_where_that_is_wanted_and_not_in_the_log(
    tmp_path: Path, taken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[tuple[str, int]] = []

    def refuse(error: LlmgateError, status: int) -> None:
        told.append((str(error), status))

    assert serve(loaded(tmp_path, listen=[taken]), refuse=refuse) == os.EX_UNAVAILABLE
    assert serve(loaded(tmp_path, listen=["127.0.0.1:0", "fd:999"]), refuse=refuse) == os.EX_CONFIG
    (tmp_path / "run").mkdir(mode=0o700, exist_ok=True)
    (tmp_path / "run" / "admin.sock").write_text("precious")
    assert serve(loaded(tmp_path), refuse=refuse) == os.EX_NOPERM
    assert [status for _, status in told] == [os.EX_UNAVAILABLE, os.EX_CONFIG, os.EX_NOPERM]
    assert told[0][0].startswith(f"llmgate: cannot listen on {taken}: Address already in use")
    assert "cannot listen" not in capsys.readouterr().err


def test_a_socket_in_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run" / "admin.sock"
    with UnixSocket(path, mode=0o600, private=True):
        assert serve(loaded(tmp_path)) == os.EX_UNAVAILABLE
        assert path.exists()
    assert f"llmgate: another llmgate answers on {path}" in capsys.readouterr().err


def test_a_file_where_the_socket_should_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run" / "admin.sock"
    path.parent.mkdir(mode=0o700)
    path.write_text("precious")
    assert serve(loaded(tmp_path)) == os.EX_NOPERM
    assert path.read_text() == "precious"
    assert "exists and is not a socket" in capsys.readouterr().err


def test_a_socket_that_nobody_passed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert serve(loaded(tmp_path, listen=["127.0.0.1:0", "fd:999"])) == os.EX_CONFIG
    assert "llmgate: fd:999 is no socket that was passed to llmgate; does who starts" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.fixture
def signals() -> Iterator[None]:
    """A daemon that has ended ignores them, and so would all that this process starts later."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal(tmp_path: Path, capsys: pytest.CaptureFixture[str], number: signal.Signals) -> None:
    settings = loaded(tmp_path)
    path = tmp_path / "run" / "admin.sock"
    settings = Loaded(settings.settings, settings.path, ("llmgate: a warning",), settings.api_keys)

    def send() -> None:
        deadline = time.monotonic() + LIVENESS_SECONDS
        while time.monotonic() < deadline:
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(str(path)) == 0:
                    probe.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
                    probe.recv(100)
                    break
            time.sleep(0.005)
        os.kill(os.getpid(), number)

    sender = threading.Thread(target=send)
    sender.start()
    assert serve(settings) == 0
    sender.join()
    told = capsys.readouterr().err
    assert "llmgate: a warning\n" in told
    assert "listening on http://127.0.0.1:" in told
    assert told.endswith("llmgate: stopped\n")


async def test_it_listens_on_every_kind_of_address(tmp_path: Path) -> None:
    unix = f"unix:{tmp_path}/clients.sock"
    addresses = ["127.0.0.1:0", unix]
    try:
        bind_listen("[::1]:0").close()
    except Exception:
        has_ipv6 = False
    else:
        has_ipv6 = True
        addresses.append("[::1]:0")
    async with Running(loaded(tmp_path, listen=addresses)) as running:
        listen = running.daemon.status().listen
        assert listen[0].startswith("http://127.0.0.1:")
        assert listen[1] == unix
        assert not has_ipv6 or listen[2].startswith("http://[::1]:")
        assert (tmp_path / "clients.sock").stat().st_mode & 0o777 == 0o660
        assert (tmp_path / "run" / "admin.sock").stat().st_mode & 0o777 == 0o600
        reader, writer = await asyncio.open_unix_connection(f"{tmp_path}/clients.sock")
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
        writer.close()
    assert not (tmp_path / "clients.sock").exists()


async def test_without_a_socket_of_its_own_it_takes_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon_module, "default_admin_socket", lambda *_: tmp_path / "default.sock")
    settings = load(None, environ={}, overrides={"upstreams": {"a": {"url": "http://x", "max_concurrent": 1}}})
    assert Daemon(settings).status().socket == str(tmp_path / "default.sock")


async def test_its_settings_file_is_told_so_that_it_can_be_found_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my.toml").write_text('[upstreams.a]\nurl = "http://x"\nmax_concurrent = 1\n')
    monkeypatch.chdir(tmp_path)
    assert Daemon(load(Path("my.toml"), environ={})).status().config == str(tmp_path / "my.toml")
    assert Daemon(loaded(tmp_path)).status().config == ""


# ---- looking


async def test_what_it_shows(tmp_path: Path, hands: Hands) -> None:
    async with Running(loaded(tmp_path, hands.url)) as running:
        client, turn, *waiters = await running.fill(hands)
        status = await running.look("/v1/status")
        assert (status["pid"], status["state"], status["config"]) == (os.getpid(), "running", "")
        assert status["socket"] == str(tmp_path / "run" / "admin.sock")
        assert status["listen"] == [f"http://127.0.0.1:{running.port}"]
        (upstream,) = status["upstreams"]
        assert (upstream["name"], upstream["url"], upstream["state"]) == ("a", hands.url, "full")
        assert (upstream["running"], upstream["waiting"]) == (1, 2)
        requests = (await running.look("/v1/requests"))["requests"]
        assert [request["state"] for request in requests] == ["waiting", "waiting", "running"]
        assert [request["stream"] for request in requests] == [True, False, True]
        assert upstream["oldest_arrived_ms"] == requests[0]["arrived_ms"]
        for waiter in waiters:
            waiter.fin()
        await running.wait(lambda status: status.upstreams[0].waiting == 0)
        await turn.end()
        await client.body()
        done = (await running.look("/v1/requests?state=all"))["requests"]
        assert done[0]["outcome"] == "completed"
        assert sorted(request["outcome"] for request in done) == ["abandoned", "abandoned", "completed"]
        assert (await running.look("/v1/status"))["upstreams"][0]["oldest_arrived_ms"] is None


async def test_auto_takes_the_servers_slots_and_its_models(tmp_path: Path) -> None:
    async def script(connection: Connection) -> None:
        while True:
            path = (await connection.read_request()).line.split()[1]
            body = b'{"total_slots":3}' if path == b"/props" else b'{"data":[{"id":"found"}]}'
            await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

    async with Puppet(script) as puppet:
        async with Running(loaded(tmp_path, puppet.url, {"max_concurrent": "auto", "models": []})) as running:
            await running.wait(lambda status: status.upstreams[0].max_concurrent == 3)
            services = running.daemon._services
            await running.wait(lambda _: [name for name, _ in services.routes.models()] == ["found"])
        await puppet.wait_all_closed()


# ---- from the settings


KEYS = [
    ("/v1/messages", {"api_key_env": "KEY"}, "Bearer secret", "secret"),
    ("/v1/chat/completions", {"api_key_env": "KEY"}, "Bearer secret", None),
    ("/v1/messages", {}, None, None),
    ("/v1/messages", {"api_key_env": "KEY", "forward_auth": True}, "Bearer client", None),
    ("/v1/messages", {"forward_auth": True}, "Bearer client", None),
    ("/v1/messages", {"headers": {"Authorization": "Basic x"}}, "Basic x", None),
]


@pytest.mark.parametrize(("path", "upstream", "bearer", "key"), KEYS)
async def test_keys_on_the_wire(
    tmp_path: Path, hands: Hands, path: str, upstream: dict[str, Any], bearer: str | None, key: str | None
) -> None:
    """The client's own key only where the settings say so, else the upstream's, as its surface wants it."""
    async with Running(loaded(tmp_path, hands.url, {"headers": {"X-Team": "b"}, **upstream})) as running:
        client = await Client.connect(running.port)
        client.post(path, request_body("m"), {"authorization": "Bearer client", "cookie": "a=b"})
        turn = await hands.turn()
        found = [turn.request.header(name) for name in (b"authorization", b"x-api-key", b"cookie")]
        assert found == [bearer and bearer.encode(), key and key.encode(), None]
        assert turn.request.header(b"x-team") == (None if "headers" in upstream else b"b")
        await turn.complete()
        assert (await client.head()).status == 200
        await client.body()


def test_a_key_is_not_shown(tmp_path: Path) -> None:
    settings = loaded(tmp_path, upstream={"api_key_env": "KEY"})
    assert settings.api_keys == {"a": SecretStr("secret")}
    assert "secret" not in repr(settings)


# ---- reading the settings again


def test_what_a_reload_changed_is_told_in_words() -> None:
    live, later = ConfigChange(key="a", reload="live"), ConfigChange(key="b", reload="restart")
    said = [daemon_module._in_words(Reloaded(changed=changed)) for changed in ([], [live], [live, live], [later])]
    assert said == [
        "reload: nothing changed",
        "reload: 1 setting changed",
        "reload: 2 settings changed",
        "reload: nothing changed; this needs a restart: b",
    ]


async def test_a_reload_reaches_what_the_daemon_keeps(tmp_path: Path, hands: Hands, log_lines: list[str]) -> None:
    async with Running(loaded(tmp_path, hands.url)) as running:
        daemon = running.daemon
        daemon._reloader._read = lambda: loaded(tmp_path, hands.url, client_stall_timeout=500)
        told = await daemon.reload()
        assert [change.key for change in told.changed] == ["server.client_stall_timeout"]
        assert daemon._serving is not None
        assert daemon._serving._protocol.user_timeout == 510
        assert daemon._services.settings.server.client_stall_timeout == 500
        assert b'llmgate_config_reloads_total{result="success"} 1.0' in daemon._metrics.render()[1]


async def test_watchers_hear_when_an_upstream_that_left_is_gone(
    tmp_path: Path, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llmgate.roster.LAST_WORD_SECONDS", 0.05)
    found = loaded(tmp_path, hands.url)
    one = found.settings.upstreams["a"]
    both = {"a": one, "b": one.model_copy(update={"models": ("n",), "url": "http://127.0.0.1:1"})}
    two = dataclasses.replace(found, settings=found.settings.model_copy(update={"upstreams": both}))
    async with Running(two) as running:
        running.daemon._reloader._read = lambda: found
        watcher = running.daemon._feed.watch(lambda: None)
        model = Model()
        assert (await running.daemon.reload()).changed
        assert [view.name for view in running.daemon.status().upstreams] == ["a", "b"], "still leaving"
        async with asyncio.timeout(LIVENESS_SECONDS):
            while [lane.upstream.name for lane in model.view(0.0).lanes] != ["a"]:
                model.apply(msgspec.json.decode((await watcher.wait_next())[1], type=FeedItem), 0.0)
        running.daemon._feed.leave(watcher)


def count_of_ours() -> Counter[str]:
    """Objects of llmgate's classes, after the collector."""
    gc.collect()
    kinds = (type(one) for one in gc.get_objects())
    return Counter(kind.__qualname__ for kind in kinds if kind.__module__.startswith("llmgate."))


async def test_reloads_leave_nothing_of_what_was_before(
    tmp_path: Path, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each one makes another server for the old upstream, and takes on or drops a new one."""
    monkeypatch.setattr("llmgate.roster.LAST_WORD_SECONDS", 0.0)
    async with Running(loaded(tmp_path, hands.url)) as running:

        def read_for(number: int) -> Loaded:
            found = loaded(tmp_path, hands.url, {"connect_timeout": 5 + number, "max_concurrent": 1 + number % 2})
            one = found.settings.upstreams["a"]
            both = {"a": one, "b": one.model_copy(update={"models": ("n",), "url": "http://127.0.0.1:1"})}
            return (
                found
                if number % 2
                else dataclasses.replace(found, settings=found.settings.model_copy(update={"upstreams": both}))
            )

        async def reload(number: int) -> None:
            running.daemon._reloader._read = lambda: read_for(number)
            assert (await running.daemon.reload()).changed
            client = await running.ask()
            await (await hands.turn()).complete()
            await client.frames()
            await Client.close_all()
            await running.wait(lambda status: len(status.upstreams) == 2 - number % 2)

        for number in range(6):
            await reload(number)
        before, tasks = count_of_ours(), len(asyncio.all_tasks())
        for number in range(6, 18):
            await reload(number)
        await running.wait(lambda _: not any((count_of_ours() - before)[name] > 2 for name in OF_A_RELOAD))
        await running.wait(lambda _: len(asyncio.all_tasks()) <= tasks + 2)


OF_A_RELOAD = (
    "Account",
    "Desk",
    "Endpoints",
    "Gate",
    "Link",
    "Loaded",
    "Origins",
    "Settings",
    "SlotWatch",
    "Upstream",
    "UpstreamSettings",
    "WireTransport",
    "_Server",
    "_Watched",
)
"""What there is once, or once for each server: twelve reloads would leave twelve."""


async def test_while_it_stops_its_settings_stay(tmp_path: Path, hands: Hands) -> None:
    async with Running(loaded(tmp_path, hands.url)) as running:
        _, turn, *_ = await running.fill(hands)
        running.daemon.stop()
        await running.wait(lambda status: status.state == "stopping")
        assert "is stopping" in (await running.daemon.reload()).error
        await turn.end()
        await running.wait_over()


async def test_where_the_settings_cannot_change_a_reload_changes_nothing(tmp_path: Path, hands: Hands) -> None:
    async with Running(loaded(tmp_path, hands.url)) as running:
        told = await running.daemon.reload()
        assert (told.changed, told.error) == ([], "")


async def test_a_reload_that_has_not_read_its_settings_when_the_stop_begins_changes_nothing(tmp_path: Path) -> None:
    """Nobody waits for a disk then: the admin socket answers who asked for it."""
    go = threading.Event()
    async with Hands() as hands, Running(loaded(tmp_path, hands.url)) as running:
        client = await running.ask()
        turn = await hands.turn()
        await turn.begin()
        await client.head()
        one = running.loaded.settings.upstreams["a"]
        other = one.model_copy(update={"models": ("n",)})
        both = running.loaded.settings.model_copy(update={"upstreams": {"a": one, "b": other}})

        def read() -> Loaded:
            go.wait(LIVENESS_SECONDS)
            return dataclasses.replace(running.loaded, settings=both)

        running.daemon._reloader._read = read
        reloading = asyncio.ensure_future(running.daemon.reload())
        await asyncio.sleep(0)
        running.daemon.stop()
        assert "is stopping" in (await reloading).error
        go.set()
        assert [view.name for view in running.daemon.status().upstreams] == ["a"]
        await turn.end()
        assert name_of((await client.frames())[-1]) == "message_stop"
