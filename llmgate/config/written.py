"""Settings as a person writes them: from the checked models back to the values that a settings file may hold.

The parser that stands before a field says how its value is written: parse_duration goes with format_duration.
A file of what is given here loads as the same settings, but for the headers' values, which are never shown.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, BeforeValidator, SecretStr
from pydantic.fields import FieldInfo

from llmgate.config import values
from llmgate.config.settings import Settings, UpstreamSettings
from llmgate.config.units import format_duration, format_mode, format_size, parse_duration, parse_mode, parse_size

HIDDEN = "********"


def _clock(seconds: float | None) -> Any:
    return 0 if seconds is None else format_duration(seconds)


_WRITERS: Mapping[Any, Callable[[Any], Any]] = {
    parse_duration: format_duration,
    values.parse_clock: _clock,
    values.parse_heartbeat: format_duration,
    values.parse_retry_after: format_duration,
    parse_size: format_size,
    parse_mode: format_mode,
    values.parse_max_queued: lambda count: "none" if count is None else count,
}


def parser_of(field: FieldInfo) -> Any:
    """The function that reads the field's value as it is written; None where it is taken as it is."""
    return next((each.func for each in field.metadata if isinstance(each, BeforeValidator)), None)


def written(settings: Settings) -> dict[str, Any]:
    """Every key of every section and upstream, nested as in the file; but url or endpoints, where it is the other."""
    return {
        name: {upstream: _section(model) for upstream, model in value.items()}
        if name == "upstreams"
        else _section(value)
        for name, value in ((name, getattr(settings, name)) for name in Settings.model_fields)
    }


def _section(model: BaseModel) -> dict[str, Any]:
    fields = type(model).model_fields
    found = {name: written_value(field, getattr(model, name)) for name, field in fields.items()}
    if isinstance(model, UpstreamSettings):
        del found["endpoints" if model.endpoints is None else "url"]
    return found


def written_value(field: FieldInfo, value: Any) -> Any:
    """One value as it is written in a settings file."""
    writer = _WRITERS.get(parser_of(field))
    return writer(value) if writer is not None else _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return HIDDEN
    if value is None:
        return ""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, BaseModel):
        return _section(value)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
