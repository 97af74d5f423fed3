"""Where settings and sockets lie."""

import os
from pathlib import Path

import pytest

from llmgate.config.paths import (
    SYSTEM_ADMIN_SOCKET,
    SYSTEM_SETTINGS,
    admin_sockets,
    default_admin_socket,
    make_private_folder,
    named_settings_file,
    settings_files,
    unit_files,
    why_not_private,
)

TEMPORARY = "/" + "tmp"


@pytest.mark.parametrize(
    ("environ", "own"),
    [
        ({"XDG_CONFIG_HOME": "/c", "HOME": "/h"}, ["/c/llmgate/llmgate.toml"]),
        ({"HOME": "/h"}, ["/h/.config/llmgate/llmgate.toml"]),
        ({"XDG_CONFIG_HOME": "relative", "HOME": "/h"}, ["/h/.config/llmgate/llmgate.toml"]),
        ({"XDG_CONFIG_HOME": "", "HOME": "/h"}, ["/h/.config/llmgate/llmgate.toml"]),
        ({"HOME": "relative"}, []),
        ({}, []),
    ],
)
def test_settings_are_looked_for_at_the_users_then_the_systems_place(environ: dict[str, str], own: list[str]) -> None:
    assert settings_files(environ) == [*map(Path, own), SYSTEM_SETTINGS]


def test_a_file_may_be_named() -> None:
    assert named_settings_file({"LLMGATE_CONFIG": "x.toml"}) == Path("x.toml")
    assert named_settings_file({"LLMGATE_CONFIG": ""}) is None
    assert named_settings_file({}) is None


@pytest.mark.parametrize(
    ("environ", "uid", "socket"),
    [
        ({"XDG_RUNTIME_DIR": "/run/user/1000"}, 1000, "/run/user/1000/llmgate/admin.sock"),
        ({"XDG_RUNTIME_DIR": "/run/user/1000"}, 0, "/run/llmgate/admin.sock"),
        ({}, 0, "/run/llmgate/admin.sock"),
        ({}, 1000, f"{TEMPORARY}/llmgate-1000/admin.sock"),
        ({"TMPDIR": "/scratch"}, 1000, "/scratch/llmgate-1000/admin.sock"),
        ({"TMPDIR": "tmp", "XDG_RUNTIME_DIR": "run"}, 1000, f"{TEMPORARY}/llmgate-1000/admin.sock"),
    ],
)
def test_the_admin_socket_is_the_users_own(environ: dict[str, str], uid: int, socket: str) -> None:
    assert default_admin_socket(environ, uid) == Path(socket)


def test_commands_look_at_the_users_socket_then_the_systems() -> None:
    assert admin_sockets({"XDG_RUNTIME_DIR": "/r"}, 1) == [Path("/r/llmgate/admin.sock"), SYSTEM_ADMIN_SOCKET]
    assert admin_sockets({}, 0) == [SYSTEM_ADMIN_SOCKET]


def test_a_folder_is_made_for_its_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "llmgate"
    make_private_folder(folder, os.getuid())
    assert folder.stat().st_mode & 0o777 == 0o700
    make_private_folder(folder, os.getuid())
    assert why_not_private(folder, os.getuid()) == ""


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o702], ids=oct)
def test_a_folder_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(PermissionError, match="can be written by others"):
        make_private_folder(tmp_path, os.getuid())


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strangers = os.stat_result((0o40700, 0, 0, 1, 4711, 0, 0, 0, 0, 0))
    monkeypatch.setattr(os, "lstat", lambda _path: strangers)
    with pytest.raises(PermissionError, match="belongs to another user"):
        make_private_folder(tmp_path, 1000)


def test_a_link_is_refused_wherever_it_leads(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(PermissionError, match="is not a directory"):
        make_private_folder(tmp_path / "link", os.getuid())


def test_a_folder_for_a_group_lets_it_in(tmp_path: Path) -> None:
    make_private_folder(tmp_path / "own", os.getuid())
    make_private_folder(tmp_path / "shared", os.getuid(), for_group=True)
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o750


def test_a_folder_is_given_to_the_group_and_lets_it_in_whatever_the_umask(tmp_path: Path) -> None:
    group = os.getgroups()[-1] if os.getgroups() else os.getgid()
    before = os.umask(0o077)
    try:
        make_private_folder(tmp_path / "shared", os.getuid(), for_group=True, group=group)
    finally:
        os.umask(before)
    found = (tmp_path / "shared").stat()
    assert (found.st_mode & 0o777, found.st_gid) == (0o750, group)
    make_private_folder(tmp_path / "shared", os.getuid(), for_group=True, group=group)


@pytest.mark.parametrize(("mode", "own", "fits"), [(0o700, True, False), (0o750, True, True), (0o750, False, False)])
def test_a_folder_that_keeps_the_group_out_is_refused(tmp_path: Path, mode: int, own: bool, fits: bool) -> None:
    tmp_path.chmod(mode)
    group = tmp_path.stat().st_gid + (0 if own else 1)
    if fits:
        make_private_folder(tmp_path, os.getuid(), for_group=True, group=group)
        return
    with pytest.raises(PermissionError, match="does not let the group of the socket in"):
        make_private_folder(tmp_path, os.getuid(), for_group=True, group=group)


def test_one_that_everybody_may_enter_lets_every_group_in(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_private_folder(tmp_path, os.getuid(), for_group=True, group=tmp_path.stat().st_gid + 1)


def test_where_systemd_looks_for_the_unit() -> None:
    own = unit_files({"HOME": "/h", "XDG_DATA_HOME": "/d"}, 7)
    assert own[:3] == [
        Path("/h/.config/systemd/user/llmgate.service"),
        Path("/d/systemd/user/llmgate.service"),
        Path("/etc/systemd/user/llmgate.service"),
    ]
    assert unit_files({"HOME": "/h"}, 7)[1] == Path("/h/.local/share/systemd/user/llmgate.service")
    assert unit_files({"HOME": "/h"}, 0)[0] == Path("/etc/systemd/system/llmgate.service")
    assert unit_files({}, 7)[0] == Path("/etc/systemd/user/llmgate.service")
