"""Plain values as a TOML text: what tomllib reads back as the same values.

Values are text, numbers, booleans, lists and tables of such. Tables become [headers], two names deep; what lies deeper,
is in a list or is empty stands in braces. A table's own values go before its tables, as TOML wants it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

DEPTH = 2
"""How many names a header has, at most."""

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def dump(values: Mapping[str, Any]) -> str:
    """The whole text; it ends with a newline unless it is empty."""
    return "".join(f"{line}\n" for line in _lines(values, ())).lstrip("\n")


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    deeper = {
        name: value for name, value in table.items() if value and isinstance(value, Mapping) and len(path) < DEPTH
    }
    own = {name: value for name, value in table.items() if name not in deeper}
    if path and own:
        yield ""
        yield header(path)
    for name, value in own.items():
        yield pair(name, value)
    for name, value in deeper.items():
        yield from _lines(value, (*path, name))


def header(path: tuple[str, ...]) -> str:
    """The line that opens a table."""
    return f"[{'.'.join(key(part) for part in path)}]"


def pair(name: str, value: Any) -> str:
    """One line `name = value`."""
    return f"{key(name)} = {scalar(value)}"


def key(name: str) -> str:
    """A key, in quotes where it needs them."""
    return name if _BARE.fullmatch(name) else _text(name)


def scalar(value: Any) -> str:
    """A value on one line, tables in braces. TypeError for what TOML has no form of."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(scalar(item) for item in value)}]"
    if isinstance(value, Mapping):
        inner = ", ".join(pair(name, item) for name, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    raise TypeError(f"TOML has no form of {type(value).__name__}")


def _text(text: str) -> str:
    """JSON's escapes are TOML's, but for DEL, which TOML wants escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
