"""What a person types to run the program that runs."""

import sys
from pathlib import Path

import pytest

from llmgate.cli.program import from_here, program


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone's script, run from the clone; another llmgate is on PATH."""
    for name in (".venv/bin", "other", "none"):
        (tmp_path / name).mkdir(parents=True)
    for script in (tmp_path / ".venv" / "bin" / "llmgate", tmp_path / "other" / "llmgate"):
        script.write_text("#!/somewhere/else/python\n")
        script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "other"))
    (tmp_path / "__main__.py").touch()
    monkeypatch.setattr(sys, "argv", [".venv/bin/llmgate", "demo"])
    return tmp_path


def test_in_a_clone_it_is_the_path_from_there(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert program() == ".venv/bin/llmgate"
    monkeypatch.setenv("PATH", str(clone / "none"))
    assert program() == ".venv/bin/llmgate"
    monkeypatch.chdir(clone / ".venv" / "bin")
    monkeypatch.setattr(sys, "argv", ["./llmgate"])
    assert program() == "./llmgate"
    monkeypatch.chdir(clone / "none")
    monkeypatch.setattr(sys, "argv", [str(clone / ".venv" / "bin" / "llmgate")])
    assert program() == str(clone / ".venv" / "bin" / "llmgate")


def test_where_path_leads_to_it_it_is_its_name(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(clone / ".venv" / "bin"))
    assert program() == "llmgate"
    (clone / "none" / "llmgate").symlink_to(clone / ".venv" / "bin" / "llmgate")
    monkeypatch.setenv("PATH", str(clone / "none"))
    assert program() == "llmgate"


def test_a_script_that_runs_this_interpreter_is_meant_by_python_m(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(clone / "__main__.py")])
    monkeypatch.setattr(sys, "executable", str(clone / "lib dir" / "python"))
    monkeypatch.setattr(sys, "prefix", str(clone / "lib dir"))
    assert program() == "'lib dir/python' -m llmgate"
    (clone / "other" / "llmgate").write_text(f'#!/bin/sh\nexec {sys.executable} -I -m llmgate "$@"\n')
    assert program() == "llmgate"
    (clone / "other" / "llmgate").unlink()
    assert program() == "'lib dir/python' -m llmgate"


@pytest.mark.parametrize("folder", ["opt/bin", "opt/lib/llmgate/bin"])
def test_the_script_beside_the_interpreter_is_found_too(
    clone: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.setattr(sys, "argv", [str(clone / "__main__.py")])
    monkeypatch.setattr(sys, "prefix", str(clone / "opt" / "lib" / "llmgate"))
    monkeypatch.setattr(sys, "executable", str(clone / "opt" / "lib" / "llmgate" / "bin" / "python"))
    (clone / folder).mkdir(parents=True)
    (clone / folder / "llmgate").write_text(f"#!{sys.executable}\n")
    assert program() == f"{folder}/llmgate"


def test_a_path_outside_stays_whole(clone: Path) -> None:
    assert from_here("/usr/bin/llmgate") == "/usr/bin/llmgate"
    assert from_here(str(clone / "llmgate")) == "./llmgate"
