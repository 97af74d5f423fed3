"""A real llmgate in a process of its own: started with settings, watched through its admin socket and its log, stopped.

    gate = GateProcess(tmp_path, {"upstreams": {"a": {"url": puppet.url, "models": ["m"], "max_concurrent": 1}}})
    gate.start()
    client = await gate.ask("m")
    gate.stop()

Its clients' port is a free one. A traceback in its log fails the test when it is stopped.
"""

import asyncio
import contextlib
import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from puppet import LIVENESS_SECONDS
from rawclient import Client

ROOT = Path(__file__).resolve().parents[2]
MESSAGES = "/llm/v1/messages"
CHAT = "/llm/v1/chat/completions"

START_SECONDS = 60.0
"""A machine that does nothing else needs one; only a broken program comes near it."""


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
    ) -> None:
        """`settings` is the TOML file nested as in it; without any, `command` says all. {socket} in it is replaced.

        `files`: it may open no more than so many.
        """
        self.folder = folder
        self.socket = folder / "run" / "admin.sock"
        self.log_path = folder / "llmgate.log"
        self._command = [word.replace("{socket}", str(self.socket)) for word in command]
        self._environ = environ or {}
        self._prefix = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh"] if files is not None else []
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
            "log": {"format": "text"},
        }
        return {key: {**own.get(key, {}), **settings.get(key, {})} for key in {**own, **settings}}

    # ---- life

    def spawn(self) -> None:
        """Starts the process and does not wait for it."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith("LLMGATE_")}
        environ |= {"PYTHONPATH": str(ROOT), **self._environ}
        arguments = [*self._prefix, sys.executable, "-m", "llmgate", *self._command]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ, cwd=self.folder
            )

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
        """SIGTERM; it must end by itself, with status 0, and must not have logged an error."""
        self.signal()
        try:
            status = self._started().wait(LIVENESS_SECONDS)
        except subprocess.TimeoutExpired:
            self.end()
            raise AssertionError(f"llmgate did not stop:\n{self.log}") from None
        assert status == 0, self.log
        self.assert_no_traceback()

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
        return f"http://127.0.0.1:{self.port}"

    def get(self, target: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> tuple[int, Any]:
        """Status and JSON of a small request."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            connection.request(method, target, headers=dict(headers or {}))
            answer = connection.getresponse()
            body = answer.read()
            return answer.status, json.loads(body) if body else None

    async def ask(
        self,
        model: str,
        *,
        path: str = MESSAGES,
        stream: bool = True,
        headers: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> Client:
        """A client of its own that has sent one request."""
        client = await Client.connect(self.port)
        client.post(path, request_body(model, stream=stream, **fields), headers)
        return client


def allow_many_files() -> None:
    """As many open files as this user may have, for the daemon as well."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 20_000), most))


def request_body(model: str, *, stream: bool = True, **fields: Any) -> bytes:
    messages = [{"role": "user", "content": "hi"}]
    return json.dumps({"model": model, "max_tokens": 16, "stream": stream, "messages": messages} | fields).encode()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


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
