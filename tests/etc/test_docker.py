"""Dockerfile and compose.yaml against the program and this repository. No Docker is asked: what these name must exist,
and what the container is set to must be what llmgate takes. The health check is run by tests/e2e/operations."""

import fnmatch
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from llmgate.cli.app import app
from llmgate.config.load import Loaded, load
from llmgate.config.paths import settings_files
from llmgate.config.settings import Settings
from llmgate.config.units import parse_duration

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "etc" / "docker"
STEPS = re.sub(r"\\\n\s*", "", (FOLDER / "Dockerfile").read_text())
SERVICE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]["llmgate"]


def steps(verb: str) -> list[str]:
    return re.findall(rf"^{verb} (.*)$", STEPS, re.MULTILINE)


def step(verb: str) -> str:
    (found,) = steps(verb)
    return found


def environ() -> dict[str, str]:
    """Of the image."""
    return dict(word.split("=", 1) for word in step("ENV").split())


def loaded(folder: Path, **more: str) -> Loaded:
    """As the container reads them."""
    file = folder / "llmgate.toml"
    file.write_text((ROOT / "etc" / "llmgate-minimal.toml").read_text())
    return load(file, environ={**environ(), **more})


def copied() -> list[str]:
    """What is copied out of the repository."""
    return [name for line in steps("COPY") if not line.startswith("--from") for name in line.split()[:-1]]


def test_what_is_copied_is_there_and_is_sent_to_the_builder() -> None:
    ignored, *kept = (
        line for line in (FOLDER / "Dockerfile.dockerignore").read_text().splitlines() if not line.startswith("#")
    )
    assert ignored == "*"
    assert sorted(name.removeprefix("!") for name in kept if name.startswith("!")) == sorted(copied())
    assert all((ROOT / name).exists() for name in copied())
    assert SERVICE["build"] == {"context": "../..", "dockerfile": "etc/docker/Dockerfile"}


def test_what_it_runs_has_what_it_needs() -> None:
    needed = re.findall(r"-r (\S+)", STEPS)
    assert needed
    assert set(needed) <= set(copied())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {project["readme"], *project.get("license-files", [])} <= {*copied()}
    (wheel,) = re.findall(r"dist/(\S+\.whl)", STEPS)
    assert fnmatch.fnmatch(f"{project['name']}-0.1.0-py3-none-any.whl", wheel)
    lowest = tuple(map(int, project["requires-python"].removeprefix(">=").split(".")))
    for base in re.findall(r"^FROM python:(\d+)\.(\d+)-slim", STEPS, re.MULTILINE):
        assert tuple(map(int, base)) >= lowest


def test_it_is_nobody_in_particular_everywhere() -> None:
    user = step("USER")
    assert re.fullmatch(r"([1-9]\d{3,}):\1", user)
    assert SERVICE["user"] == user
    uid = user.partition(":")[0]
    assert f"-o {uid} -g {uid} -m 0700 /run/llmgate" in STEPS
    assert SERVICE["tmpfs"] == [f"/run/llmgate:uid={uid},gid={uid},mode=0700"]
    assert SERVICE["read_only"] is True
    assert SERVICE["cap_drop"] == ["ALL"]
    assert SERVICE["security_opt"] == ["no-new-privileges:true"]


def test_the_command_is_one() -> None:
    assert json.loads(step("ENTRYPOINT")) == ["llmgate"]
    name, *options = json.loads(step("CMD"))
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    with command.make_context(name, list(options), resilient_parsing=True) as context:
        assert str(context.params["admin_socket"]) == "/run/llmgate/admin.sock"


def test_without_leave_or_keys_the_image_does_not_serve_everybody(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="and no key is asked"):
        loaded(tmp_path)


def test_compose_sets_what_llmgate_takes(tmp_path: Path) -> None:
    found = loaded(tmp_path, **SERVICE["environment"])
    assert found.warnings == ()
    assert found.settings.log.format == "json"
    assert found.settings.server.allow_open
    assert found.settings.server.allowed_hosts == ("llmgate",), "the name of the service"
    (address,) = found.settings.server.listen
    port = address.rpartition(":")[2]
    assert step("EXPOSE") == port
    assert SERVICE["ports"] == [f"127.0.0.1:{port}:{port}"], "this machine only, since no key is asked"


def test_the_settings_lie_where_they_are_looked_for() -> None:
    (mount,) = SERVICE["volumes"]
    assert Path(mount["target"]) in settings_files(environ())
    assert mount["read_only"] is True


def test_it_gets_longer_to_stop_than_its_requests_get() -> None:
    drain = Settings().server.drain_timeout
    assert parse_duration(SERVICE["stop_grace_period"]) > drain
    (told,) = re.findall(r"docker stop --time (\d+)", STEPS)
    assert int(told) > drain
    assert step("STOPSIGNAL") == "SIGTERM"
