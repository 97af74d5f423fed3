"""The keys of upstreams, from the environment and from files."""

import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from llmgate.config.keys import Keys
from llmgate.config.settings import Settings


def keys(environ: dict[str, str] | None = None, **table: Any) -> Keys:
    upstream = {"url": "https://h", "max_concurrent": 1, **table}
    return Keys(Settings.model_validate({"upstreams": {"a": upstream}}), environ or {})


def texts(found: Keys) -> list[str]:
    return [str(problem) for problem in (*found.problems, *found.oddities)]


def test_an_upstream_without_a_key_has_none() -> None:
    found = keys()
    assert found.by_upstream == {}
    assert texts(found) == []


def test_a_key_comes_from_the_environment() -> None:
    found = keys({"KEY": "hunter2"}, api_key_env="KEY")
    assert found.by_upstream["a"].get_secret_value() == "hunter2"
    assert "hunter2" not in repr(found.by_upstream)


def test_a_key_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("hunter2\n")
    file.chmod(0o600)
    found = keys(api_key_file=str(file))
    assert found.by_upstream["a"].get_secret_value() == "hunter2"
    assert texts(found) == []


def test_a_file_that_everybody_can_read_is_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("hunter2")
    file.chmod(0o604)
    found = keys(api_key_file=str(file))
    assert found.by_upstream.keys() == {"a"}
    assert texts(found) == ["upstreams.a.api_key_file can be read by every user of this machine: chmod o-r"]


def test_a_variable_that_is_not_set_is_a_problem() -> None:
    assert texts(keys(api_key_env="KEY")) == ["upstreams.a.api_key_env names an environment variable that is not set"]


@pytest.mark.parametrize(
    "key", ["", " ", "hunter2\nhunter2", "hunter2 x", "hünter2", "hunter2\0", "a" * 20_000], ids=len
)
def test_what_cannot_be_a_key_is_a_problem_and_not_told(tmp_path: Path, key: str) -> None:
    file = tmp_path / "key"
    file.write_text(key)
    for found in (keys({"KEY": key}, api_key_env="KEY"), keys(api_key_file=str(file))):
        assert found.by_upstream == {}
        assert "must hold one key" in found.problems[0].text
        assert "hunter2" not in "".join(texts(found))


@pytest.mark.parametrize("key", ["api_key_file", "ca_file"])
@pytest.mark.parametrize(("name", "reason"), [("missing", "No such file"), ("", "Is a directory")])
def test_files_must_be_readable(tmp_path: Path, key: str, name: str, reason: str) -> None:
    (text,) = texts(keys(**{key: str(tmp_path / name)}))
    assert text.startswith(f"upstreams.a.{key} must be a file that can be read: {reason}")


def test_a_file_of_others_is_a_problem(tmp_path: Path, as_nobody: Callable[[], AbstractContextManager[None]]) -> None:
    (tmp_path / "key").write_text("k")
    (tmp_path / "key").chmod(0)
    with as_nobody():
        assert "Permission denied" in texts(keys(api_key_file=str(tmp_path / "key")))[0]


def test_certificates_that_can_be_read_are_fine(tmp_path: Path) -> None:
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", "-keyout", "/dev/null"]
    made = subprocess.run([*command, "-out", tmp_path / "ca.pem"], capture_output=True, check=False)
    assert made.returncode == 0, made.stderr
    assert texts(keys(ca_file=str(tmp_path / "ca.pem"))) == []


def test_a_file_without_certificates_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("x")
    assert texts(keys(ca_file=str(tmp_path / "ca.pem"))) == ["upstreams.a.ca_file must hold certificates in PEM form"]
