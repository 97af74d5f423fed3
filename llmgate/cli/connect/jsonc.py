"""JSON as editors keep it, with comments and trailing commas: read, and changed with all the rest left as it is.

What is changed is a list of edits of the text, each a span and what comes in its place: no value that stays is written
anew, and no comment gets lost.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_SPACE = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
_WORD = re.compile(r"[-+.\w]+")


class CommentLost(Exception):
    """A comment stands in what would be replaced; the message is the key."""


class Edit(NamedTuple):
    start: int
    end: int
    text: str


@dataclass
class Node:
    """A value and its span. Of an object: its members by key, and whether a comma stands behind the last one."""

    start: int
    end: int
    plain: Any
    members: dict[str, "Node"] = field(default_factory=dict)
    comma: bool = False


def read(text: str) -> Any:
    """The value. ValueError says what is wrong with the text, RecursionError that it is too deep."""
    return _parse(text).plain


def edit(text: str, wanted: Mapping[str, Any]) -> str:
    """The text of an object, changed so that it says `wanted`, which has all of its keys and more. CommentLost."""
    unit = re.search(r"\n([ \t]+)\S", text)
    edits = sorted(_edits(text, _parse(text), wanted, unit[1] if unit else "  ", ""), key=lambda edit: edit.start)
    for start, end, new in reversed(edits):  # so that the places of those before stay right
        text = text[:start] + new + text[end:]
    return text


# ---- reading


def _parse(text: str) -> Node:
    node = _value(text, _after_space(text, 0))
    if _after_space(text, node.end) < len(text):
        raise ValueError(f"something follows its end, in line {_line(text, node.end)}")
    return node


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _value(text: str, at: int) -> Node:
    if text.startswith("{", at):
        return _object(text, at)
    if text.startswith("[", at):
        return _list(text, at)
    found = _STRING.match(text, at) or _WORD.match(text, at)
    if found is None:
        raise ValueError(f"a value is missing in line {_line(text, at)}")
    return Node(at, found.end(), json.loads(found[0]))


def _object(text: str, start: int) -> Node:
    node = Node(start, start, {})
    at = _after_space(text, start + 1)
    while not text.startswith("}", at):
        name = _STRING.match(text, at)
        colon = _after_space(text, name.end()) if name else at
        if name is None or not text.startswith(":", colon):
            raise ValueError(f"a key is missing in line {_line(text, at)}")
        key = json.loads(name[0])
        if key in node.members:
            raise ValueError("a key stands there twice")
        node.members[key] = member = _value(text, _after_space(text, colon + 1))
        node.plain[key] = member.plain
        at, node.comma = _next(text, member.end, "}")
    node.end = at + 1
    return node


def _list(text: str, start: int) -> Node:
    node = Node(start, start, [])
    at = _after_space(text, start + 1)
    while not text.startswith("]", at):
        item = _value(text, at)
        node.plain.append(item.plain)
        at, _ = _next(text, item.end, "]")
    node.end = at + 1
    return node


def _next(text: str, at: int, closing: str) -> tuple[int, bool]:
    """Where the next member begins, or the end; and whether a comma stands before it."""
    at = _after_space(text, at)
    if text.startswith(",", at):
        return _after_space(text, at + 1), True
    if not text.startswith(closing, at):
        raise ValueError(f"a comma or {closing} is missing in line {_line(text, at)}")
    return at, False


# ---- changing


def _edits(text: str, node: Node, wanted: Mapping[str, Any], unit: str, outer: str) -> Iterator[Edit]:
    """`outer` is the indentation of the line on which the object ends, as far as it has one of its own."""
    inner = outer + unit
    for key, member in node.members.items():
        value = wanted[key]
        if value == member.plain:
            continue
        if isinstance(value, Mapping) and isinstance(member.plain, Mapping):
            yield from _edits(text, member, value, unit, inner)
        elif _COMMENT.search(_STRING.sub('""', text[member.start : member.end])):
            raise CommentLost(key)
        else:
            yield Edit(member.start, member.end, _dump(value, unit, inner))
    added = {key: value for key, value in wanted.items() if key not in node.members}
    if added:
        yield from _additions(text, node, added, unit, outer)


def _additions(text: str, node: Node, added: Mapping[str, Any], unit: str, outer: str) -> Iterator[Edit]:
    """Behind the last member, and the comments that stand behind it."""
    inner = outer + unit
    if node.members and not node.comma:
        last = list(node.members.values())[-1].end
        yield Edit(last, last, ",")
    lines = [f"{json.dumps(key, ensure_ascii=False)}: {_dump(value, unit, inner)}" for key, value in added.items()]
    at = node.start + len(text[node.start : node.end - 1].rstrip())
    ending = "" if "\n" in text[at : node.end] else f"\n{outer}"
    yield Edit(at, at, f"\n{inner}" + f",\n{inner}".join(lines) + ending)


def _dump(value: Any, unit: str, indent: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", f"\n{indent}")
