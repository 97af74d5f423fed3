"""Changes single values in a settings file and leaves every other character of it as it is, comments too."""

import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llmgate.config.lines import find_lines
from llmgate.config.load import read_text
from llmgate.config.synonyms import KEYS
from llmgate.config.toml import key, scalar
from llmgate.errors import SettingsError

OTHERS = {"upstreams": ("providers",)}
"""Other names that a table may have in the file."""

_VALUE = re.compile(r"(?P<before>[^=]*=[ \t]*)(?P<value>[^#]*?)(?P<after>[ \t]*(?:#.*)?)")
"""One line of a simple value; what else it may be is found out by reading the result."""


def set_values(file: Path, table: tuple[str, str], values: Mapping[str, Any]) -> None:
    """Writes these keys of a table such as ("upstreams", "reasoning"); None takes a key out.

    The file is replaced in one step, with its mode. SettingsError, and the file is untouched, where that cannot be done
    without changing anything else.
    """
    new = with_values(read_text(file), table, values)
    if new is None:
        raise SettingsError(f"llmgate: {file}: [{'.'.join(table)}] cannot be changed safely: edit the file by hand")
    try:
        _replace(file.resolve(), new)
    except OSError as error:
        raise SettingsError(f"llmgate: {file}: cannot be written: {os.strerror(error.errno or 0)}") from None


def with_values(text: str, table: tuple[str, str], values: Mapping[str, Any]) -> str | None:
    """The text with these keys of that table; None where it would mean anything else, too."""
    wanted = _parsed(text)
    lines = text.split("\n")
    known = find_lines(text) if wanted else {}
    written = _written(table, wanted)
    at = known.get(written)
    if at is None:
        return None
    own = wanted[written[0]][written[1]]
    changed: dict[int, str | None] = {}
    added: list[str] = []
    for name, value in values.items():
        for spelled in (name, *(other for other, plain in KEYS.items() if plain == name)):
            if own.pop(spelled, None) is not None:
                line = known[(*written, spelled)] - 1
                stays = spelled == name and value is not None
                changed[line] = _with_value(lines[line], value) if stays else None
        if value is not None:
            own[name] = value
            added += [] if (*written, name) in known else [f"{key(name)} = {scalar(value)}"]
    made = [changed.get(number, line) for number, line in enumerate(lines)]
    made[at:at] = added
    new = "\n".join(line for line in made if line is not None)
    return new if _parsed(new) == wanted else None


def _with_value(line: str, value: Any) -> str:
    match = _VALUE.fullmatch(line.removesuffix("\r"))
    if match is None:
        return line
    return f"{match['before']}{scalar(value)}{match['after']}" + ("\r" if line.endswith("\r") else "")


def _written(table: tuple[str, str], values: Mapping[str, Any]) -> tuple[str, str]:
    """The table under the name that the file has for it."""
    return next(
        ((name, table[1]) for name in (table[0], *OTHERS.get(table[0], ())) if table[1] in values.get(name, {})), table
    )


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return {}


def _replace(file: Path, text: str) -> None:
    """A reader sees the old file or the new one, whole, whatever happens meanwhile."""
    number, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(number, "w", encoding="utf-8", newline="") as stream:
            os.fchmod(stream.fileno(), file.stat().st_mode & 0o7777)
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise
