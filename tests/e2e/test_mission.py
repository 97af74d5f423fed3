"""The two runs that a first user makes, with real curl, against `llmgate demo`."""

import asyncio
import contextlib
import os
import pty
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from anthropic_check import faults_of, without_queue
from gateprocess import GateProcess
from hands import free_port

RUN = r"""
# Fill the slots first, with cap=2 configured against a stub that holds each request 3s.
seq 4 | xargs -P4 -I{} curl -s -o /dev/null -X POST localhost:8080/llm/v1/messages \
  -H 'content-type: application/json' \
  -d '{"model":"reasoning","max_tokens":16,"stream":true,"messages":[{"role":"user","content":"hi"}]}' &

sleep 1
curl -N -s localhost:8080/llm/v1/messages -H 'content-type: application/json' \
  -d '{"model":"reasoning","max_tokens":16,"stream":true,"messages":[{"role":"user","content":"hi"}]}' \
  | grep -m3 '^event:'
# expected: event: queue arrives within a second, before any event: message_start

curl -N -s localhost:8080/llm/v1/messages -H 'content-type: application/json' \
  -d '{"model":"qwen2.5:3b-instruct","max_tokens":16,"stream":true,"messages":[{"role":"user","content":"hi"}]}' \
  | head -1
# expected: event: message_start, no queue frame on an uncontended upstream
"""
_, BUSY, IDLE = RUN.split("\n\n")
BUSY_NAME = "reasoning"
BUSY_CURL = BUSY.partition("curl")[2].partition("|")[0]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateProcess]:
    """`llmgate demo` with its own traffic, as a person starts it."""
    assert shutil.which("curl"), "these tests need curl"
    command = f"--socket {{socket}} demo --listen 127.0.0.1:{free_port()}"
    gate = GateProcess(tmp_path_factory.mktemp("demo"), command=command.split())
    with gate:
        yield gate


def at(gate: GateProcess, script: str) -> str:
    return script.replace("localhost:8080", f"localhost:{gate.port}")


def test_the_two_runs_word_for_word(demo: GateProcess) -> None:
    """On a terminal, where grep holds no line back; beside it the same curl without grep, timed by itself.

    What a machine takes to start a program is no part of the time.
    """
    shell, terminal = start_on_terminal(at(demo, RUN))
    asyncio.run(demo.wait(lambda: demo.upstream(BUSY_NAME)["waiting"] >= 2))
    timed = " --write-out '%{stderr}%{time_starttransfer}'" + at(demo, BUSY_CURL)
    raw = subprocess.Popen(["sh", "-c", "exec curl" + timed], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert raw.stdout is not None
    assert raw.stdout.readline() == b"event: queue\n"
    rest, seconds = raw.communicate()
    stream = b"event: queue\n" + rest
    assert raw.returncode == 0
    assert float(seconds) < 1
    assert faults_of(without_queue(stream)) == []
    assert b"event: queue" not in stream[stream.index(b"event: message_start") :]

    lines = read_terminal(terminal)
    shell.wait()
    *busy, idle = lines
    assert idle == "event: message_start"
    assert len(busy) == 3
    assert busy[0] == "event: queue"
    assert "event: queue" not in busy[busy.count("event: queue") :]


def start_on_terminal(script: str) -> tuple[subprocess.Popen[bytes], int]:
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(["bash", "-c", script], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    return shell, ours


def read_terminal(terminal: int) -> list[str]:
    """The lines until nobody has the other side open any more."""
    read = b""
    with contextlib.suppress(OSError):  # EIO is how Linux tells that
        while piece := os.read(terminal, 65536):
            read += piece
    os.close(terminal)
    return read.decode().splitlines()


def test_an_uncontended_upstream_sends_message_start_first(demo: GateProcess) -> None:
    answer = subprocess.run(["bash", "-c", at(demo, IDLE)], capture_output=True, text=True)
    assert answer.stdout == "event: message_start\n"
    whole = subprocess.run(["bash", "-c", at(demo, IDLE).partition("|")[0].rstrip("\\\n ")], capture_output=True)
    assert faults_of(whole.stdout) == []
    assert b"event: queue" not in whole.stdout
