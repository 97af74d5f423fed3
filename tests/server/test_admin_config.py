"""The settings in force, key by key, with where each came from; secrets never."""

from pathlib import Path
from typing import Any

from llmgate.adminapi import encode
from llmgate.config.load import Loaded, load
from llmgate.config.settings import Settings, UpstreamSettings
from llmgate.server.admin_config import view_config

CANARY = "canary-4711"
FILE = f"""
[server]
max_body = "1MiB"
[upstreams."a.b"]
url = "http://x:1"
models = ["m"]
max_concurrent = 2
headers = {{ "x-key" = "{CANARY}" }}
"""


def shown(tmp_path: Path, **more: Any) -> dict[str, Any]:
    file = tmp_path / "x.toml"
    file.write_text(FILE)
    loaded = load(file, environ={"LLMGATE_WAITING__HEARTBEAT": "2s"}, overrides={"log": {"level": "debug"}})
    found = view_config(loaded, loaded.settings)
    assert CANARY.encode() not in encode(found)
    assert found.file == str(file)
    return {value.key: value for value in found.values}


def test_values_as_they_are_written_and_their_origins(tmp_path: Path) -> None:
    values = shown(tmp_path)
    told = {
        "server.max_body": ("1MiB", f"{tmp_path}/x.toml:3", "live"),
        "server.listen": (["127.0.0.1:8080"], "default", "restart"),
        "waiting.heartbeat": ("2s", "environment variable LLMGATE_WAITING__HEARTBEAT", "live"),
        "log.level": ("debug", "command line", "live"),
        'upstreams."a.b".max_concurrent': (2, f"{tmp_path}/x.toml:7", "live"),
        'upstreams."a.b".url': ("http://x:1", f"{tmp_path}/x.toml:5", "restart"),
    }
    for key, expected in told.items():
        value = values[key]
        assert (value.value, value.origin) == expected[:2]
        assert value.reload in ("live", "restart")


def test_every_key_is_there(tmp_path: Path) -> None:
    keys = shown(tmp_path)
    sections = {name: getattr(Settings(), name) for name in Settings.model_fields if name != "upstreams"}
    wanted = {f"{name}.{key}" for name, section in sections.items() for key in type(section).model_fields}
    wanted |= {f'upstreams."a.b".{key}' for key in UpstreamSettings.model_fields if key != "endpoints"}
    assert set(keys) == wanted


def test_without_origins_they_are_left_empty() -> None:
    found = view_config(Loaded(Settings(), None), Settings())
    assert {value.origin for value in found.values} == {""}
    assert found.file == ""
