"""A stand-in daemon on a Unix socket, and a way to run the command line in this process."""

import http.server
import socketserver
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest

from llmgate.adminapi import Requests, RequestView, Status, UpstreamView, encode
from llmgate.cli.app import main


class Result(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs one command line; no daemon and no setting of this machine has a part in it."""
    for name in ("XDG_RUNTIME_DIR", "LLMGATE_CONFIG", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")

    def run_line(*arguments: object) -> Result:
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        code = left.value.code
        return Result(code if isinstance(code, int) else 0, out, err)

    return run_line


def upstream(name: str, **fields: Any) -> UpstreamView:
    return UpstreamView(**{"name": name, "state": "ok", "url": "http://127.0.0.1:8000", "max_concurrent": 1} | fields)


def request(key: str, **fields: Any) -> RequestView:
    known = {"upstream": "a", "state": "waiting", "order": 1, "model": "m", "api": "messages", "path": "/v1/messages"}
    return RequestView(**{"id": key, "stream": True} | known | fields)


def status_of(*upstreams: UpstreamView, **fields: Any) -> Status:
    known = {
        "version": "0.1.0",
        "pid": 1,
        "started_at": "2026-11-30T09:00:00Z",
        "uptime_ms": 65_000,
        "now_at": "2026-11-30T09:01:05Z",
        "now_ms": 100_000,
        "state": "running",
        "listen": ["127.0.0.1:8080"],
        "config": "/etc/llmgate/llmgate.toml",
        "socket": "/run/llmgate/admin.sock",
    }
    return Status(**known | {"upstreams": list(upstreams)} | fields)


class FakeDaemon:
    """Answers /v1/status and /v1/requests with what the test put here, and keeps the queries it was asked."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.status = status_of()
        self.requests: list[RequestView] = []
        self.answers: dict[str, bytes] = {}
        """By path; the rest is made of `status` and `requests`."""
        self.asked: list[str] = []

    def answer(self, target: str) -> bytes:
        self.asked.append(target)
        parts = urlsplit(target.rpartition(" ")[2])
        if parts.path in self.answers:
            return self.answers[parts.path]
        if parts.path == "/v1/status":
            return encode(self.status)
        query = {key: values[0] for key, values in parse_qs(parts.query).items() if values != ["all"]}
        found = [view for view in self.requests if all(getattr(view, key) == value for key, value in query.items())]
        return encode(Requests(now_ms=self.status.now_ms, requests=found))


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


@pytest.fixture
def daemon() -> Iterator[FakeDaemon]:
    with tempfile.TemporaryDirectory() as folder:
        fake = FakeDaemon(Path(folder) / "admin.sock")

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(fake.answer(self.path))

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                self._answer(fake.answer(f"{self.command} {self.path}"))

            do_PATCH = do_DELETE = do_POST  # noqa: N815  http.server's names

            def _answer(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def address_string(self) -> str:
                return "unix"

            def log_message(self, *_: object) -> None:
                """Not on the test's output."""

        with _Server(str(fake.socket), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.02,))
            thread.start()
            yield fake
            server.shutdown()
            thread.join()
