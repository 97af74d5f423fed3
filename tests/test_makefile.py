"""What `make` would do, as far as that depends on what it is told."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from llmgate.cli.completion import Shell

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def planned(*arguments: str) -> str:
    """As from a shell, and not from `make test`, which hands its own variables on."""
    line = ["make", "--no-print-directory", "-n", *arguments]
    environ = {"PATH": os.environ["PATH"]}
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True, env=environ).stdout


@pytest.mark.parametrize("prefix", ["/usr", "/usr/local"])
def test_the_sample_goes_where_it_is_read(prefix: str) -> None:
    plan = planned("install", f"PREFIX={prefix}")
    assert " etc/llmgate.toml /etc/llmgate/llmgate.toml" in plan
    assert "systemctl enable --now llmgate" in plan


def test_elsewhere_it_is_documentation_only() -> None:
    plan = planned("install", "PREFIX=/opt/x")
    assert " etc/llmgate.toml /" not in plan
    assert "systemctl" not in plan
    assert "/opt/x/bin/llmgate serve --upstream NAME=" in plan


def test_all_that_etc_and_man_hold_is_put_in_place(tmp_path: Path) -> None:
    """The commands that copy files are run; those that make an environment are not."""
    plan = planned("install", "PREFIX=/opt/x", f"DESTDIR={tmp_path}").replace("\\\n", " ").splitlines()
    copying = [line for line in plan if line.startswith("for ") and "install -D -m 644" in line]
    assert len(copying) == 5
    subprocess.run(["sh", "-ec", "\n".join(copying)], cwd=ROOT, check=True)
    placed = {str(path.relative_to(tmp_path / "opt" / "x")) for path in tmp_path.rglob("*") if path.is_file()}
    own = {"sysusers.d": "lib/sysusers.d", "tmpfiles.d": "lib/tmpfiles.d", "systemd": "lib/systemd"}
    for path in (ROOT / "etc").rglob("*.*"):
        if path.is_file():
            first, *rest = path.relative_to(ROOT / "etc").parts
            assert "/".join([own.get(first, f"share/doc/llmgate/{first}"), *rest]) in placed
    for path in (ROOT / "man").iterdir():
        assert f"share/man/man{path.suffix[1:]}/{path.name}" in placed
    for path in (ROOT / "docs").rglob("*.md"):
        assert f"share/doc/llmgate/{path.relative_to(ROOT)}" in placed
    assert {"share/doc/llmgate/docker/Dockerfile", "share/doc/llmgate/Caddyfile"} <= placed
    for scope in ("system", "user"):
        unit = tmp_path / "opt" / "x" / "lib" / "systemd" / scope / "llmgate.service"
        assert "\nExecStart=/opt/x/bin/llmgate serve" in unit.read_text()
        assert unit.stat().st_mode & 0o777 == 0o644


def test_the_completions_of_every_shell_are_installed() -> None:
    plan = planned("install", "PREFIX=/opt/x", "DESTDIR=/d")
    (loop,) = [line for line in plan.replace("\\\n", " ").splitlines() if "llmgate completion" in line]
    assert all(f" {shell}:" in f" {loop.removeprefix('for words in')}" for shell in Shell)
    assert "/d/opt/x/share/" in loop


def test_the_demo_can_be_told_where_to_listen() -> None:
    assert planned("demo").rstrip().endswith("llmgate demo")
    assert "llmgate demo --listen 127.0.0.1:8081" in planned("demo", "LISTEN=127.0.0.1:8081")
    assert "llmgate demo --admin-socket /tmp/s" in re.sub(" +", " ", planned("demo", "SOCKET=/tmp/s"))


def test_the_soak_takes_half_an_hour_unless_told() -> None:
    assert "SOAK_SECONDS=1800 " in planned("soak")
    assert "SOAK_SECONDS=60 " in planned("soak", "SOAK_SECONDS=60")


@pytest.mark.parametrize(
    "fetched", ["npm-cli.js", "requirements/clients/langchain.txt", "requirements/clients/litellm.txt"]
)
def test_only_the_slow_tests_fetch_what_is_big(fetched: str) -> None:
    """`make test` on a fresh machine stays quick."""
    fresh = "VENV=.no-such-venv"
    assert fetched not in planned("test", fresh)
    assert fetched in planned("slow", fresh)
