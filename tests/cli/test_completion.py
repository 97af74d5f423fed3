"""Completions: what a real shell offers after a line, where that shell is installed; bash always is."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer.main

from llmgate.cli.app import app
from llmgate.cli.completion import SCRIPTS, Shell, words_of
from llmgate.cli.connect.clients import CLIENTS
from tests.cli.conftest import FakeDaemon, request, status_of, upstream

CI = "CI" in os.environ
"""There every shell is installed, and a test that cannot run fails."""

TREE = words_of(typer.main.get_command(app))

CASES = [
    ("llmgate ", "serve", True),
    ("llmgate st", "status", True),
    ("llmgate st", "serve", False),
    ("llmgate --s", "--socket", True),
    ("llmgate status --w", "--watch", True),
    ("llmgate status --js", "--json", True),
    ("llmgate --json status --w", "--watch", True),
    ("llmgate config ", "check", True),
    ("llmgate config show --o", "--origin", True),
    ("llmgate config show --w", "--watch", False),
    ("llmgate connect c", "codex", True),
    ("llmgate completion ", "fish", True),
    ("llmgate --config x.toml status --ch", "--check", True),
    ("llmgate ps --state ", "draining", True),
    ("llmgate top --theme ", "mono", True),
    ("llmgate config import --from ", "llama-swap", True),
    ("llmgate set reasoning max_q", "max_queued=", True),
    ("llmgate pause ", "reasoning", True),
    ("llmgate pause x", "reasoning", False),
    ("llmgate ps --upstream ", "reasoning", True),
    ("llmgate ps ", "reasoning", False),
    ("llmgate serve --upstream ", "reasoning", False),
    ("llmgate --socket /other pause ", "other", True),
    ("llmgate cancel ", "req_running", True),
    ("llmgate cancel req_w", "req_waiting", True),
    ("llmgate move ", "req_waiting", True),
    ("llmgate move ", "req_running", False),
]


def script(shell: Shell) -> str:
    return "\n".join(SCRIPTS[shell](TREE)) + "\n"


@pytest.mark.parametrize("shell", list(Shell))
def test_every_command_and_option_is_in_it(shell: Shell) -> None:
    text = script(shell)
    for words in TREE.values():
        for name in (*words.commands, *(option.removeprefix("--") for option in words.options)):
            assert name in text
    assert set(CLIENTS) <= set(TREE["connect",].values.words)


DAEMON = """\
#!/bin/sh
case "$*" in
  *"--socket /other"*"--names upstreams") echo other ;;
  *"--names upstreams") echo reasoning; echo ollama ;;
  *"--names requests") echo req_running; echo req_waiting ;;
  *"--names waiting") echo req_waiting ;;
  *) echo "asked for $*" >&2; exit 1 ;;
esac
"""


@pytest.fixture(autouse=True)
def daemon_that_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in the place of llmgate, so that no TAB of these tests starts Python."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "llmgate"
    program.write_text(DAEMON)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def bash(line: str) -> list[str]:
    """What bash would offer: its function run as bash runs it at TAB."""
    words = line.split(" ")
    setting = f"COMP_WORDS=({' '.join(repr(word) for word in words)}); COMP_CWORD={len(words) - 1}"
    text = f'{script(Shell.BASH)}\n{setting}\n_llmgate\nprintf "%s\\n" "${{COMPREPLY[@]}}"\n'
    done = subprocess.run(["bash", "--norc", "-u"], input=text, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(("line", "word", "offered"), CASES)
def test_bash_offers_it(line: str, word: str, offered: bool) -> None:
    assert (word in bash(line)) == offered


def test_bash_leaves_the_value_of_an_option_to_files() -> None:
    assert bash("llmgate --config st") == []
    assert "complete -o default -F _llmgate llmgate" in script(Shell.BASH)


def test_bash_takes_it_as_it_is_installed(tmp_path: Path) -> None:
    (tmp_path / "llmgate").write_text(script(Shell.BASH))
    line = f"source {tmp_path}/llmgate && complete -p llmgate"
    done = subprocess.run(["bash", "--norc", "-euc", line], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "complete -o default -F _llmgate llmgate\n"


@pytest.mark.skipif(shutil.which("fish") is None and not CI, reason="fish is not installed")
@pytest.mark.parametrize(("line", "word", "offered"), CASES)
def test_fish_offers_it(tmp_path: Path, line: str, word: str, offered: bool) -> None:
    (tmp_path / "llmgate.fish").write_text(script(Shell.FISH))
    asked = f"source {tmp_path}/llmgate.fish; complete -C '{line}'"
    done = subprocess.run(["fish", "--no-config", "-c", asked], capture_output=True, text=True, check=True, timeout=60)
    assert (word in [each.split("\t")[0] for each in done.stdout.splitlines()]) == offered


@pytest.mark.skipif(shutil.which("zsh") is None and not CI, reason="zsh is not installed")
def test_zsh_reads_it(tmp_path: Path) -> None:
    (tmp_path / "_llmgate").write_text(script(Shell.ZSH))
    asked = f"fpath=({tmp_path} $fpath); autoload -Uz compinit; compinit -u -d {tmp_path}/dump; echo $_comps[llmgate]"
    done = subprocess.run(["zsh", "-fc", asked], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "_llmgate\n"
    subprocess.run(["zsh", "-fn", tmp_path / "_llmgate"], check=True, timeout=60)


ZSH = """\
_describe() { print -rl -- "${(P)2[@]%%:*}" }
_files() {}
compdef() {}
source $1
shift
words=("$@")
CURRENT=$#
PREFIX=$words[CURRENT]
_llmgate
"""
"""What zsh has around a function at TAB, as far as ours needs it: what it would choose from is printed."""


@pytest.mark.skipif(shutil.which("zsh") is None and not CI, reason="zsh is not installed")
@pytest.mark.parametrize(("line", "word", "offered"), CASES)
def test_zsh_offers_it(tmp_path: Path, line: str, word: str, offered: bool) -> None:
    (tmp_path / "_llmgate").write_text(script(Shell.ZSH))
    whole = ["zsh", "-fc", ZSH, "zsh", str(tmp_path / "_llmgate"), *line.split(" ")]
    done = subprocess.run(whole, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    fits = [each for each in done.stdout.splitlines() if each.startswith(line.rpartition(" ")[2])]
    assert (word in fits) == offered


def test_it_is_printed_whole(run: Any) -> None:
    for shell in Shell:
        shown = run("completion", shell.value)
        assert (shown.status, shown.err) == (0, "")
        assert shown.out == script(shell)
        told = json.loads(run("completion", shell.value, "--json").out)
        assert (told["schema"], told["script"]) == (1, script(shell).rstrip("\n"))


def test_another_shell_is_a_usage_error(run: Any) -> None:
    done = run("completion", "csh")
    assert (done.status, "must be bash, zsh or fish" in done.err) == (2, True)
    assert run("completion").status == 2


def test_the_names_are_those_of_the_daemon(run: Any, daemon: FakeDaemon, tmp_path: Path) -> None:
    daemon.status = status_of(upstream("a"), upstream("b"))
    daemon.requests = [request("r1"), request("r2", state="running")]
    at = ("--socket", daemon.socket, "completion", "--names")
    assert run(*at, "upstreams").out == "a\nb\n"
    assert run(*at, "requests").out == "r1\nr2\n"
    assert run(*at, "waiting").out == "r1\n"
    assert json.loads(run(*at, "waiting", "--json").out) == {"schema": 1, "names": ["r1"]}
    assert run("--socket", tmp_path / "none", "completion", "--names", "upstreams") == (0, "", "")
    assert run(*at, "models").status == 2
