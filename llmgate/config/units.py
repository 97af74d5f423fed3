"""Durations, sizes and file modes as they are written in settings, and back to the text that a person reads."""

import math
import re

_DURATION_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*", re.ASCII)
_SIZE_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", re.ASCII)
_LONGEST_SECONDS = 10 * 365 * 86400.0

NO_LIMIT = ("none", "unlimited", "null")
"""What a limit may be called that is none: on the command line, and in quotes in a settings file."""

DURATION_HELP = 'a number of seconds, or text such as "250ms", "90s", "5m" or "1h"'
SIZE_HELP = 'a whole number of bytes, or text such as "512KiB" or "64MiB"'
MODE_HELP = '"0600" (its owner only) or "0660" (also its group)'


class BadValue(ValueError):
    """A value that a setting may not have; the text says what is allowed, never what was given: it may be a secret."""


def is_no_limit(value: object) -> bool:
    """Whether it is one of these words, however it is spelt."""
    return isinstance(value, str) and value.strip().lower() in NO_LIMIT


def parse_duration(value: object) -> float:
    """Seconds of `90`, `2.5`, `"250ms"`, `"90s"`, `"5m"`, `"1h"` or `"1d"`; BadValue says what is allowed."""
    if isinstance(value, str):
        match = _DURATION.fullmatch(value)
        if match is None:
            raise BadValue(f"must be {DURATION_HELP}")
        seconds = float(match[1]) * _DURATION_UNITS[match[2] or "s"]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(min(value, 1 << 62))
    else:
        raise BadValue(f"must be {DURATION_HELP}")
    if math.isnan(seconds) or seconds < 0:
        raise BadValue(f"must not be negative: {DURATION_HELP}")
    if seconds > _LONGEST_SECONDS:
        raise BadValue("must be at most ten years")
    return seconds


def format_duration(seconds: float) -> str:
    """The shortest of `250ms`, `90s`, `5m`, `1h` that says this to the microsecond; parse_duration reads it back."""
    micros = round(seconds * 1_000_000)
    if 0 < micros < 1_000_000:
        return f"{_decimal(micros, 3)}ms"
    if micros % 60_000_000:
        return f"{_decimal(micros, 6)}s"
    minutes = micros // 60_000_000
    for unit, size in (("d", 24 * 60), ("h", 60), ("m", 1)):
        if minutes and minutes % size == 0:
            return f"{minutes // size}{unit}"
    return "0s"


def _decimal(number: int, places: int) -> str:
    whole, rest = divmod(number, 10**places)
    return f"{whole}.{rest:0{places}}".rstrip("0").rstrip(".")


def parse_size(value: object) -> int:
    """Bytes of `1048576`, `"512KiB"` or `"64MiB"`; BadValue says what is allowed."""
    if isinstance(value, str):
        match = _SIZE.fullmatch(value)
        if match is None or match[2] not in _SIZE_UNITS:
            raise BadValue(f"must be {SIZE_HELP}")
        size = float(match[1]) * _SIZE_UNITS[match[2]] if "." in match[1] else int(match[1]) * _SIZE_UNITS[match[2]]
    elif isinstance(value, int) and not isinstance(value, bool):
        size = value
    else:
        raise BadValue(f"must be {SIZE_HELP}")
    if size != int(size) or not 1 <= size <= 1 << 40:
        raise BadValue("must be a whole number of bytes, at least one and at most 1024GiB")
    return int(size)


def format_size(size: int) -> str:
    """`64MiB`, `512KiB` or plain bytes, whichever says exactly this."""
    for unit in ("GiB", "MiB", "KiB"):
        if size and size % _SIZE_UNITS[unit] == 0:
            return f"{size // _SIZE_UNITS[unit]}{unit}"
    return str(size)


def parse_mode(value: object) -> int:
    """The permission bits of `"0600"` or `"0660"`; as a number only in octal, since 600 is not 0o600."""
    bits = int(value, 8) if isinstance(value, str) and re.fullmatch(r"0?[0-7]{3}", value, re.ASCII) else value
    if bits not in (0o600, 0o660) or not isinstance(bits, int):
        raise BadValue(f"must be {MODE_HELP}")
    return bits


def format_mode(mode: int) -> str:
    return f"{mode:04o}"
