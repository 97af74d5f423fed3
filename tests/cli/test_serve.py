"""`llmgate serve`: the command line becomes settings, and what is missing is said with the line to type."""

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from llmgate.cli.context import Context
from llmgate.cli.serve import overrides
from llmgate.errors import SettingsError


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the daemon was started with; it ends with 69."""
    started: list[Any] = []

    def serve(loaded: Any) -> int:
        started.append(loaded)
        return 69

    module = types.ModuleType("llmgate.daemon")
    module.serve = serve  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "llmgate.daemon", module)
    return started


def test_without_an_upstream_it_says_what_to_type(run: Any, served: list[Any]) -> None:
    result = run("serve")
    assert (result.status, served) == (78, [])
    assert "llmgate serve --upstream NAME=http://127.0.0.1:8000,max_concurrent=1" in result.err


def test_an_upstream_of_the_command_line_is_enough(run: Any, served: list[Any]) -> None:
    result = run("serve", "--listen", "127.0.0.1:0", "--upstream", "a=http://127.0.0.1:1,max_concurrent=2")
    settings = served[0].settings
    assert result.status == 69
    assert settings.server.listen == ("127.0.0.1:0",)
    assert settings.upstreams["a"].max_concurrent == 2


def test_the_settings_file_of_the_global_option_is_read(run: Any, served: list[Any], tmp_path: Path) -> None:
    file = tmp_path / "l.toml"
    file.write_text('[upstreams.a]\nurl = "http://127.0.0.1:1"\nmax_concurrent = 1\n')
    run("serve", "--config", file)
    assert served[0].path == file


def test_check_does_not_start(run: Any, served: list[Any]) -> None:
    result = run("serve", "--check", "--upstream", "a=http://127.0.0.1:1")
    assert (result.status, result.out, served) == (0, "the command line: the settings are fine\n", [])
    assert run("serve", "--check", "--json", "--upstream", "a=http://127.0.0.1:1").out.startswith('{"schema": 1, ')


def test_check_names_what_is_wrong(run: Any, served: list[Any], tmp_path: Path) -> None:
    file = tmp_path / "l.toml"
    file.write_text("[server]\nlisten_on = 1\n")
    result = run("serve", "--check", "--config", file)
    assert (result.status, result.out, served) == (78, "", [])
    assert f"{file}:2" in result.err


@pytest.mark.parametrize(
    ("context", "level"), [(Context(), None), (Context(verbose=True), "debug"), (Context(quiet=True), "warning")]
)
def test_verbose_and_quiet_are_the_level_of_the_log(context: Context, level: str | None) -> None:
    assert overrides(context, None, None, None).get("log") == (None if level is None else {"level": level})


def test_a_relative_socket_is_taken_from_here() -> None:
    assert overrides(Context(), None, Path("s"), None) == {"admin": {"socket": str(Path.cwd() / "s")}}


def test_an_upstream_given_twice_is_refused() -> None:
    with pytest.raises(SettingsError, match="twice"):
        overrides(Context(), None, None, ["a=http://127.0.0.1:1", "a=http://127.0.0.1:2"])
