"""What a person is told when the admin socket gives nothing."""

import os
import socket as sockets
from pathlib import Path

import pytest

from llmgate.adminclient import AdminClient, AsyncAdminClient, complaint
from llmgate.errors import AdminError, DaemonNotRunning, DaemonSilent


class TestNobody:
    @pytest.fixture(autouse=True)
    def settings(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """The settings file that `llmgate serve` would read; it is there."""
        file = tmp_path / "settings" / "llmgate" / "llmgate.toml"
        file.parent.mkdir(parents=True)
        file.touch()
        monkeypatch.delenv("LLMGATE_CONFIG", raising=False)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
        return file

    def test_without_settings_it_names_what_needs_none(
        self, tmp_path: Path, settings: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("llmgate.config.paths.SYSTEM_SETTINGS", tmp_path / "none")
        settings.unlink()
        with pytest.raises(DaemonNotRunning) as caught:
            AdminClient(tmp_path / "admin.sock").status()
        line = "  start it now          llmgate serve --upstream NAME=http://127.0.0.1:8000"
        assert line in str(caught.value).split("\n")
        monkeypatch.setenv("LLMGATE_CONFIG", "/named")
        with pytest.raises(DaemonNotRunning, match=r"llmgate serve\n"):
            AdminClient(tmp_path / "admin.sock").status()

    @pytest.mark.parametrize(
        ("uid", "line"),
        [
            (0, "  as a service          systemctl enable --now llmgate"),
            (7, "  as a user service     systemctl --user enable --now llmgate"),
        ],
    )
    def test_a_unit_is_named_where_there_is_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uid: int, line: str
    ) -> None:
        monkeypatch.setattr("os.getuid", lambda: uid)
        unit = tmp_path / "llmgate.service"
        monkeypatch.setattr("llmgate.adminclient.complaint.unit_files", lambda environ, uid: [unit])
        for there in (False, True):
            with pytest.raises(DaemonNotRunning) as caught:
                AdminClient(tmp_path / "admin.sock").status()
            assert (line in str(caught.value).split("\n")) == there
            unit.touch()

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(DaemonNotRunning) as caught:
            AdminClient(tmp_path / "admin.sock", command="ps").status()
        lines = str(caught.value).split("\n")
        assert lines[0] == f"No daemon answers on {tmp_path}/admin.sock"
        assert lines[2] == "The socket file does not exist."
        assert "  start it now          llmgate serve" in lines
        assert "  another socket        llmgate --socket PATH ps" in lines

    def test_no_folder(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(DaemonNotRunning, match="does not exist"):
            AdminClient(tmp_path / "file" / "admin.sock").status()

    def test_a_file_that_nobody_listens_on(self, tmp_path: Path) -> None:
        left = sockets.socket(sockets.AF_UNIX)
        left.bind(str(tmp_path / "admin.sock"))
        left.close()
        with pytest.raises(DaemonNotRunning, match="nobody listens on it"):
            AdminClient(tmp_path / "admin.sock").requests()

    @pytest.mark.parametrize(
        ("name", "said"), [("file", "That is a file, but not a socket."), (".", "That is a folder")]
    )
    def test_what_is_no_socket(self, tmp_path: Path, name: str, said: str) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(DaemonNotRunning) as caught:
            AdminClient(tmp_path / name).status()
        assert str(caught.value).split("\n")[2].startswith(said)

    async def test_the_feed_says_it_too(self, tmp_path: Path) -> None:
        with pytest.raises(DaemonNotRunning, match="does not exist"):
            await anext(AdminClient(tmp_path / "admin.sock").watch())

    async def test_the_settings_that_were_named_are_those_to_start_with(self, tmp_path: Path) -> None:
        at, named = tmp_path / "admin.sock", Path("/g.toml")
        line = r"start it now +llmgate --config /g.toml serve\n"
        with pytest.raises(DaemonNotRunning, match=line):
            AdminClient(at, settings=named).within(1).status()
        with pytest.raises(DaemonNotRunning, match=line):
            await AsyncAdminClient(at, settings=named).status()
        with pytest.raises(DaemonNotRunning, match=line):
            await anext(AdminClient(at, settings=named).watch())

    def test_a_path_that_is_too_long(self) -> None:
        with pytest.raises(AdminError, match="too long"):
            AdminClient(Path("/tmp") / ("x" * 200)).status()  # noqa: S108


class TestPermission:
    def denied(self, path: Path) -> str:
        return str(complaint.explain(PermissionError(13, "Permission denied"), path, "top"))

    def test_a_socket_of_one_user(self, tmp_path: Path) -> None:
        path = tmp_path / "admin.sock"
        path.touch(mode=0o600)
        user = complaint._user_name(os.getuid())
        assert f"belongs to user {user}" in self.denied(path)
        assert f"sudo -u {user} llmgate --socket {path} top" in self.denied(path)

    def test_a_socket_of_a_group(self, tmp_path: Path) -> None:
        path = tmp_path / "admin.sock"
        path.touch()
        path.chmod(0o660)
        group = complaint._group_name(path.stat().st_gid)
        assert f"sudo usermod -aG {group} $USER" in self.denied(path)

    @pytest.mark.parametrize(("mode", "advice"), [(0o750, "usermod -aG {group} $USER"), (0o700, "sudo -u {user} ")])
    def test_a_folder_that_may_not_be_entered(self, tmp_path: Path, mode: int, advice: str) -> None:
        tmp_path.chmod(mode)
        told, found = self.denied(tmp_path / "gone.sock"), tmp_path.stat()
        names = {"user": complaint._user_name(found.st_uid), "group": complaint._group_name(found.st_gid)}
        assert f"The folder {tmp_path} belongs to " in told
        assert advice.format(**names) in told

    def test_a_folder_in_one_that_may_not_be_entered(self, tmp_path: Path) -> None:
        assert f"You may not enter the folder {tmp_path}/in" in self.denied(tmp_path / "in" / "gone.sock")

    def test_ids_without_a_name(self) -> None:
        assert complaint._user_name(2_000_000_001) == "2000000001"
        assert complaint._group_name(2_000_000_001) == "2000000001"

    def test_it_is_no_daemon_not_running(self, tmp_path: Path) -> None:
        error = complaint.explain(PermissionError(13, "Permission denied"), tmp_path, "top")
        assert not isinstance(error, DaemonNotRunning)


def test_a_daemon_that_is_silent_may_still_act() -> None:
    told = complaint.explain(TimeoutError(), Path("/s"), "pause")
    assert isinstance(told, DaemonSilent)
    assert "may still do what it was asked" in str(told)
    assert max(map(len, str(told).splitlines())) <= 80
