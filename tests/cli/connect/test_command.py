"""`llmgate connect` on the command line."""

import io
import json
import os
import pty
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from llmgate.cli.connect.clients import CLIENTS
from tests.cli.conftest import FakeDaemon, status_of, upstream


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "OPENCODE_CONFIG", "LLMGATE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def options(daemon: FakeDaemon) -> tuple[object, ...]:
    """Of a daemon with one upstream that lets wait for an hour; nobody answers at its front door."""
    daemon.status = status_of(upstream("a", queue_timeout_ms=3_600_000), listen=["127.0.0.1:1"], path_prefix=["/llm"])
    return ("--socket", daemon.socket)


def test_alone_it_lists_the_clients(run: Any) -> None:
    shown = run("connect")
    assert (shown.status, shown.err) == (0, "llmgate: the lines for one of them: llmgate connect CLIENT\n")
    assert [line.split()[0] for line in shown.out.splitlines()[1:]] == list(CLIENTS)
    assert run("connect", "-q") == (0, shown.out, "")
    told = json.loads(run("connect", "--json").out)
    assert (told["schema"], [each["name"] for each in told["clients"]]) == (1, list(CLIENTS))


def test_the_list_fits_a_terminal(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llmgate.cli.connect.command.terminal_width", lambda: 80)
    lines = run("connect").out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["CLIENT", "NAME", "--write", "CHANGES"]


def test_it_prints_what_the_client_needs(run: Any, options: Any) -> None:
    shown = run("connect", "codex", "--model", "m", *options)
    assert shown.status == 0
    told = tomllib.loads(shown.out)
    assert told["model"] == "m"
    assert told["model_providers"]["llmgate"]["base_url"] == "http://127.0.0.1:1/llm/v1"
    assert told["model_providers"]["llmgate"]["stream_idle_timeout_ms"] > 3_600_000
    assert re.match(r"# Codex, to http://127.0.0.1:1/llm with m \(tried with its version [0-9.]+\)\n", shown.out)
    assert run("connect", "curl", *options).out.startswith("# curl, to http://127.0.0.1:1/llm with MODEL\n")
    assert "the daemon that runs" in shown.err
    assert run("connect", "codex", "-q", *options).err == ""


def test_json_has_texts_and_values(run: Any, options: Any) -> None:
    told = json.loads(run("connect", "claude", "--json", *options).out)
    assert next(iter(told)) == "schema"
    assert (told["client"], told["model"], told["queue_timeout"]) == ("claude-code", "MODEL", 3600)
    assert json.loads(told["files"][0]["text"]) == told["files"][0]["values"]
    assert told["tried"] == CLIENTS["claude-code"].tried != ""
    assert told["blocks"][0]["language"] == "sh"


def test_the_base_url_is_taken_with_or_without_v1(run: Any, options: Any) -> None:
    for url in ("http://far:9/llm", "http://far:9/llm/v1/"):
        assert (
            "export OPENAI_API_BASE=http://far:9/llm/v1\n" in run("connect", "aider", "--base-url", url, *options).out
        )
    wrong = run("connect", "aider", "--base-url", "far", *options)
    assert (wrong.status, "must be an http or https URL" in wrong.err) == (2, True)


def test_a_client_that_is_not_known_is_a_usage_error(run: Any) -> None:
    wrong = run("connect", "emacs")
    assert (wrong.status, wrong.out) == (2, "")
    assert "there is no client 'emacs'; there are: claude-code, codex" in wrong.err


def test_it_writes_shows_the_difference_and_keeps_the_old_file(run: Any, options: Any, home: Path) -> None:
    file = home / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text('# mine\nmodel = "x"\n')
    done = run("connect", "codex", "--model", "m", "--write", "--yes", *options)
    assert done.status == 0
    assert '-model = "x"\n+model = "m"\n' in done.out
    assert f"{file} is written; as it was: {file}.bak" in done.err
    assert file.read_text().startswith('# mine\nmodel = "m"\n')
    assert (home / ".codex" / "config.toml.bak").read_text() == '# mine\nmodel = "x"\n'
    again = run("connect", "codex", "--model", "m", "--write", *options)
    assert (again.status, again.out) == (0, "")
    assert "says so already" in again.err


def test_what_was_written_is_told_in_json(run: Any, options: Any, home: Path) -> None:
    told = json.loads(run("connect", "pi", "--model", "m", "--write", "--yes", "--json", *options).out)
    folder = home / ".pi" / "agent"
    assert told["written"] == [
        {"path": str(folder / "models.json"), "backup": ""},
        {"path": str(folder / "settings.json"), "backup": ""},
    ]


def test_nobody_is_asked_without_a_terminal(
    run: Any, options: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    done = run("connect", "zed", "--model", "m", "--write", *options)
    assert done.status == 1
    assert "say --yes" in done.err
    assert not (home / ".config").exists()


def test_a_placeholder_is_never_written(run: Any, options: Any, home: Path) -> None:
    done = run("connect", "codex", "--write", "--yes", *options)
    assert (done.status, done.out) == (1, "")
    assert "name one with --model NAME" in done.err
    assert not (home / ".codex").exists()


def test_a_client_without_a_file_cannot_be_written(run: Any, options: Any) -> None:
    done = run("connect", "cline", "--model", "m", "--write", "--yes", *options)
    assert (done.status, done.out) == (1, "")
    assert "Cline has no settings file that could be written here" in done.err


def test_a_file_with_comments_keeps_them(run: Any, options: Any, home: Path) -> None:
    file = home / ".config" / "zed" / "settings.json"
    file.parent.mkdir(parents=True)
    file.write_text('// Zed settings\n{\n  "tab_size": 2, // mine\n}\n')
    line = ("connect", "zed", "--model", "m", "--write", "--yes", *options)
    assert run(*line).status == 0
    assert file.read_text().startswith('// Zed settings\n{\n  "tab_size": 2, // mine\n  "language_models": {')
    once = file.read_text()
    again = run(*line)
    assert (again.status, file.read_text()) == (0, once)
    assert "says so already" in again.err


def test_a_comment_that_would_be_lost_leaves_the_file_alone(run: Any, options: Any, home: Path) -> None:
    file = home / ".claude" / "settings.json"
    file.parent.mkdir()
    text = '{"env": [ /* mine */ ]}'
    file.write_text(text)
    done = run("connect", "claude-code", "--model", "m", "--write", "--yes", *options)
    assert (done.status, done.out, file.read_text()) == (1, "", text)
    assert "has comments in env that would be lost" in done.err
    assert "ANTHROPIC_BASE_URL" in done.err


@pytest.mark.parametrize(("answer", "status"), [("y", 0), ("n", 1)])
def test_a_person_is_asked(options: Any, home: Path, answer: str, status: int) -> None:
    ours, theirs = pty.openpty()
    line = [sys.executable, "-m", "llmgate", "connect", "claude-code", "--model", "m", "--write", *map(str, options)]
    with subprocess.Popen(line, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        os.close(theirs)
        os.write(ours, f"{answer}\n".encode())
        out, err = process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == status, err
    assert "+" in out
    assert f"Write {home}/.claude/settings.json?" in err
    assert (home / ".claude" / "settings.json").exists() == (status == 0)
