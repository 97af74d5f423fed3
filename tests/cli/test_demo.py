"""`llmgate demo`: its settings are its own, and what it tells to try is what the mission's runs are."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from hands import free_port

from llmgate.cli.demo import settings, to_try
from llmgate.simulator.stage import Stage
from tests.cli.conftest import FakeDaemon, status_of


def test_the_settings_are_the_mission_s(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMGATE_SERVER__LISTEN", '["127.0.0.1:1"]')
    with Stage(lambda: True, None) as stage:
        loaded = settings(stage, "127.0.0.1:8080", tmp_path / "admin.sock")
        urls = [stage.busy.url, stage.idle.url]
    assert loaded.path is None
    assert loaded.settings.server.listen == ("127.0.0.1:8080",)
    assert loaded.settings.admin.socket == tmp_path / "admin.sock"
    upstreams = loaded.settings.upstreams
    assert [upstream.url for upstream in upstreams.values()] == urls
    assert upstreams["reasoning"].max_concurrent == 2
    assert upstreams["ollama"].models == ("qwen2.5:3b-instruct",)
    assert loaded.settings.server.drain_timeout > stage.busy.behaviour.hold


def test_what_it_tells_to_try_can_be_typed() -> None:
    text = to_try("http://127.0.0.1:8081", "llmgate --socket /s")
    lines = [line for line in text.splitlines() if "curl" in line]
    assert len(lines) == 3
    for line in lines:
        words = shlex.split(line.rstrip(" &"))
        assert "http://127.0.0.1:8081/llm/v1/messages" in words
        assert "content-type: application/json" in words
        assert json.loads(words[-1])["stream"] is True
        assert json.loads(words[-1])["max_tokens"] == 4
    assert lines[1].startswith("  sleep 1; curl -N ")
    assert re.search(r"llmgate --socket /s top$", text, re.MULTILINE)


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:0", "unix:/tmp/s", "0.0.0.0:8080"])
def test_an_address_that_cannot_be_told_is_refused(run: Any, address: str) -> None:
    result = run("demo", "--listen", address)
    assert (result.status, result.out) == (2, "")


def test_it_speaks_only_when_its_own_daemon_answers(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    from llmgate.cli.demo import Announcement

    announcement = Announcement(daemon.socket, "http://127.0.0.1:8080", "llmgate")
    assert not announcement.made()
    assert capsys.readouterr().err == ""
    daemon.status = status_of(pid=os.getpid())
    assert announcement.made()
    assert "llmgate top" in capsys.readouterr().err


def test_as_json_it_says_where_it_stands(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    from llmgate.cli.demo import Announcement

    daemon.status = status_of(pid=os.getpid())
    assert Announcement(daemon.socket, "http://127.0.0.1:8080", "llmgate", as_json=True).made()
    told, said = capsys.readouterr()
    where = {"schema": 1, "url": "http://127.0.0.1:8080/llm", "socket": str(daemon.socket), "pid": os.getpid()}
    assert (json.loads(told), said) == (where, "")


def test_it_runs_as_a_person_runs_it_and_ends_on_ctrl_c(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    tmp_path.chmod(0o700)
    line = [sys.executable, "-m", "llmgate", "demo", "--listen", address, "--admin-socket", str(tmp_path / "s")]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert any("ctrl-c ends it" in said for said in process.stderr)
            body = {"model": "qwen2.5:3b-instruct", "max_tokens": 4, "stream": True, "messages": []}
            answer = httpx.post(f"http://{address}/llm/v1/messages", json=body, timeout=30).text
            assert answer.startswith("event: message_start\n")
            assert "message_stop" in answer
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0


def test_a_start_that_is_refused_is_an_error_in_json(run: Any, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        result = run("demo", "--json", "--listen", listen, "--admin-socket", tmp_path / "run" / "s")
    told = json.loads(result.err)
    assert (result.status, result.out, told["schema"], told["error"]["code"]) == (69, "", 1, "IN_USE")
