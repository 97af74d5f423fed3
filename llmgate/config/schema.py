"""The JSON Schema of a settings file, made from the models: for editors, and for whoever writes settings by program.

It takes what the daemon takes, as it is written: durations and sizes as numbers or text, other spellings of a key. What
several keys say together is beyond it: `llmgate config check` looks at that.
"""

import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from llmgate.config import values
from llmgate.config.settings import EndpointSettings, Settings, UpstreamSettings
from llmgate.config.synonyms import KEYS
from llmgate.config.units import DURATION_HELP, MODE_HELP, NO_LIMIT, SIZE_HELP, parse_duration, parse_mode, parse_size
from llmgate.config.written import parser_of, written_value

DRAFT = "https://json-schema.org/draft/2020-12/schema"

_DURATION = {
    "anyOf": [
        {"type": "number", "minimum": 0},
        {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*(ms|s|m|h|d)?\s*$"},
    ],
    "title": DURATION_HELP,
}
_NO_LIMIT = {"enum": list(NO_LIMIT)}
_CLOCK = {"anyOf": [*_DURATION["anyOf"], _NO_LIMIT], "title": f'{DURATION_HELP}, or "none"'}
_SIZE = {
    "anyOf": [
        {"type": "integer", "minimum": 1},
        {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*(B|KiB|MiB|GiB|KB|MB|GB)?\s*$"},
    ],
    "title": SIZE_HELP,
}
_COUNT = {"type": "integer", "minimum": 0, "maximum": (1 << 31) - 1}
_TEXTS = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
_MODE = {"anyOf": [{"type": "string", "pattern": "^0?6[06]0$"}, {"enum": [0o600, 0o660]}], "title": MODE_HELP}

_BY_PARSER: Mapping[Any, Mapping[str, Any]] = {
    parse_duration: _DURATION,
    values.parse_clock: _CLOCK,
    values.parse_heartbeat: _DURATION,
    values.parse_retry_after: _DURATION,
    parse_size: _SIZE,
    parse_mode: _MODE,
    values.parse_count: _COUNT,
    values.parse_max_queued: {"anyOf": [_COUNT, _NO_LIMIT]},
    values.parse_max_concurrent: {"anyOf": [_COUNT, {"const": "auto"}]},
    values.parse_endpoint_max_concurrent: {"anyOf": [{**_COUNT, "minimum": 1}, {"const": "auto"}]},
    values.parse_listens: {**_TEXTS, "minItems": 1},
    values.parse_prefixes: {**_TEXTS, "minItems": 1},
}


def schema() -> dict[str, Any]:
    """The whole schema, as draft 2020-12."""
    sections = {name: field for name, field in Settings.model_fields.items() if name != "upstreams"}
    properties: dict[str, Any] = {name: _section(field) for name, field in sections.items()}
    upstreams = {
        "type": "object",
        "description": Settings.model_fields["upstreams"].description,
        "propertyNames": {"pattern": "^[A-Za-z0-9._-]{1,64}$"},
        "additionalProperties": {"$ref": "#/$defs/upstream"},
    }
    properties |= {"upstreams": upstreams, "providers": {**upstreams, "description": "Another name for upstreams."}}
    return {
        "$schema": DRAFT,
        "title": "Settings of llmgate",
        **_table(properties),
        "$defs": {"upstream": _upstream(), "endpoint": _endpoint()},
    }


def _table(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": dict(properties)}


def _section(field: FieldInfo) -> dict[str, Any]:
    return {"description": field.description, **_of_type(field.annotation)}


def _keys(model: type[BaseModel]) -> dict[str, Any]:
    return {name: _key(field) for name, field in model.model_fields.items()}


def _key(field: FieldInfo) -> dict[str, Any]:
    told: dict[str, Any] = {"description": field.description, **_shape(field)}
    if not field.is_required() and field.default not in (None, PydanticUndefined):
        told["default"] = written_value(field, field.default)
    extra = field.json_schema_extra
    return told | ({f"x-{name}": value for name, value in extra.items()} if isinstance(extra, dict) else {})


def _shape(field: FieldInfo) -> dict[str, Any]:
    """By the parser before the field, where what is written is not of the field's own type; else by that type."""
    parser = parser_of(field)
    return dict(_BY_PARSER[parser]) if parser in _BY_PARSER else _of_type(field.annotation)


def _of_type(annotation: Any) -> dict[str, Any]:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        return _of_type(next(part for part in arguments if part is not type(None)))
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        return {"type": "array", "items": _of_type(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _of_type(arguments[1])}
    if origin is typing.Annotated:
        return _of_type(arguments[0])
    if annotation is EndpointSettings:
        return {"$ref": "#/$defs/endpoint"}
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _table(_keys(annotation))
    return dict(_TYPES.get(annotation, {}))


_TYPES: Mapping[Any, Mapping[str, Any]] = {
    str: {"type": "string"},
    SecretStr: {"type": "string"},
    Path: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
}


def _upstream() -> dict[str, Any]:
    keys = _with_synonyms(_keys(UpstreamSettings))
    limited = {"anyOf": [{"required": [name]} for name in ("max_concurrent", _old("max_concurrent"))]}
    alone = {"required": ["url"], **limited}
    return {**_table(keys), "anyOf": [alone, {"required": ["endpoints"]}]}


def _endpoint() -> dict[str, Any]:
    keys = _with_synonyms(_keys(EndpointSettings))
    limited = [{"required": ["url", name]} for name in ("max_concurrent", _old("max_concurrent"))]
    return {**_table(keys), "anyOf": limited}


def _old(name: str) -> str:
    return next(old for old, new in KEYS.items() if new == name)


def _with_synonyms(keys: Mapping[str, Any]) -> dict[str, Any]:
    """The spellings of the plugin that llmgate grew from, of which one counts milliseconds."""
    added = {
        old: {**keys[new], "deprecated": True} if not old.endswith("Ms") else {**_COUNT, "deprecated": True}
        for old, new in KEYS.items()
        if new in keys
    }
    return {**keys, **added}
