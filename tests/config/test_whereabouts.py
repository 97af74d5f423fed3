"""Where a command looks for the admin socket."""

from pathlib import Path

import pytest

from llmgate.config.paths import SYSTEM_ADMIN_SOCKET, default_admin_socket
from llmgate.config.whereabouts import socket_candidates

OWN = default_admin_socket({"XDG_RUNTIME_DIR": "/r"}, 7)
USUAL = [(OWN, "the user's"), (SYSTEM_ADMIN_SOCKET, "the system's")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "llmgate" / "llmgate.toml"
    found.parent.mkdir()
    found.write_text('[admin]\nsocket = "/of/the/file"\n')
    return found


def candidates(config: Path | None = None, **environ: str) -> list[tuple[Path, str]]:
    return socket_candidates(config, {"XDG_RUNTIME_DIR": "/r", "XDG_CONFIG_HOME": "/nonexistent"} | environ, 7)


def test_one_that_is_named_for_the_call_is_the_only_one(file: Path) -> None:
    assert candidates(file) == [(Path("/of/the/file"), "admin.socket in --config")]
    assert candidates(LLMGATE_CONFIG=str(file)) == [(Path("/of/the/file"), "admin.socket in LLMGATE_CONFIG")]
    assert candidates(file, LLMGATE_admin__Socket="/x") == [(Path("/x"), "LLMGATE_admin__Socket")]


def test_that_of_the_file_that_is_found_comes_first(file: Path) -> None:
    first, *rest = candidates(XDG_CONFIG_HOME=str(file.parent.parent))
    assert first == (Path("/of/the/file"), f"admin.socket in {file}")
    assert rest == USUAL
    file.write_text(f'[admin]\nsocket = "{OWN}"\n')
    assert [path for path, _ in candidates(XDG_CONFIG_HOME=str(file.parent.parent))] == [OWN, SYSTEM_ADMIN_SOCKET]


def test_an_empty_variable_means_the_default_as_for_serve(file: Path) -> None:
    assert candidates(file, LLMGATE_ADMIN__SOCKET="") == USUAL


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[admin",
        b"admin = 1",
        b"[admin]\nsocket = 1",
        b'[admin]\nsocket = "relative"',
        b'[admin]\nsocket = ""',
        b'[admin]\nsocket = "/a\\u0000"',
        b"\xff",
        b"a = " + b"[" * 9000,
    ],
)
def test_a_file_that_names_none_or_is_no_toml_is_passed_over(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    assert candidates(file) == USUAL
    assert candidates(file.parent) == candidates(file / "x") == USUAL


def test_the_mark_of_a_windows_editor_is_no_hindrance(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert candidates(file)[0][0] == Path("/of/the/file")
