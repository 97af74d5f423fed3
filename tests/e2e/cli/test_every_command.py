"""Every command of the typer tree on a real daemon, as text and as JSON, and what each says where something is wrong.

A command that is added has to be entered here: the tables are held against the tree.
"""

import asyncio
import contextlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from gateprocess import GateProcess
from hands import Hands

from llmgate.cli.app import app
from llmgate.cli.completion import words_of
from tests.e2e.cli.conftest import Result, Run

WORKING = {
    "status": "status one",
    "ps": "ps --all",
    "top": "top --once",
    "events": "events --no-follow --all",
    "inspect": "inspect {id}",
    "cancel": "cancel {id}",
    "move": "move {id} --front",
    "pause": "pause three",
    "resume": "resume three",
    "drain": "drain three",
    "set": "set three max_concurrent=3",
    "wait": "wait --ready",
    "doctor": "doctor",
    "metrics": "metrics",
    "try": "try two",
    "connect": "connect codex",
    "probe": "probe {server}",
    "paths": "paths",
    "completion": "completion fish",
    "serve": "--config {settings} serve --check",
    "config init": "config init {folder}/{n}.toml",
    "config check": "config check {settings}",
    "config show": "config show {settings} --origin",
    "config schema": "config schema",
    "config import": "config import --from ollama {variables}",
}
"""A line that works, for each."""

SILENT_AS_TEXT = {"wait"}
"""Their work is to end."""

ELSEWHERE = {
    "demo": "tests/cli/test_demo.py",
    "simulate": "tests/cli/test_simulate.py",
    "reload": "tests/e2e/cli/test_operate.py",
}
"""They need a daemon or a process of their own, and have it there."""

ASKING = {
    "status": 1,
    "ps": 1,
    "top --once": 1,
    "events": 1,
    "inspect x": 1,
    "cancel x": 1,
    "move x --front": 1,
    "pause x": 1,
    "resume x": 1,
    "drain x": 1,
    "drain x --wait": 1,
    "set x max_queued=1": 1,
    "reload": 1,
    "metrics": 1,
    "try": 1,
    "connect curl": 1,
}
"""What asks the daemon, and its exit status where the daemon gives no answer that can be used."""

NEVER_ASKING = {
    *("serve", "demo", "simulate", "probe", "paths", "completion"),
    *("config init", "config check", "config show", "config schema", "config import"),
}
TOLERANT = {"wait": "it waits on", "doctor": "it is what it looks for"}
"""They ask, and have tests of their own for what happens then."""


def tree() -> set[str]:
    words = words_of(typer.main.get_command(app))
    return {" ".join(path) for path, found in words.items() if path and not found.commands}


def test_every_command_is_here() -> None:
    assert {*WORKING, *ELSEWHERE} == tree()
    assert {line.split()[0] for line in ASKING} | NEVER_ASKING | TOLERANT.keys() == tree()
    root = Path(__file__).parents[3]
    for name, file in ELSEWHERE.items():
        text = (root / file).read_text()
        assert f'"{name}"' in text, file
        assert '"--json"' in text or name == "demo", file


@pytest.fixture
async def some_wait(gate: GateProcess, hands: Hands) -> AsyncIterator[None]:
    """One request runs on `one` and two wait; they are served to their end, unless the test cancelled them."""
    clients = [await gate.ask("one") for _ in range(3)]
    turn = await hands.turn()
    await gate.wait_waiting("one", 2)
    yield
    serving = asyncio.ensure_future(serve_all(hands))
    await turn.complete()
    for client in clients:
        await client.frames()
    serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving


async def serve_all(hands: Hands) -> None:
    while True:
        await (await hands.turn()).complete()


class Lines:
    """Command lines with what they need: `{id}` is the last that waits."""

    def __init__(self, gate: GateProcess, hands: Hands, folder: Path) -> None:
        self._gate = gate
        self._hands = hands
        self._folder = folder
        self._made = 0

    def __call__(self, name: str) -> list[str]:
        self._made += 1
        variables, settings = self._folder / "ollama.env", self._folder / "some.toml"
        variables.write_text("OLLAMA_HOST=127.0.0.1:11434\nOLLAMA_NUM_PARALLEL=2\n")
        settings.write_text('[upstreams.a]\nurl = "http://127.0.0.1:8000"\nmax_concurrent = 1\n')
        known = {
            "id": self._gate.requests("waiting")[-1]["id"],
            "server": self._hands.url,
            "settings": settings,
            "folder": self._folder,
            "n": self._made,
            "variables": variables,
        }
        return WORKING[name].format(**known).split()


@pytest.mark.parametrize("name", WORKING)
async def test_each_works_as_text_and_as_json(
    gate: GateProcess, hands: Hands, run: Run, tmp_path: Path, some_wait: None, name: str
) -> None:
    lines = Lines(gate, hands, tmp_path)
    for options in ((), ("--json",)):
        task = asyncio.ensure_future(run(*lines(name), *options))
        if name == "try":
            await (await hands.turn()).complete()
        ended = await task
        assert ended.status == 0, ended
        assert "Traceback" not in ended.err
        if options:
            check_json(ended)
        else:
            assert ended.out or name in SILENT_AS_TEXT
            assert "\x1b" not in ended.out  # no colour where there is no terminal
    if name in ("pause", "drain"):
        await run("resume", "three")


def check_json(ended: Result) -> None:
    """Each line is an object that begins with its schema."""
    assert ended.out.splitlines()
    for line in ended.out.splitlines():
        assert next(iter(json.loads(line).items())) == ("schema", 1)


class Stand:
    """What answers on a socket: `answer` is what is sent once something was asked, None = nothing at all."""

    def __init__(self, answer: bytes | None) -> None:
        self._answer = answer

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            if self._answer is None:
                await reader.read()
            else:
                writer.write(self._answer)
                await writer.drain()
        writer.close()


def http(status: int, code: str, message: str) -> bytes:
    body = json.dumps({"error": {"code": code, "message": message}}).encode()
    return b"HTTP/1.1 %d X\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body)


WRONG = {
    "silent": (None, "NO_ANSWER", "does not answer: nothing was heard from it in time"),
    "another program": (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "FAILED", "does not speak as llmgate does"),
    "another server": (b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nhi\n\n", "FAILED", "does not speak as llmgate"),
    "an old daemon": (http(404, "NOT_FOUND", "no such path"), "NOT_FOUND", "is older than this llmgate"),
    "a refusal": (http(403, "FORBIDDEN", "you may look, not act"), "FORBIDDEN", "you may look, not act"),
}


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("wire", "watch"):
        monkeypatch.setattr(f"llmgate.adminclient.{module}.ANSWER_SECONDS", 0.3)


@pytest.mark.parametrize("wrong", WRONG)
async def test_each_says_what_is_wrong_with_the_daemon(run: Run, tmp_path: Path, patience: None, wrong: str) -> None:
    answer, code, said = WRONG[wrong]
    socket = tmp_path / "s"
    server = await asyncio.start_unix_server(Stand(answer), socket)
    try:
        for line, status in ASKING.items():
            if wrong == "another server" and line == "metrics":
                continue  # any text will do for it
            plain = await run("--socket", socket, *line.split())
            assert (plain.status, plain.out) == (status, ""), line
            assert plain.err.startswith("llmgate: "), line
            assert said in plain.err, line
            told = await run("--socket", socket, *line.split(), "--json")
            assert (told.status, told.out) == (status, ""), line
            assert error_of(told)["code"] == code, line
    finally:
        server.close()
        await server.wait_closed()


def error_of(ended: Result) -> Any:
    told = json.loads(ended.err)
    assert list(told) == ["schema", "error"]
    return told["error"]


@pytest.mark.parametrize("line", ASKING)
async def test_each_says_how_to_start_a_daemon(run: Run, tmp_path: Path, line: str) -> None:
    whole = ("--socket", tmp_path / "none.sock", *line.split())
    plain = await run(*whole)
    assert (plain.status, plain.out) == (3, "")
    assert plain.err.startswith(f"llmgate: no daemon answers on {tmp_path}/none.sock\n")
    assert f"llmgate --socket PATH {line.split()[0]}\n" in plain.err
    assert error_of(await run(*whole, "--json"))["code"] == "NOT_RUNNING"
    assert await run(*whole, "-q") == (3, "", "")


@pytest.mark.parametrize(
    "line",
    ["status {}", "ps --upstream {}", "events --upstream {}", "wait --upstream {}", "pause {}", "set {} max_queued=1"],
)
async def test_an_unknown_upstream_has_the_same_words_everywhere(run: Run, line: str) -> None:
    for name, meant in (("silnt", "did you mean silent? "), ("xyz", "")):
        refused = await run(*line.format(name).split())
        assert (refused.status, refused.out) == (1, "")
        assert re.fullmatch(
            rf"llmgate: there is no upstream '{name}'; {re.escape(meant)}there are: one, two, .*\n", refused.err
        )
        assert error_of(await run(*line.format(name).split(), "--json"))["code"] == "UNKNOWN_UPSTREAM"


@pytest.mark.parametrize("line", ["inspect {}", "cancel {}", "move {} --front"])
async def test_an_unknown_request_has_the_same_words_everywhere(run: Run, line: str) -> None:
    refused = await run(*line.format("nobody").split())
    assert (refused.status, refused.out) == (1, "")
    assert refused.err == (
        "llmgate: there is no request 'nobody', or it ended too long ago; llmgate ps --all lists what is known\n"
    )
    assert error_of(await run(*line.format("nobody").split(), "--json"))["code"] == "UNKNOWN_REQUEST"


BAD_VALUES = {
    "status --watch 0": "must be a number, 0.1 or more",
    "status --check --watch 2": "leave out --watch",
    "ps --state asleep": "must be waiting, running, draining or done",
    "top --once --theme pink": "must be default, dark, light or mono",
    "events --since soon": "must be a duration such as 10m, or a time such as ",
    "events -n many": "must be a whole number, 0 or more",
    "move x": "say where to, with --front",
    "drain x --wait --timeout soon": "must be a number of seconds, or text such as ",
    "set x max_queued=many": "max_queued must be a whole number, 0 (refuse at once when busy) or more, or none",
    "set x colour=1": "LIMIT one of max_concurrent, max_queued, queue_timeout",
    "wait --timeout soon": "must be a number of seconds, or text such as ",
    "try --base-url nonsense": "must be an http or https URL such as ",
    "connect nobody": "there is no client 'nobody'; there are: claude-code, ",
    "connect curl --base-url nonsense": "must be an http or https URL such as ",
    "probe ftp://x": "must be an http or https URL such as ",
    "completion tcsh": "must be bash, zsh or fish",
    "completion --names colours": "must be upstreams, requests or waiting",
    "serve --upstream x": "must be NAME=URL, such as ",
    "serve --listen nonsense": 'must be "host:port", ',
    "demo --listen 0.0.0.0:1": "must be a loopback address with a port, such as ",
    "simulate --slots 0": "must be a whole number, 1 or more",
    "simulate --port 99999": "must be a whole number from 0 to 65535",
    "simulate --fail often": "give refuse, break, or a status from 400 to 599",
    "config import --from x": "must be litellm, llama-swap or ollama",
}
"""A value that may not be, and what is said of those that may."""

NAMED_ONLY = {"inspect": "ID", "cancel": "ID", "pause": "UPSTREAM", "resume": "UPSTREAM"}
"""Their only value is a name, which the daemon knows or does not; without it they say what is missing."""

WITHOUT_VALUE = {"reload", "doctor", "metrics", "paths", "config schema"}
OF_FILES = {"config init", "config check", "config show"}
"""Any path may be one."""


def test_every_command_that_takes_a_value_is_given_a_bad_one() -> None:
    given = {name for name in tree() for line in BAD_VALUES if f"{line} ".startswith(f"{name} ")}
    assert tree() == given | NAMED_ONLY.keys() | WITHOUT_VALUE | OF_FILES


@pytest.mark.parametrize(
    ("line", "said"),
    [
        *BAD_VALUES.items(),
        *((name, f"missing argument '{what}'") for name, what in NAMED_ONLY.items()),
        *((f"{name} more", "got unexpected extra argument(s) (more)") for name in sorted(WITHOUT_VALUE)),
        *((f"{name} x more", "got unexpected extra argument(s) (more)") for name in sorted(OF_FILES)),
    ],
)
async def test_a_bad_value_is_told_with_those_that_may_be(run: Run, tmp_path: Path, line: str, said: str) -> None:
    whole = ("--socket", tmp_path / "none.sock", *line.split())
    plain = await run(*whole)
    assert (plain.status, plain.out) == (2, ""), plain
    assert said in plain.err.splitlines()[-1]
    assert plain.err.startswith("Usage: llmgate ")
    error = error_of(await run(*whole, "--json"))
    assert error["code"] == "USAGE"
    assert f"llmgate: {error['message']}" == plain.err.splitlines()[-1]


@pytest.mark.parametrize("line", ["events -n 1", "status --watch 60", "drain one --wait", "try two"])
async def test_ctrl_c_ends_what_waits_there_and_then(
    gate: GateProcess, hands: Hands, run: Run, some_wait: None, line: str
) -> None:
    """One signal is enough, whenever it comes: the system itself ends the command, and a shell tells that as 130."""
    command = [sys.executable, "-m", "llmgate", "--socket", str(gate.socket), *line.split()]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if line.startswith("try"):
        await hands.turn()
    elif line.startswith("drain"):
        await gate.wait(lambda: gate.upstream("one")["state"] == "draining")
    else:
        assert process.stdout is not None
        await process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, said = await asyncio.wait_for(process.communicate(), 60)
    told = [each for each in said.splitlines() if not each.startswith(b"llmgate: waiting: one is draining")]
    assert (process.returncode, told) == (-signal.SIGINT, [])
    if line.startswith("drain"):
        await run("resume", "one")
