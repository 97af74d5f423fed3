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
]


def script(shell: Shell) -> str:
    return "\n".join(SCRIPTS[shell](TREE)) + "\n"


@pytest.mark.parametrize("shell", list(Shell))
def test_every_command_and_option_is_in_it(shell: Shell) -> None:
    text = script(shell)
    for words in TREE.values():
        for name in (*words.commands, *(option.removeprefix("--") for option in words.options)):
            assert name in text
    assert set(CLIENTS) <= set(TREE["connect",].values)


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
