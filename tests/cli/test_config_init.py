"""`llmgate config init`."""

import json
from pathlib import Path
from typing import Any

import pytest

from llmgate.cli.config_init import TEMPLATE
from llmgate.config.load import load


def test_what_is_written_can_be_used(run: Any, tmp_path: Path) -> None:
    target = tmp_path / "new" / "llmgate.toml"
    done = run("config", "init", target)
    assert (done.status, done.out) == (0, f"{target}\n")
    assert f"config check --config {target}" in done.err
    loaded = load(target, environ={})
    assert [*loaded.settings.upstreams] == ["local"]
    assert loaded.warnings == ()


def test_the_examples_in_its_comments_can_be_used(tmp_path: Path) -> None:
    file = tmp_path / "l.toml"
    file.write_text(
        "".join(line.removeprefix("#") if line[1:2].isalpha() else line for line in TEMPLATE.splitlines(True))
    )
    assert load(file, environ={}).settings.upstreams["local"].max_queued == 64


def test_it_goes_where_serve_looks_first(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    done = run("config", "init", "--json")
    target = tmp_path / "llmgate" / "llmgate.toml"
    assert json.loads(done.out) == {"schema": 1, "written": str(target)}
    assert target.read_text() == TEMPLATE
    assert f"file        {target}\n" in run("config", "check").out


def test_a_file_that_is_there_is_kept(run: Any, tmp_path: Path) -> None:
    target = tmp_path / "llmgate.toml"
    target.write_text("mine")
    done = run("config", "init", target)
    assert (done.status, done.out, target.read_text()) == (1, "", "mine")
    assert "--force" in done.err
    assert run("config", "init", target, "--force").status == 0
    assert target.read_text() == TEMPLATE


def test_a_place_that_is_no_folder_is_told(run: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("config", "init", tmp_path / "file" / "l.toml")
    assert (done.status, done.out) == (1, "")
    assert "cannot be written: " in done.err
