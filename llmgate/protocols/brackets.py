"""Finds the end of a JSON object that comes in pieces, by its brackets; the work is linear in its length."""

import re

_TOKEN = re.compile(rb'\\.?|["{}\[\]]', re.DOTALL)


class Brackets:
    """Made for one object. What stands in it is not checked."""

    __slots__ = ("_depth", "_escaped", "_in_string")

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False
        """The last piece ended with a backslash: what it escapes is still to come."""

    def find_end(self, piece: bytes) -> int:
        """Takes the next piece of the object: where in it the object ends, 0 while it does not."""
        start = 1 if self._escaped and piece else 0
        self._escaped = self._escaped and not piece
        for found in _TOKEN.finditer(piece, start):
            token = found[0]
            if token == b"\\":
                self._escaped = True
            elif token == b'"':
                self._in_string = not self._in_string
            elif not self._in_string and token in b"{[":
                self._depth += 1
            elif not self._in_string and token in b"}]":
                self._depth -= 1
                if not self._depth:
                    return found.end()
        return 0
