"""The JSON Schema against the models: it takes what they take, and every key of theirs is in it."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from llmgate.config.schema import schema
from llmgate.config.settings import EndpointSettings, Settings, UpstreamSettings
from llmgate.config.written import written

SCHEMA = schema()
ROOT = Path(__file__).parents[2]
EXAMPLE = re.sub(r'^#(?=[^ #\n])|^#(?=  ["{])', "", (ROOT / "etc" / "llmgate.toml").read_text(), flags=re.MULTILINE)


def complaints(value: Any, wanted: dict[str, Any], path: str = "") -> list[str]:
    """What a validator would say, for the few words of JSON Schema that ours has."""
    if "$ref" in wanted:
        return complaints(value, SCHEMA["$defs"][wanted["$ref"].rpartition("/")[2]], path)
    said = [] if _is(value, wanted.get("type")) else [f"{path} is no {wanted['type']}"]
    if "anyOf" in wanted and all(complaints(value, each, path) for each in wanted["anyOf"]):
        said.append(f"{path} is none of the {len(wanted['anyOf'])}")
    if value not in wanted.get("enum", [value]) or value != wanted.get("const", value):
        said.append(f"{path} is another value")
    if isinstance(value, str) and not re.search(wanted.get("pattern", ""), value):
        said.append(f"{path} does not match")
    if isinstance(value, int | float) and not wanted.get("minimum", value) <= value <= wanted.get("maximum", value):
        said.append(f"{path} is out of bounds")
    if isinstance(value, list):
        said += [text for item in value for text in complaints(item, wanted.get("items", {}), f"{path}[]")]
        said += [f"{path} is too short"] if len(value) < wanted.get("minItems", 0) else []
    if isinstance(value, dict):
        said += [f"{path} lacks {key}" for key in wanted.get("required", ()) if key not in value]
        said += [text for key, item in value.items() for text in _of_key(key, item, wanted, f"{path}.{key}")]
    return said


def _is(value: Any, kind: Any) -> bool:
    kinds: dict[str, Any] = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int}
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    return kind is None or (isinstance(value, kinds[kind]) and (kind != "integer" or not isinstance(value, bool)))


def _of_key(key: str, item: Any, wanted: dict[str, Any], path: str) -> list[str]:
    properties = wanted.get("properties", {})
    if key in properties:
        return complaints(item, properties[key], path)
    other = wanted.get("additionalProperties", {})
    return complaints(item, other, path) if isinstance(other, dict) else [f"{path} is unknown"]


@pytest.mark.parametrize("text", [(ROOT / "etc" / "llmgate-minimal.toml").read_text(), EXAMPLE])
def test_the_examples_are_valid(text: str) -> None:
    assert complaints(tomllib.loads(text), SCHEMA) == []


def test_what_config_show_prints_is_valid() -> None:
    settings = Settings.model_validate({"upstreams": {"a": {"url": "http://h", "max_concurrent": 1}}})
    assert complaints(json.loads(json.dumps(written(settings))), SCHEMA) == []


UPSTREAM = {"url": "http://h", "max_concurrent": 1}


@pytest.mark.parametrize(
    "upstream",
    [
        {"url": "http://h", "max_concurrent": "auto", "queue_timeout": "1h", "stall_alarm": 2.5},
        {"url": "http://h", "max_concurrent": 1, "queue_timeout": "none", "max_queued": "none"},
        {"url": "http://h", "maxConcurrent": 1, "maxQueued": 3, "queueTimeoutMs": 5000},
        {"endpoints": [{"url": "http://h", "max_concurrent": 1}, {"url": "http://g", "maxConcurrent": 2}]},
    ],
)
def test_every_way_to_write_an_upstream_is_valid(upstream: Any) -> None:
    assert complaints({"upstreams": {"a": upstream}}, SCHEMA) == []
    assert complaints({"providers": {"a": upstream}}, SCHEMA) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"nonsense": {}},
        {"server": {"lisen": []}},
        {"server": {"listen": "127.0.0.1:1"}},
        {"server": {"listen": []}},
        {"server": {"max_body": "64 parrots"}},
        {"server": {"drain_timeout": True}},
        {"log": {"level": "loud"}},
        {"admin": {"mode": "0777"}},
        {"upstreams": {"a": {"url": "http://h"}}},
        {"upstreams": {"a": {**UPSTREAM, "max_queued": -1}}},
        {"upstreams": {"a": {**UPSTREAM, "queue_timeout": "soon"}}},
        {"upstreams": {"a": {**UPSTREAM, "force_stream": "yes"}}},
        {"upstreams": {"a": {"endpoints": [{"url": "http://h", "max_concurrent": 0}]}}},
    ],
)
def test_what_the_daemon_refuses_is_not_valid(wrong: Any) -> None:
    assert complaints(wrong, SCHEMA) != []


def test_every_key_has_its_description_and_its_reload_class() -> None:
    upstream, endpoint = SCHEMA["$defs"]["upstream"]["properties"], SCHEMA["$defs"]["endpoint"]["properties"]
    for properties, model in ((upstream, UpstreamSettings), (endpoint, EndpointSettings)):
        for name, field in model.model_fields.items():
            assert properties[name]["description"] == field.description
            assert properties[name]["x-reload"] in ("live", "restart")
    assert SCHEMA["properties"].keys() == {*Settings.model_fields, "providers"}
    assert SCHEMA["properties"]["server"]["properties"]["max_body"]["default"] == "64MiB"


def test_it_is_plain_json() -> None:
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA
