"""`llmgate config show` and `config schema`."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from llmgate.cli.config_show import flat
from llmgate.config.load import load

TEXT = """\
[upstreams.a]
url = "http://127.0.0.1:8000"
maxConcurrent = 2
headers = { x-key = "hunter2" }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "llmgate.toml"
    path.write_text(TEXT)
    return path


def test_it_is_a_settings_file_with_every_key(run: Any, file: Path) -> None:
    shown = run("config", "show", file)
    assert (shown.status, shown.err) == (0, "")
    told = tomllib.loads(shown.out)
    assert told["upstreams"]["a"]["max_concurrent"] == 2
    assert told["server"]["max_body"] == "64MiB"
    again = file.with_name("again.toml")
    again.write_text(shown.out)
    old, new = load(file, environ={}).settings, load(again, environ={}).settings
    assert (new.server, new.log, new.upstreams["a"].url) == (old.server, old.log, old.upstreams["a"].url)


def test_secrets_are_masked(run: Any, file: Path) -> None:
    for line in (("config", "show"), ("config", "show", "--origin"), ("config", "show", "--json")):
        shown = run(*line, "--config", file)
        assert "hunter2" not in shown.out
        assert "x-key" in shown.out


def test_each_key_is_told_with_its_origin(run: Any, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMGATE_SERVER__LISTEN", "127.0.0.1:9")
    lines = run("config", "show", "--origin", "--config", file).out.splitlines()
    assert f"upstreams.a.max_concurrent = 2  # {file}:3" in lines
    assert 'server.listen = ["127.0.0.1:9"]  # environment variable LLMGATE_SERVER__LISTEN' in lines
    assert 'log.level = "info"  # default' in lines
    assert tomllib.loads("\n".join(lines))["upstreams"]["a"]["max_concurrent"] == 2


def test_json_has_settings_and_origins(run: Any, file: Path) -> None:
    told = json.loads(run("config", "show", "--json", "--config", file).out)
    assert next(iter(told)) == "schema"
    assert (told["schema"], told["config"], told["settings"]["upstreams"]["a"]["max_concurrent"]) == (1, str(file), 2)
    assert "origins" not in told
    told = json.loads(run("config", "show", "--json", "--origin", "--config", file).out)
    assert told["origins"]["upstreams.a.url"] == f"{file}:2"


def test_wrong_settings_are_told_with_78(run: Any, file: Path) -> None:
    file.write_text("[server]\nlisen = 1\n")
    shown = run("config", "show", file)
    assert (shown.status, shown.out) == (78, "")
    assert f"{file}:2" in shown.err


def test_flat_keys_lead_to_their_values() -> None:
    assert flat({"log": {"level": 1}, "upstreams": {"a": {"url": 2}}}) == {
        ("log", "level"): 1,
        ("upstreams", "a", "url"): 2,
    }


def test_the_schema_is_printed(run: Any) -> None:
    told = json.loads(run("config", "schema").out)
    assert told["$schema"].startswith("https://json-schema.org/")
    told = json.loads(run("config", "schema", "--json").out)
    assert (told["schema"], told["json_schema"]["type"]) == (1, "object")
