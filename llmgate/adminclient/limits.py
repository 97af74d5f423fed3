"""The limits of an upstream as a person types and reads them: max_concurrent=2, max_queued=none, queue_timeout=5m."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from llmgate.config.edit import set_values
from llmgate.config.units import BadValue, format_duration, is_no_limit
from llmgate.config.values import parse_clock

LIMITS = ("max_concurrent", "max_queued", "queue_timeout")
AUTO: Literal["auto"] = "auto"

Limit = float | Literal["auto"] | None
"""Seconds of queue_timeout; None = no limit, for ever; "auto", of max_concurrent, is the server's own slots."""


def parse_limit(text: str) -> tuple[str, Limit]:
    """Name and value of one. BadValue says what is allowed."""
    name, equals, value = text.partition("=")
    if not equals or name not in LIMITS:
        raise BadValue(f"{text}: must be LIMIT=VALUE, and LIMIT one of {', '.join(LIMITS)}")
    if name != "max_concurrent" and is_no_limit(value):
        return name, None
    if name == "queue_timeout":
        try:
            return name, parse_clock(value)
        except BadValue as error:
            raise BadValue(f"{name} {error}") from None
    if name == "max_concurrent" and value.lower() == AUTO:
        return name, AUTO
    if not (value.isascii() and value.isdigit()):
        raise BadValue(f"{name} must be {_WHAT[name]}")
    return name, int(value)


_WHAT = {
    "max_concurrent": "a whole number, 0 (not gated) or more, or auto",
    "max_queued": "a whole number, 0 (refuse at once when busy) or more, or none",
}


def limit_text(name: str, value: Limit) -> str:
    """The value as `parse_limit` reads it, with what 0 means."""
    if value is None:
        return "none"
    if name == "max_concurrent" and value == 0:
        return "0 (not gated)"
    return format_duration(value) if name == "queue_timeout" and value != AUTO else str(value)


def write_limits(file: Path, upstream: str, limits: Mapping[str, Limit]) -> None:
    """Into the settings file; None takes one out. SettingsError, and the file is untouched, where that cannot be."""
    written = {
        name: format_duration(value) if name == "queue_timeout" and isinstance(value, (int, float)) else value
        for name, value in limits.items()
    }
    set_values(file, ("upstreams", upstream), written)
