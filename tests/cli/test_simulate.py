"""`llmgate simulate`: a server of its own that behaves as told, counts, and ends on ctrl-c."""

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from llmgate.cli.simulate import describe
from llmgate.simulator import Behaviour


@contextmanager
def simulator(*options: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    line = [sys.executable, "-m", "llmgate", "simulate", "--port", "0", *options]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = re.search(r"http://\S+:\d+", process.stderr.readline())
            assert found is not None
            yield process, found[0]
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_answers_and_tells_at_the_end_what_it_saw(number: signal.Signals) -> None:
    options = ("--slots", "2", "--tokens", "3", "--model", "a", "--model", "b", "--json")
    with simulator(*options) as (process, url):
        body = {"model": "a", "messages": [], "stream": True}
        assert "message_stop" in httpx.post(f"{url}/v1/messages", json=body).text
        assert [model["id"] for model in httpx.get(f"{url}/v1/models").json()["data"]] == ["a", "b"]
        assert httpx.get(f"{url}/props").json()["total_slots"] == 2
        process.send_signal(number)
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert out.startswith('{"schema": 1, ')
    assert json.loads(out)["finished"] == 1


@pytest.mark.parametrize(
    ("kind", "known", "slots"),
    [("any", "auto", 2), ("llama-server", "llama-server", 2), ("ollama", "ollama", None), ("vllm", "vllm", None)],
)
def test_it_is_known_as_whom_it_is_told_to_be(run: Any, kind: str, known: str, slots: int | None) -> None:
    with simulator("--slots", "2", "--model", "qwen2.5:3b-instruct", "--kind", kind) as (_, url):
        told = json.loads(run("--json", "probe", url).out)
    assert (told["kind"], told["slots"], told["messages"]) == (known, slots, True)
    assert [model["name"] for model in told["models"]] == ["qwen2.5:3b-instruct"]


def test_it_fails_as_told() -> None:
    with simulator("--fail", "503:1", "--seed", "3") as (_, url):
        assert httpx.post(f"{url}/v1/messages", json={"messages": []}).status_code == 503


def test_a_port_in_use_is_69(run: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = run("simulate", "--port", taken.getsockname()[1])
    assert (result.status, result.out) == (69, "")
    assert result.err.startswith("llmgate: cannot listen on 127.0.0.1:")
    assert result.err.endswith(": Address already in use; stop who listens there, or choose another with --port N\n")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("option", ["--hold", "--prompt"])
def test_a_time_is_read_as_in_the_settings(run: Any, option: str) -> None:
    result = run("simulate", option, "soon")
    assert result.status == 2
    assert "250ms" in result.err


def test_it_says_what_it_will_do() -> None:
    assert describe(Behaviour(slots=1, hold=3)) == "1 slot, each request held for 3s"
    assert describe(Behaviour(slots=2, hold=0.25)) == "2 slots, each request held for 250ms"
