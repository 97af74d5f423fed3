"""Files of clients: where they are, what is kept of them, and what happens where they cannot be written."""

import json
import os
import stat
from pathlib import Path

import pytest

from llmgate.cli.connect.recipe import SettingsFile
from llmgate.cli.connect.write import Change, place_of, plan, write
from llmgate.errors import LlmgateError

FILE = SettingsFile(("$X_HOME/s.json", "~/.x/s.json"), "json", {"a": 1})


def test_the_place_is_the_one_that_is_there(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    assert place_of(FILE, environ) == tmp_path / ".x" / "s.json"
    with_home = environ | {"X_HOME": str(tmp_path / "y")}
    assert place_of(FILE, with_home) == tmp_path / "y" / "s.json"
    (tmp_path / ".x").mkdir()
    (tmp_path / ".x" / "s.json").write_text("{}")
    assert place_of(FILE, with_home) == tmp_path / ".x" / "s.json"


def test_a_new_file_is_for_its_owner_only(tmp_path: Path) -> None:
    change = plan(FILE, {"HOME": str(tmp_path)})
    assert change.is_needed
    write(change)
    assert json.loads(change.path.read_text()) == {"a": 1}
    assert stat.S_IMODE(change.path.stat().st_mode) == 0o600
    assert [path.name for path in change.path.parent.iterdir()] == ["s.json"]


def test_an_old_file_is_kept_beside_with_its_mode(tmp_path: Path) -> None:
    path = tmp_path / ".x" / "s.json"
    path.parent.mkdir()
    path.write_text('{"b": 2}')
    path.chmod(0o640)
    change = plan(FILE, {"HOME": str(tmp_path)})
    write(change)
    assert json.loads(path.read_text()) == {"b": 2, "a": 1}
    assert (path.parent / "s.json.bak").read_text() == '{"b": 2}'
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.write_text('{"b": 3}')
    write(plan(FILE, {"HOME": str(tmp_path)}))
    assert [(path.parent / f"s.json.{end}").read_text() for end in ("bak", "bak2")] == ['{"b": 2}', '{"b": 3}']
    assert not plan(FILE, {"HOME": str(tmp_path)}).is_needed


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text("{}")
    (tmp_path / ".x").mkdir()
    link = tmp_path / ".x" / "s.json"
    link.symlink_to(real)
    write(plan(FILE, {"HOME": str(tmp_path)}))
    assert link.is_symlink()
    assert json.loads(real.read_text()) == {"a": 1}


@pytest.mark.parametrize("content", [b'{"b": 2, // why\n', b"\xff"])
def test_a_file_that_cannot_be_kept_is_not_touched_and_the_lines_are_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / ".x" / "s.json"
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(LlmgateError) as told:
        plan(FILE, {"HOME": str(tmp_path)})
    assert str(told.value).startswith(f"llmgate: {path} is not ")
    assert "Nothing was written" in str(told.value)
    assert '"a": 1' in str(told.value)
    assert path.read_bytes() == content


def test_what_cannot_be_read_or_written_is_told(tmp_path: Path) -> None:
    (tmp_path / ".x").write_text("no folder")
    with pytest.raises(LlmgateError, match=r"cannot be written: .*; it is as it was"):
        write(Change(tmp_path / ".x" / "s.json", "", "{}"))
    (tmp_path / "y" / "s.json").mkdir(parents=True)
    with pytest.raises(LlmgateError, match="cannot be read: Is a directory"):
        plan(FILE, {"HOME": str(tmp_path), "X_HOME": str(tmp_path / "y")})


def test_a_failure_in_the_middle_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.json"
    path.write_text("{}")

    def fail(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(LlmgateError, match="No space left"):
        write(Change(path, "{}", '{"a": 1}'))
    assert path.read_text() == "{}"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["s.json", "s.json.bak"]


def test_the_difference_is_shown_line_by_line(tmp_path: Path) -> None:
    lines = list(Change(tmp_path / "s", "a\nb\n", "a\nc\n").diff())
    assert lines[-3:] == [" a", "-b", "+c"]
