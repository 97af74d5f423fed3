"""`llmgate paths`."""

import json
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llmgate.cli.context import Context
from llmgate.cli.paths import settings_places, socket_places
from tests.cli.conftest import FakeDaemon


@pytest.fixture
def short() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def test_it_marks_what_counts(run: Any, daemon: FakeDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "llmgate" / "llmgate.toml"
    file.parent.mkdir()
    file.write_text("")
    shown = run("paths", "--socket", daemon.socket)
    assert (shown.status, shown.err) == (0, "")
    marked = [line.split() for line in shown.out.splitlines() if line.startswith("*")]
    assert [line[2] if line[1] == "settings" else line[3] for line in marked] == [str(file), str(daemon.socket)]
    assert "a daemon listens" in shown.out
    assert "journalctl" in shown.out


def test_json_has_every_place_in_order(run: Any, tmp_path: Path) -> None:
    told = json.loads(run("paths", "--json", "--socket", tmp_path / "none.sock").out)
    assert list(told) == ["schema", "settings", "admin_socket", "log"]
    assert next(place["path"] for place in told["settings"]) == "/nonexistent/llmgate/llmgate.toml"
    assert told["admin_socket"] == [
        {"path": str(tmp_path / "none.sock"), "from": "--socket", "state": "not there", "used": False}
    ]


def test_a_file_that_is_named_is_the_only_place(tmp_path: Path) -> None:
    file = tmp_path / "l.toml"
    (by_option,) = settings_places(Context(config=file), {"LLMGATE_CONFIG": "/x"})
    assert (by_option.path, by_option.why, by_option.state, by_option.used) == (file, "--config", "not there", False)
    (by_variable,) = settings_places(Context(), {"LLMGATE_CONFIG": str(file)})
    assert by_variable.why == "LLMGATE_CONFIG"


def test_what_is_in_the_way_of_a_file_is_told(tmp_path: Path) -> None:
    file = tmp_path / "l.toml"
    file.symlink_to(tmp_path / "nowhere")
    assert settings_places(Context(config=file), {})[0].state == "a link to nothing"
    assert settings_places(Context(config=tmp_path), {})[0].state == "cannot be read: Is a directory"


def test_a_socket_is_looked_for_where_the_settings_say(tmp_path: Path, short: Path) -> None:
    file = tmp_path / "l.toml"
    file.write_text(f'[admin]\nsocket = "{short}/admin.sock"\n')
    (place,) = socket_places(Context(config=file), {})
    assert (place.path, place.why, place.state) == (short / "admin.sock", "admin.socket in --config", "not there")


def test_it_stars_the_socket_of_the_file_that_serve_would_find(short: Path) -> None:
    file = short / "llmgate" / "llmgate.toml"
    file.parent.mkdir()
    file.write_text(f'[admin]\nsocket = "{short}/admin.sock"\n')
    environ = {"XDG_CONFIG_HOME": str(short), "XDG_RUNTIME_DIR": "/nonexistent"}
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(f"{short}/admin.sock")
        found = socket_places(Context(), environ)
    assert [(place.path, place.why) for place in found if place.used] == [
        (short / "admin.sock", f"admin.socket in {file}")
    ]
    assert found[-1].why == "the system's"
    (named,) = socket_places(Context(), environ | {"LLMGATE_ADMIN__SOCKET": "/of/the/variable"})
    assert (str(named.path), named.why) == ("/of/the/variable", "LLMGATE_ADMIN__SOCKET")


def test_every_state_of_a_socket(short: Path) -> None:
    def state(path: Path) -> str:
        return socket_places(Context(socket=path), {})[0].state

    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(short / "s"))
        assert state(short / "s") == "there, but nobody listens"
        bound.listen()
        assert state(short / "s") == "a daemon listens"
    (short / "file").write_text("")
    assert state(short / "file") == state(short) == "there, but no socket"
    assert state(short / "file" / "s") == "not there"
    assert state(short / ("x" * 200)).startswith("no connection: ")


def test_the_user_s_place_comes_before_the_system_s() -> None:
    places = socket_places(Context(), {"XDG_RUNTIME_DIR": "/nonexistent"})
    assert places[-1].why == "the system's"
