"""`llmgate serve`: the command line becomes settings, and what is missing is said with the line to type."""

import json
import socket
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import typer

from llmgate.cli.context import Context
from llmgate.cli.serve import overrides


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the daemon was started with; it ends with 69."""
    started: list[Any] = []

    def serve(loaded: Any, *_: Any) -> int:
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
    with pytest.raises(typer.BadParameter, match="a is given twice"):
        overrides(Context(), None, None, ["a=http://127.0.0.1:1", "a=http://127.0.0.1:2"])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("--upstream", "foo"), "'--upstream': must be NAME=URL"),
        (("--upstream", "a=http://h,x=1"), "'--upstream': a: unknown key x; known here are "),
        (
            ("--upstream", "a=http://h,max_conc=1"),
            "'--upstream': a: unknown key max_conc; did you mean max_concurrent?",
        ),
        (("--upstream", "a=http://h,x"), "'--upstream': a: after the URL comes KEY=VALUE"),
        (("--upstream", "a=ftp://h"), "'--upstream': a.url must be an http or https URL"),
        (("--upstream", "a=http://h,max_concurrent=x"), "'--upstream': a.max_concurrent must be a whole number"),
        (("--listen", "8080"), "'--listen': must be"),
        (("--admin-socket", "x" * 200), "'--admin-socket': must be a shorter path"),
    ],
)
def test_what_the_command_line_has_wrong_is_a_usage_error(
    run: Any, served: list[Any], line: tuple[str, ...], said: str
) -> None:
    result = run("serve", *line)
    assert (result.status, result.out, served) == (2, "", [])
    assert said in result.err


def test_what_the_settings_do_not_allow_is_not(run: Any, served: list[Any]) -> None:
    result = run("serve", "--upstream", "a=http://h", "--listen", "0.0.0.0:8080")
    assert (result.status, served) == (78, [])
    assert "LLMGATE_SERVER__ALLOW_OPEN=true" in result.err


def test_an_upstream_of_a_file_may_be_completed_by_the_command_line(
    run: Any, served: list[Any], tmp_path: Path
) -> None:
    file = tmp_path / "l.toml"
    file.write_text("[upstreams.a]\nmax_concurrent = 7\n")
    run("serve", "--config", file, "--upstream", "a=http://127.0.0.1:1")
    assert served[0].settings.upstreams["a"].max_concurrent == 7


def test_a_start_that_is_refused_is_an_error_in_json(run: Any, tmp_path: Path) -> None:
    """No entry of the log, whatever its format is."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        line = ("--upstream", "a=http://127.0.0.1:1", "--listen", address, "--admin-socket", tmp_path / "run" / "s")
        result = run("serve", "--json", *line)
    told = json.loads(result.err)
    assert (result.status, result.out, told["schema"], told["error"]["code"]) == (69, "", 1, "IN_USE")
    assert told["error"]["message"].startswith(f"cannot listen on {address}: Address already in use")
