"""The global options: where the daemon is looked for, when there is colour, what JSON begins with."""

import json
from pathlib import Path

import pytest

from llmgate.cli.context import Context, print_json, print_lines, terminal_width, wants_color
from llmgate.errors import DaemonNotRunning, LlmgateError


@pytest.mark.parametrize(
    ("environ", "no_color", "tty", "wanted"),
    [
        ({}, False, True, True),
        ({"NO_COLOR": ""}, False, True, True),
        ({"NO_COLOR": "1"}, False, True, False),
        ({"TERM": "dumb"}, False, True, False),
        ({}, True, True, False),
        ({}, False, False, False),
    ],
)
def test_colour(environ: dict[str, str], no_color: bool, tty: bool, wanted: bool) -> None:
    assert wants_color(environ, no_color, tty) is wanted


def test_json_begins_with_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"b": "é", "schema": 1})
    out = capsys.readouterr().out
    assert out == '{"schema": 1, "b": "é"}\n'
    assert json.loads(out)["schema"] == 1


def test_the_socket_that_is_named_wins() -> None:
    assert Context(socket=Path("/s"), config=Path("/nonexistent")).find_socket() == Path("/s")


def test_the_socket_of_the_settings_file_comes_next(tmp_path: Path) -> None:
    file = tmp_path / "llmgate.toml"
    file.write_text('[admin]\nsocket = "/of/the/file"\n')
    assert Context(config=file).find_socket() == Path("/of/the/file")


BROKEN = [
    '[admin]\nsocket = "/of/the/file"\n[upstreams.a]\nurll = "x"\n',
    '[admin]\nsocket = "/of/the/file"\n[upstreams.a]\nurl = "http://h"\nmax_concurrent = 1\napi_key_env = "NONE_X"\n',
    '[admin]\nsocket = "/of/the/file"\n[server]\ntls_cert = "/nonexistent"\nkeys_file = "/nonexistent"\n',
]


@pytest.mark.parametrize("text", BROKEN)
def test_what_else_is_wrong_with_the_file_is_no_hindrance(tmp_path: Path, text: str) -> None:
    file = tmp_path / "llmgate.toml"
    file.write_text(text)
    assert Context(config=file).find_socket() == Path("/of/the/file")


def test_the_file_that_serve_would_find_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "llmgate.toml"
    file.write_text('[admin]\nsocket = "/of/the/file"\n')
    monkeypatch.setenv("LLMGATE_CONFIG", str(file))
    assert Context().find_socket() == Path("/of/the/file")
    monkeypatch.setenv("LLMGATE_ADMIN__SOCKET", "/of/the/variable")
    assert Context(config=file).find_socket() == Path("/of/the/variable")


def test_what_starts_the_daemon_names_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "my settings.toml"
    client = Context(socket=tmp_path / "none.sock", config=file).client("ps").within(2.0)
    with pytest.raises(DaemonNotRunning, match=f"start it now +llmgate --config '{file}' serve\n"):
        client.status()


def test_else_the_user_s_own_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getuid", lambda: 1000)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    own = tmp_path / "llmgate" / "admin.sock"
    own.parent.mkdir()
    own.touch()
    assert Context().find_socket() == own


def test_the_width_is_the_terminal_s_and_there_is_none_without(monkeypatch: pytest.MonkeyPatch) -> None:
    assert terminal_width() is None
    monkeypatch.setenv("COLUMNS", "93")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert terminal_width() == 93


def test_a_full_disk_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr("sys.stdout", full)
        with pytest.raises(LlmgateError, match="cannot be written to: No space left"):
            print_lines(["x"])
