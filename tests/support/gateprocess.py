"""A real llmgate in a process of its own: started with settings, watched through its admin socket and its log, stopped.

    gate = GateProcess(tmp_path, {"upstreams": {"a": {"url": puppet.url, "models": ["m"], "max_concurrent": 1}}})
    gate.start()
    client = await gate.ask("m")
    gate.stop()

Its clients' port is a free one. A traceback in its log fails the test when it is stopped.

It has secrets about it, and so have the clients of `ask`; it logs at debug level. When it is over, a piece of one in
its log, or before its stop in anything that an operator can see, fails the test (F65).
"""

import asyncio
import contextlib
import http.client
import json
import os
import resource
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from canaries import EVERYWHERE, assert_no_leak
from puppet import LIVENESS_SECONDS
from rawclient import Client

ROOT = Path(__file__).resolve().parents[2]
LAUNCHER = Path(__file__).with_name("launcher.py")
MESSAGES = "/llm/v1/messages"
CHAT = "/llm/v1/chat/completions"

START_SECONDS = 60.0
"""A machine that does nothing else needs one; only a broken program comes near it."""

KEY_VARIABLE = "UPSTREAM_KEY_OF_TESTS"
SECRETS_OF_UPSTREAM = {
    "api_key_env": KEY_VARIABLE,
    "headers": {"x-secret": EVERYWHERE["header of an upstream"]},
}
"""Set for each upstream for which a test sets nothing of the kind."""
SECRETS_OF_CLIENT = {
    "authorization": f"Bearer {EVERYWHERE['authorization of a client']}",
    "cookie": f"session={EVERYWHERE['cookie']}",
}
PROMPT = f"hi, my password is {EVERYWHERE['prompt']}"
_OWN_KEYS = {"authorization", "x-api-key"}

SHOWN = ("/v1/status", "/v1/upstreams", "/v1/requests", "/v1/requests?state=done", "/v1/config", "/metrics")
"""With `_EVENTS`, all that an operator can ask for."""
_EVENTS = b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n"


class GateProcess:
    """Make it with a folder of its own. Only the process it started is ever signalled."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, Any] | None = None,
        *,
        command: Sequence[str] = ("serve",),
        environ: Mapping[str, str] | None = None,
        files: int | None = None,
        passed: Sequence[socket.socket] = (),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`settings` is the TOML file nested as in it; without any, `command` says all. {socket} in it is replaced.

        `files`: it may open no more than so many; `passed`: the sockets that it is given as systemd gives them.
        `tls`: how its clients shake hands, where it has a certificate.
        """
        self.folder = folder
        self.socket = folder / "run" / "admin.sock"
        self.log_path = folder / "llmgate.log"
        self._command = [word.replace("{socket}", str(self.socket)) for word in command]
        self._environ = environ or {}
        self._tls = tls
        self._prefix = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh"] if files is not None else []
        self._passed = [one.fileno() for one in passed]
        if passed:
            self._prefix = [sys.executable, "-I", "-S", str(LAUNCHER), ",".join(map(str, self._passed))]
        self._process: subprocess.Popen[bytes] | None = None
        self._marked = 0
        self.port = 0
        """Where its clients come in, once it has started."""
        if settings is not None:
            self.write_settings(settings)
            self._command = ["--config", str(self.settings_path), *self._command]

    @property
    def settings_path(self) -> Path:
        return self.folder / "llmgate.toml"

    def write_settings(self, settings: Mapping[str, Any]) -> None:
        """For a reload, or the next start."""
        self.settings_path.write_text(as_toml(self._complete(settings)))

    def reload(self) -> dict[str, Any]:
        """Has the settings read again; what it says of that."""
        with contextlib.closing(_UnixConnection(self.socket)) as connection:
            connection.request("POST", "/v1/reload")
            told: dict[str, Any] = json.loads(connection.getresponse().read())
        return told

    def _complete(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        own = {
            "server": {"listen": ["127.0.0.1:0"]},
            "admin": {"socket": str(self.socket)},
            "log": {"format": "text", "level": "debug"},
        }
        upstreams = {name: with_secrets(fields) for name, fields in settings.get("upstreams", {}).items()}
        settings = {**settings, **({"upstreams": upstreams} if upstreams else {})}
        return {key: {**own.get(key, {}), **settings.get(key, {})} for key in {**own, **settings}}

    # ---- life

    def spawn(self) -> None:
        """Starts the process and does not wait for it."""
        arguments = [*self._prefix, sys.executable, "-m", "llmgate", *self._command]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                cwd=self.folder,
                pass_fds=self._passed,
            )

    @property
    def environment(self) -> dict[str, str]:
        """That of its process."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith("LLMGATE_")}
        return {**environ, "PYTHONPATH": str(ROOT), KEY_VARIABLE: EVERYWHERE["key of an upstream"], **self._environ}

    def start(self) -> Self:
        """Starts it and waits until it takes requests."""
        self.spawn()
        deadline = time.monotonic() + START_SECONDS
        while not self._is_up():
            assert self.exit_status is None, f"llmgate ended with {self.exit_status}:\n{self.log}"
            assert time.monotonic() < deadline, f"llmgate does not answer:\n{self.log}"
            time.sleep(0.02)
        return self

    def _is_up(self) -> bool:
        try:
            status = self.status()
            self.port = int(status["listen"][0].rpartition(":")[2])
            return bool(status["pid"] == self.pid and self.get("/readyz")[0] == 200)
        except OSError:
            return False

    def signal(self, number: int = signal.SIGTERM) -> None:
        self._started().send_signal(number)

    def stop(self) -> None:
        """SIGTERM; it must end by itself, with status 0, and must not have logged an error or shown a secret."""
        assert_no_leak(self._all_views())
        self.signal()
        try:
            status = self._started().wait(LIVENESS_SECONDS)
        except subprocess.TimeoutExpired:
            self.end()
            raise AssertionError(f"llmgate did not stop:\n{self.log}") from None
        assert status == 0, self.log
        self.assert_no_traceback()
        self.assert_no_secret()

    def end(self) -> None:
        """SIGKILL, if it still runs."""
        process = self._started()
        if process.poll() is None:
            process.kill()
            process.wait()

    async def wait_exit(self) -> int:
        """The exit status; the loop goes on meanwhile."""
        async with asyncio.timeout(START_SECONDS):
            while (status := self._started().poll()) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        self.assert_no_secret()
        return status

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None or self.exit_status is not None:
            self.end()
        else:
            self.stop()

    def _started(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    def pid(self) -> int:
        return self._started().pid

    @property
    def exit_status(self) -> int | None:
        return self._started().poll()

    # ---- what it says

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def mark_log(self) -> None:
        """`new_log` begins here."""
        self._marked = self.log_path.stat().st_size if self.log_path.exists() else 0

    @property
    def new_log(self) -> list[str]:
        """The lines since `mark_log`, without their time of day."""
        lines = self.log_path.read_bytes()[self._marked :].decode().splitlines()
        return [line.partition(" ")[2] for line in lines]

    def assert_no_traceback(self) -> None:
        assert "Traceback" not in self.log, self.log

    def assert_no_secret(self) -> None:
        """In its log, whatever happened to it."""
        assert_no_leak(self.log)

    def _all_views(self) -> str:
        """Of a daemon whose admin socket answers."""
        told = []
        with contextlib.suppress(OSError), contextlib.closing(_UnixConnection(self.socket)) as connection:
            for target in SHOWN:
                connection.request("GET", target)
                told.append(connection.getresponse().read().decode())
            connection.sock.sendall(_EVENTS)
            told.append(_read_event(connection.sock))
        return "\n".join(told)

    def status(self) -> dict[str, Any]:
        return self._look("/v1/status")

    def upstream(self, name: str) -> dict[str, Any]:
        return next(view for view in self.status()["upstreams"] if view["name"] == name)

    def requests(self, state: str | None = None) -> list[dict[str, Any]]:
        """Live ones, or those in this state; "done" are the finished ones."""
        found: list[dict[str, Any]] = self._look("/v1/requests" + (f"?state={state}" if state else ""))["requests"]
        return found

    def _look(self, target: str) -> dict[str, Any]:
        with contextlib.closing(_UnixConnection(self.socket)) as connection:
            connection.request("GET", target)
            found: dict[str, Any] = json.loads(connection.getresponse().read())
        return found

    async def wait(self, condition: Callable[[], bool]) -> None:
        """Until it holds; it is looked at now and then."""
        try:
            async with asyncio.timeout(LIVENESS_SECONDS):
                while not condition():  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise AssertionError(f"did not come true; {self.status()['upstreams']}\n{self.requests()}") from None

    async def wait_waiting(self, upstream: str, count: int) -> None:
        await self.wait(lambda: self.upstream(upstream)["waiting"] == count)

    def has_found_its_servers(self) -> bool:
        """No upstream is down; one whose server answered nothing for a while has to be found again."""
        return all(view["state"] != "down" for view in self.status()["upstreams"])

    def is_idle(self) -> bool:
        return not any(view[key] for view in self.status()["upstreams"] for key in ("waiting", "running", "draining"))

    # ---- its clients' side

    @property
    def url(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self.port}"

    def get(self, target: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> tuple[int, Any]:
        """Status and JSON of a small request."""
        with contextlib.closing(self._connection()) as connection:
            connection.request(method, target, headers=dict(headers or {}))
            answer = connection.getresponse()
            body = answer.read()
            return answer.status, json.loads(body) if body else None

    def _connection(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=self._tls)

    async def ask(
        self,
        model: str,
        *,
        path: str = MESSAGES,
        stream: bool = True,
        headers: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> Client:
        """A client of its own that has sent one request, with secrets in it."""
        client = await Client.connect(self.port, tls=self._tls)
        client.post(with_query(path), request_body(model, stream=stream, **fields), with_credentials(headers or {}))
        return client


def allow_many_files() -> None:
    """As many open files as this user may have, for the daemon as well."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 20_000), most))


def with_secrets(upstream: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an upstream, with secrets unless a test says what it is sent."""
    if upstream.keys() & {"api_key_file", "forward_auth", *SECRETS_OF_UPSTREAM}:
        return dict(upstream)
    return {**SECRETS_OF_UPSTREAM, **upstream}


def with_credentials(headers: Mapping[str, str]) -> dict[str, str]:
    """A client that has a key of its own sends no second one: two are none."""
    named = {name.lower() for name in headers}
    left_out = _OWN_KEYS if named & _OWN_KEYS else set()
    return {name: value for name, value in SECRETS_OF_CLIENT.items() if name not in named | left_out} | dict(headers)


def with_query(path: str) -> str:
    return path if "?" in path else f"{path}?token={EVERYWHERE['query']}"


def request_body(model: str, *, stream: bool = True, **fields: Any) -> bytes:
    messages = [{"role": "user", "content": PROMPT}]
    return json.dumps({"model": model, "max_tokens": 16, "stream": stream, "messages": messages} | fields).encode()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def _read_event(connection: socket.socket) -> str:
    """The first one, which tells the whole state."""
    told = b""
    while b"\n\n" not in told and (piece := connection.recv(1 << 20)):
        told += piece
    return told.decode()


def as_toml(settings: Mapping[str, Any]) -> str:
    """Sections of plain values; a table in a table is a section, but for those in an upstream, which go on one line."""
    return "\n".join(_sections((), settings))


def _sections(path: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[str]:
    depth = 2 if path[:1] == ("upstreams",) else 1
    if len(path) < depth and (not path or path == ("upstreams",)):
        for key, value in table.items():
            yield from _sections((*path, key), value)
        return
    yield "[" + ".".join(json.dumps(part) for part in path) + "]"
    for key, value in table.items():
        yield f"{json.dumps(key)} = {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_value(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value)
