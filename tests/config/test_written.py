"""Settings that are written down load as the same settings."""

from pathlib import Path
from typing import Any

from llmgate.config.load import load
from llmgate.config.settings import Settings
from llmgate.config.toml import dump
from llmgate.config.written import HIDDEN, written

FULL: dict[str, Any] = {
    "server": {"listen": ["127.0.0.1:8080", "unix:/run/x.sock"], "max_body": "1536KiB", "drain_timeout": "250ms"},
    "admin": {"socket": "/run/x/admin.sock", "mode": "0660"},
    "waiting": {"heartbeat": 2.5},
    "log": {"level": "debug"},
    "upstreams": {
        "a": {"url": "http://h", "max_concurrent": 3, "queue_timeout": "90m", "max_queued": 0, "aliases": {"x": "y"}},
        "b": {"url": "http://h:1", "max_concurrent": "auto", "queue_timeout": 0, "ca_file": "/etc/x.pem"},
        "c": {"endpoints": [{"url": "http://h:2", "max_concurrent": "auto"}, {"url": "http://g", "max_concurrent": 2}]},
    },
}  # fmt: skip


def test_it_loads_as_the_same_settings(tmp_path: Path) -> None:
    settings = Settings.model_validate(FULL)
    file = tmp_path / "l.toml"
    file.write_text(dump(written(settings)).replace('ca_file = "/etc/x.pem"', ""))
    expected = FULL["upstreams"] | {"b": {**FULL["upstreams"]["b"], "ca_file": ""}}
    assert load(file, environ={}).settings == Settings.model_validate(FULL | {"upstreams": expected})


def test_every_key_is_there_with_units() -> None:
    told = written(Settings.model_validate(FULL))
    assert told.keys() == Settings.model_fields.keys()
    assert (told["server"]["max_body"], told["server"]["drain_timeout"]) == ("1536KiB", "250ms")
    assert (told["admin"]["mode"], told["admin"]["socket"]) == ("0660", "/run/x/admin.sock")
    assert (told["upstreams"]["a"]["queue_timeout"], told["upstreams"]["a"]["max_queued"]) == ("90m", 0)
    assert (told["upstreams"]["b"]["queue_timeout"], told["upstreams"]["b"]["max_queued"]) == (0, "none")
    assert "endpoints" not in told["upstreams"]["a"]
    assert "url" not in told["upstreams"]["c"]


def test_values_of_headers_are_hidden() -> None:
    upstream = {"url": "http://h", "max_concurrent": 1, "headers": {"x-key": "hunter2"}}
    told = written(Settings.model_validate({"upstreams": {"a": upstream}}))
    assert told["upstreams"]["a"]["headers"] == {"x-key": HIDDEN}
    assert "hunter2" not in str(told)
