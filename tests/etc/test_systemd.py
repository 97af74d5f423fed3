"""The units, and what lies beside them, as systemd itself reads them (systemd-analyze, -sysusers, -tmpfiles)."""

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from llmgate.config.settings import Settings
from llmgate.config.units import parse_duration
from llmgate.daemon import IN_USE, NOT_ALLOWED, UNUSABLE
from llmgate.server.passed import ADMIN

ETC = Path(__file__).resolve().parents[2] / "etc"
SCOPES = ["system", "user"]
SYSTEM = (ETC / "systemd" / "system" / "llmgate.service").read_text()
COMMAND = "/usr/bin/llmgate"


def ask_systemd(program: str, *arguments: str | Path, runtime: Path | None = None) -> str:
    """What it prints, errors included; it must end with 0. `runtime`: $XDG_RUNTIME_DIR."""
    found = shutil.which(program)
    if found is None:
        pytest.skip("systemd is not installed")
    environ = {**os.environ, **({} if runtime is None else {"XDG_RUNTIME_DIR": str(runtime)})}
    asked = subprocess.run(
        [found, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=environ
    )
    assert asked.returncode == 0, asked.stdout
    return asked.stdout


def with_all(unit: str) -> str:
    """Every line that is there to be taken in is in force."""
    return re.sub(r"^#(?=[A-Z]\w+=)", "", unit, flags=re.MULTILINE)


def values(unit: str, key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", unit, re.MULTILINE)


def value(unit: str, key: str) -> str:
    (found,) = values(unit, key)
    return found


def placed(scope: str, folder: Path, *, everything: bool) -> list[Path]:
    """The units of a scope, for a command that is there."""
    program = folder / "llmgate"
    shutil.copy("/bin/true", program)
    found = []
    for unit in sorted((ETC / "systemd" / scope).iterdir()):
        text = unit.read_text().replace(COMMAND, str(program))
        file = folder / unit.name
        file.write_text(with_all(text) if everything else text)
        found.append(file)
    return found


@pytest.mark.parametrize("everything", [False, True], ids=["as it is", "everything"])
@pytest.mark.parametrize("scope", SCOPES)
def test_systemd_finds_nothing_wrong(scope: str, tmp_path: Path, everything: bool) -> None:
    units = placed(scope, tmp_path, everything=everything)
    assert [unit.name for unit in units] == ["llmgate.service", "llmgate.socket"]
    assert ask_systemd("systemd-analyze", "verify", "--man=no", f"--{scope}", *units, runtime=tmp_path) == ""


@pytest.mark.parametrize("everything", [False, True], ids=["as it is", "everything"])
def test_it_is_exposed_to_1_5_at_most(tmp_path: Path, everything: bool) -> None:
    service, _ = placed("system", tmp_path, everything=everything)
    told = ask_systemd("systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=15", service)
    (exposure,) = re.findall(r"Overall exposure level for llmgate.service: ([\d.]+)", told)
    assert 0 < float(exposure) <= 1.5


@pytest.mark.parametrize("scope", SCOPES)
def test_the_service_is_what_the_daemon_expects(scope: str) -> None:
    unit = (ETC / "systemd" / scope / "llmgate.service").read_text()
    assert value(unit, "Type") == "notify"
    assert parse_duration(value(unit, "WatchdogSec")) == 30
    assert parse_duration(value(unit, "TimeoutStopSec")) > Settings().server.drain_timeout
    assert value(unit, "RestartPreventExitStatus") == f"{IN_USE} {NOT_ALLOWED} {UNUSABLE}"
    assert value(unit, "ExecStart").startswith(f"{COMMAND} serve")


@pytest.mark.parametrize("scope", SCOPES)
def test_the_socket_holds_what_the_settings_would(scope: str) -> None:
    unit = (ETC / "systemd" / scope / "llmgate.socket").read_text()
    assert values(unit, "ListenStream") == list(Settings().server.listen)
    assert ADMIN not in values(unit, "FileDescriptorName")


def test_the_admin_socket_lies_in_the_folder_that_the_service_has() -> None:
    assert value(SYSTEM, "ExecStart").endswith(f" --admin-socket /run/{value(SYSTEM, 'RuntimeDirectory')}/admin.sock")


def test_credentials_are_where_the_unit_says() -> None:
    names = [told.partition(":")[0] for told in values(with_all(SYSTEM), "LoadCredential")]
    (place,) = re.findall(r'api_key_file = "(/run/credentials/llmgate\.service/)(\w+)"', SYSTEM)
    assert place[1] in names
    secrets = re.findall(r"^z (\S+)", (ETC / "tmpfiles.d" / "llmgate.conf").read_text(), re.MULTILINE)
    for told in values(with_all(SYSTEM), "LoadCredential"):
        path = Path(told.partition(":")[2])
        assert any(path.match(pattern) for pattern in secrets), "kept from other users"


@pytest.mark.skipif(os.getuid() != 0, reason="makes files of root")
def test_the_settings_folder_and_its_secrets(tmp_path: Path) -> None:
    folder = tmp_path / "etc" / "llmgate"
    folder.mkdir(parents=True, mode=0o777)
    for name in ("keys.toml", "reasoning.key", "llmgate.toml"):
        (folder / name).write_text("")
        (folder / name).chmod(0o644)
    ask_systemd("systemd-tmpfiles", "--create", f"--root={tmp_path}", ETC / "tmpfiles.d" / "llmgate.conf")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}
    assert modes == {"llmgate": 0o755, "keys.toml": 0o600, "reasoning.key": 0o600, "llmgate.toml": 0o644}


@pytest.mark.skipif(os.getuid() != 0, reason="makes files of root")
def test_the_group_of_those_who_may_act(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    ask_systemd("systemd-sysusers", f"--root={tmp_path}", ETC / "sysusers.d" / "llmgate.conf")
    groups = (tmp_path / "etc" / "group").read_text()
    name = value(with_all(SYSTEM), "Group")
    assert re.search(rf"^{name}:", groups, re.MULTILINE)
    assert f'group = "{name}"' in SYSTEM
    assert name != "llmgate", "a static group of the dynamic user's name would keep that from being made"
