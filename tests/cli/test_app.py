"""The command line as a whole: help, version, exit statuses, messages on the right stream."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from llmgate import __version__
from llmgate.cli.app import exit_status
from llmgate.errors import AdminError, DaemonNotRunning, SettingsError

COMMANDS = ("serve", "demo", "simulate", "status", "ps", "top", "config")


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


def test_version(run: Any) -> None:
    assert run("--version").out == f"llmgate {__version__}\n"


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
    assert "llmgate serve\n" in done.stderr
    assert str(tmp_path / "none.sock") in done.stderr


@pytest.mark.parametrize(
    ("error", "status"), [(DaemonNotRunning("x"), 3), (AdminError("x"), 1), (SettingsError("x"), 78)]
)
def test_exit_statuses(error: Any, status: int) -> None:
    assert exit_status(error) == status


def test_python_m_llmgate_is_the_command() -> None:
    done = llmgate("--version")
    assert (done.returncode, done.stdout) == (0, f"llmgate {__version__}\n")
