"""The command line as a whole: help, version, exit statuses, messages on the right stream."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from llmgate import __version__
from llmgate.cli.app import app, exit_status
from llmgate.errors import AdminError, DaemonNotRunning, SettingsError
from tests.cli.conftest import FakeDaemon

COMMANDS = (
    *("serve", "demo", "simulate", "status", "ps", "top", "try", "connect", "probe", "paths", "completion"),
    "config",
)


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_names_every_command(run: Any, option: str) -> None:
    result = run(option)
    assert result.status == 0
    assert all(f"\n  {command} " in result.out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(run: Any, command: str) -> None:
    result = run(command, "-h")
    assert (result.status, result.err) == (0, "")
    assert f"Usage: llmgate {command}" in result.out


@pytest.mark.parametrize("command", sorted({*typer.main.get_group(app).commands} - {"config"}))
def test_the_help_of_every_command_has_an_example(run: Any, command: str) -> None:
    lines = run(command, "-h").out.splitlines()
    assert any(line.strip() in ("Example:", "Examples:") for line in lines)
    assert max(map(len, lines)) <= 80


def test_the_list_of_commands_is_not_cut(run: Any) -> None:
    listed = run("-h").out.partition("\nCommands:\n")[2].splitlines()
    assert len(listed) >= len(COMMANDS)
    assert not [line for line in listed if line.endswith("...")]


def test_version(run: Any) -> None:
    assert run("--version").out == f"llmgate {__version__}\n"
    for line in (("--json", "--version"), ("--version", "--json")):
        assert json.loads(run(*line).out) == {"schema": 1, "version": __version__}


def test_verbose_tells_what_is_asked_of_whom(run: Any, daemon: Any) -> None:
    told = run("status", "-v", "--socket", daemon.socket)
    assert re.fullmatch(rf"llmgate: {daemon.socket}: GET /v1/status: 200 after \d+ ms, [\d,]+ bytes\n", told.err)
    assert told.out == run("status", "--socket", daemon.socket).out


@pytest.mark.parametrize(
    "line", [("nonsense",), ("status", "--nonsense"), ("ps", "--state", "odd"), ("simulate", "--fail", "odd")]
)
def test_a_wrong_line_is_a_usage_error(run: Any, line: tuple[str, ...]) -> None:
    result = run(*line)
    assert (result.status, result.out) == (2, "")
    assert "Usage: llmgate" in result.err


def llmgate(*arguments: object) -> "subprocess.CompletedProcess[str]":
    """A process of its own: httpcore leaves the socket of a refused connection to the garbage collector."""
    line = [sys.executable, "-m", "llmgate", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", ["status", "ps"])
def test_without_a_daemon_it_says_how_to_start_one(tmp_path: Path, command: str) -> None:
    done = llmgate(command, "--socket", tmp_path / "none.sock")
    assert (done.returncode, done.stdout) == (3, "")
    assert "  llmgate serve" in done.stderr
    assert str(tmp_path / "none.sock") in done.stderr


@pytest.mark.parametrize(
    ("error", "status"), [(DaemonNotRunning("x"), 3), (AdminError("x"), 1), (SettingsError("x"), 78)]
)
def test_exit_statuses(error: Any, status: int) -> None:
    assert exit_status(error) == status


def test_python_m_llmgate_is_the_command() -> None:
    done = llmgate("--version")
    assert (done.returncode, done.stdout) == (0, f"llmgate {__version__}\n")


@pytest.mark.parametrize("command", [("status", "--check"), ("ps",), ("top", "--once")])
@pytest.mark.parametrize("option", ["-q", "--quiet"])
def test_without_a_daemon_quiet_tells_by_the_exit_status_only(
    tmp_path: Path, command: tuple[str, ...], option: str
) -> None:
    done = llmgate(*command, option, "--socket", tmp_path / "none.sock")
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")


@pytest.mark.parametrize(
    "line", [("status",), ("status", "--json"), ("status", "--watch", "0.1"), ("ps",), ("--help",), ("config", "check")]
)
def test_a_reader_that_leaves_ends_it_in_silence(daemon: FakeDaemon, tmp_path: Path, line: tuple[str, ...]) -> None:
    file = tmp_path / "l.toml"
    file.write_text(f'[admin]\nsocket = "{daemon.socket}"\n[upstreams.a]\nurl = "http://h"\nmax_concurrent = 1\n')
    reading, writing = os.pipe()
    os.close(reading)
    whole = [sys.executable, "-m", "llmgate", "--config", str(file), *line]
    try:
        done = subprocess.run(whole, stdout=writing, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("simulate", "--slots", "x"), "'--slots': must be a whole number, 1 or more"),
        (("simulate", "--port", "70000"), "'--port': must be a whole number from 0 to 65535"),
        (("simulate", "--hold", "x"), "'--hold': must be a number of seconds, or text such as"),
        (("status", "--watch", "x"), "'--watch': must be a number, 0.1 or more, such as 2 or 0.5"),
        (("ps", "--state", "odd"), "'--state': must be waiting, running, draining or done"),
        (("serve", "--upstream", "foo"), "'--upstream': must be NAME=URL, such as reasoning=http://127.0.0.1:8000"),
        (("serve", "--listen", "8080"), '\'--listen\': must be "host:port", "[::1]:port", "unix:/path" or "fd:3"'),
    ],
)
def test_a_wrong_value_is_told_in_our_own_words(run: Any, line: tuple[str, ...], said: str) -> None:
    result = run(*line)
    assert (result.status, result.out) == (2, "")
    assert f"llmgate: invalid value for {said}" in result.err


@pytest.mark.parametrize("command", [*COMMANDS, "config check", "config show", "config import", "config init"])
def test_help_is_whole_and_plain(run: Any, command: str) -> None:
    said = run(*command.split(), "-h").out + run("config", "-h").out
    assert not re.search(r"\w\.\.\.$|\[\[|<[a-z|]+>|x>=", said, re.MULTILINE)


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_closed_standard_files_do_no_harm(closed: str) -> None:
    command = f'"{sys.executable}" -m llmgate --version {closed}'
    assert subprocess.run(["sh", "-c", command], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("option", ["--socket", "--config"])
def test_a_path_that_may_not_be_read_is_no_mistake_of_the_command_line(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    """Whoever uses it explains why, and what to do."""
    path = tmp_path / "there"
    path.touch()
    monkeypatch.setattr("os.access", lambda *_, **__: False)
    assert run("status", option, path).status != 2
