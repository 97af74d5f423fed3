"""The limits of an upstream as a person types and reads them: max_concurrent=2, max_queued=none, queue_timeout=5m."""

from collections.abc import Mapping
from pathlib import Path

from llmgate.config.edit import set_values
from llmgate.config.units import BadValue, format_duration, parse_duration

LIMITS = ("max_concurrent", "max_queued", "queue_timeout")
NOTHING = ("none", "null", "unlimited")


def parse_limit(text: str) -> tuple[str, float | None]:
    """Name and value of one; queue_timeout in seconds, None = no limit, for ever. BadValue says what is allowed."""
    name, equals, value = text.partition("=")
    if not equals or name not in LIMITS:
        raise BadValue(f"{text}: must be LIMIT=VALUE, and LIMIT one of {', '.join(LIMITS)}")
    if name != "max_concurrent" and value.lower() in NOTHING:
        return name, None
    if name == "queue_timeout":
        try:
            return name, parse_duration(value) or None
        except BadValue as error:
            raise BadValue(f"{name} {error}") from None
    if not (value.isascii() and value.isdigit()):
        raise BadValue(f"{name} must be a whole number, 0 or more")
    return name, int(value)


def limit_text(name: str, value: float | None) -> str:
    """The value as `parse_limit` reads it."""
    if value is None:
        return "none"
    return format_duration(value) if name == "queue_timeout" else str(value)


def write_limits(file: Path, upstream: str, limits: Mapping[str, float | None]) -> None:
    """Into the settings file; None takes one out. SettingsError, and the file is untouched, where that cannot be."""
    written = {
        name: format_duration(value) if name == "queue_timeout" and value is not None else value
        for name, value in limits.items()
    }
    set_values(file, ("upstreams", upstream), written)
