"""Where the members of a JSON object stand in its bytes, so that one of them can be replaced and the rest kept."""

import re
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from llmgate.protocols.decoding import decoded

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BEGIN = re.compile(rb"[ \t\r\n]*\{[ \t\r\n]*")
_KEY = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"[ \t\r\n]*:[ \t\r\n]*')
_NEXT = re.compile(rb"[ \t\r\n]*[,}][ \t\r\n]*")


class Member(NamedTuple):
    """The value of one key; `start` and `end` are places in the body."""

    start: int
    end: int
    value: msgspec.Raw


class Members:
    """The members of one object."""

    __slots__ = ("_at", "_begin", "_body")

    def __init__(self, body: bytes, begin: int, at: Mapping[str, Member]) -> None:
        self._body = body
        self._begin = begin
        self._at = at

    @property
    def keys(self) -> frozenset[str]:
        """The names of all."""
        return frozenset(self._at)

    def get(self, key: str) -> bytes | None:
        """The JSON of its value; None where there is no such key."""
        member = self._at.get(key)
        return bytes(member.value) if member else None

    def replaced(self, values: Mapping[str, bytes]) -> bytes:
        """The body with these values instead of those of the same keys, else as its first members.

        Every other byte is as it was. The object must have a member already.
        """
        body, new = self._body, b""
        for key, value in sorted(values.items(), key=lambda item: self._start(item[0]), reverse=True):
            if member := self._at.get(key):
                body = body[: member.start] + value + body[member.end :]
            else:
                new += msgspec.json.encode(key) + b":" + value + b","
        return body[: self._begin] + new + body[self._begin :]

    def _start(self, key: str) -> int:
        member = self._at.get(key)
        return member.start if member else 0


def read_members(body: bytes) -> Members | None:
    """None where the body is no JSON object, is an empty one, or has a key twice."""
    values = decoded(_MEMBERS, body)
    begin = _BEGIN.match(body)
    if not values or not begin:
        return None
    at: dict[str, Member] = {}
    place = begin.end()
    for key, value in values.items():  # of a key that is there twice the last value, at its first place
        found = _KEY.match(body, place)
        start = found.end() if found else 0
        end = start + len(memoryview(value))
        if body[start:end] != bytes(value):
            return None
        at[key] = Member(start, end, value)
        after = _NEXT.match(body, end)
        place = after.end() if after else 0
    return Members(body, begin.end(), at) if place == len(body) else None
