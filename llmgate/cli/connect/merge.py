"""Puts values into the text of a settings file and leaves the rest of it as it is, comments included.

Whatever is done to the text, the result is read again: it must say exactly what the old text said with the values
merged in, else nothing is done and CannotMerge says why. So a text that is understood wrongly is never written.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llmgate.cli.connect import jsonc
from llmgate.cli.connect.recipe import Format, dump
from llmgate.config.lines import find_lines
from llmgate.config.toml import DEPTH, header, pair, scalar

Values = Mapping[str, Any]


class CannotMerge(Exception):
    """The text says something that cannot be kept, or cannot be read; the message goes on after the file's name."""


def merge(text: str, format_: Format, values: Values) -> str:
    """The new text; the old one unchanged where it says all this already."""
    old = read(text, format_)
    wanted = combined(old, values)
    if old == wanted and text.strip():
        return text
    new = dump(format_, values) if not text.strip() else _EDITORS[format_](text, values, wanted)
    try:
        good = read(new, format_) == wanted
    except CannotMerge:
        good = False
    if not good:
        raise CannotMerge("is written in a way that cannot be changed safely from here")
    return new


def read(text: str, format_: Format) -> dict[str, Any]:
    """What the text says. CannotMerge where it is not of this format, or not a table."""
    plain = _READERS[format_](text) if text.strip() else {}
    if not isinstance(plain, dict):
        raise CannotMerge("does not hold a table of settings")
    return plain


def combined(old: Any, new: Any) -> Any:
    """Tables key by key; lists item by item, where those of the same id or name are one; else the new value."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return {**old, **{key: combined(old[key], value) if key in old else value for key, value in new.items()}}
    if isinstance(old, list) and isinstance(new, list):
        return _combined_lists(old, new)
    return new


def _combined_lists(old: list[Any], new: list[Any]) -> list[Any]:
    merged = list(old)
    for item in new:
        at = next((index for index, each in enumerate(merged) if _same(each, item)), None)
        if at is None:
            merged.append(item)
        else:
            merged[at] = combined(merged[at], item)
    return merged


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return any(key in one and one[key] == other.get(key) for key in ("id", "name"))
    return bool(one == other)


# ---- JSON


def _read_json(text: str) -> Any:
    try:
        return jsonc.read(text)
    except ValueError as error:
        raise CannotMerge(f"is not JSON: {error}") from None
    except RecursionError:
        raise CannotMerge("is not JSON: too many brackets inside each other") from None


def _edit_json(text: str, _values: Values, wanted: Values) -> str:
    try:
        return jsonc.edit(text, wanted)
    except jsonc.CommentLost as error:
        raise CannotMerge(f"has comments in {error} that would be lost") from None


# ---- TOML


def _read_toml(text: str) -> Any:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise CannotMerge(f"is not TOML: {error}") from None


def _edit_toml(text: str, values: Values, _wanted: Values) -> str:
    for path, table in _tables(values, ()):
        text = _with_table(text, path, table)
    return text


def _tables(values: Values, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Each table of the values with what stands directly in it, as `config.toml` writes them."""
    deeper = {name: value for name, value in values.items() if isinstance(value, Mapping) and len(path) < DEPTH}
    own = {name: value for name, value in values.items() if name not in deeper}
    if own:
        yield path, own
    for name, value in deeper.items():
        yield from _tables(value, (*path, name))


def _with_table(text: str, path: tuple[str, ...], table: Mapping[str, Any]) -> str:
    """Keys that are there change on their line; others go below the table's header, or before the first one."""
    known = find_lines(text)
    lines = text.splitlines()
    added = []
    for name, value in table.items():
        line = known.get((*path, name))
        if line is None:
            added.append(pair(name, value))
        else:
            lines[line - 1] = _with_value(lines[line - 1], value)
    if added:
        at = _place(lines, path, known.get(path))
        lines[at:at] = added if at < len(lines) or not path or path in known else [*_gap(lines), header(path), *added]
    return "\n".join(lines) + "\n"


_PAIR = re.compile(r"""(\s*[^=]+=\s*)(?:"(?:\\.|[^"\\])*"|'[^']*'|[^#"']*?)(\s*#.*)?""")


def _with_value(line: str, value: Any) -> str:
    """The line with another value; a comment behind it stays."""
    found = _PAIR.fullmatch(line)
    if found is None:
        raise CannotMerge(f"has a line that cannot be changed safely: {line.strip()}")
    return f"{found[1]}{scalar(value)}{found[2] or ''}"


def _place(lines: Sequence[str], path: tuple[str, ...], line: int | None) -> int:
    """The index before which new keys of a table go: the end of the text for a table that is not there yet.

    Those of no table go before the first header, and the comments that stand above it.
    """
    if path:
        return len(lines) if line is None else line
    first = next((index for index, text in enumerate(lines) if text.lstrip().startswith("[")), len(lines))
    while first and re.match(r"\s*(#|$)", lines[first - 1]):
        first -= 1
    return first


def _gap(lines: Sequence[str]) -> list[str]:
    return [""] if lines and lines[-1].strip() else []


# ---- YAML


def _read_yaml(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise CannotMerge(f"is not YAML: {getattr(error, 'problem', None) or 'it cannot be read'}") from None
    except RecursionError:
        raise CannotMerge("is not YAML: too many brackets inside each other") from None


def _edit_yaml(text: str, values: Values, wanted: Values) -> str:
    for name in values:
        text = _with_key(text, name, dump("yaml", {name: wanted[name]}))
    return text


def _with_key(text: str, name: str, block: str) -> str:
    """A key of the first level with all that is below it replaced, or added at the end."""
    found = re.search(rf"^{re.escape(name)}[ \t]*:.*\n?(?:(?:[ \t#-].*|)\n)*(?:[ \t#-].*)?", text, re.MULTILINE)
    if found is None:
        return f"{text.rstrip()}\n{block}"
    whole = found[0].rstrip()
    if re.search(r"(?:^|\s)#", whole):
        raise CannotMerge(f"has comments in {name} that would be lost")
    return text[: found.start()] + block + text[found.start() + len(whole) :].removeprefix("\n")


_READERS = {"json": _read_json, "toml": _read_toml, "yaml": _read_yaml}
_EDITORS = {"json": _edit_json, "toml": _edit_toml, "yaml": _edit_yaml}
