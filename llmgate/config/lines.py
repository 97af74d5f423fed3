"""The line on which each key of a TOML text stands, which tomllib does not tell.

For texts that tomllib has accepted: nothing is checked here, so what would be an error there may be anything here.
A path is what leads to a value in the parsed text: keys, and indexes in arrays. An explicit table header is the line of
its table; a table that only dotted keys or deeper headers make stands where the first of them stands.
"""

import bisect
import re
import tomllib

Path = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_KEY_PART = re.compile(r"""[A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*'""", re.ASCII)
_TEXT = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}'''
    r"""|'''.*?'{3,5}"""
    r'''|"(?:\\.|[^"\\\n])*"'''
    r"""|'[^'\n]*'""",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\r\n]*")


def find_lines(text: str) -> dict[Path, int]:
    """The line, from 1, of every key, table and element of an array in `text`."""
    return _Scanner(text).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._newlines = [match.start() for match in re.finditer("\n", text)]
        self._lines: dict[Path, int] = {}
        self._sizes: dict[Path, int] = {}
        """How many elements each array of tables has so far."""

    def scan(self) -> dict[Path, int]:
        table: Path = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            table = self._statement(table)
            self._skip(_BLANK)
        return self._lines

    def _statement(self, table: Path) -> Path:
        """One header or one `key = value` within `table`; the table that what follows belongs to."""
        if self._take("[["):
            return self._header("]]", is_array=True)
        if self._take("["):
            return self._header("]", is_array=False)
        self._pair(table)
        return table

    def _header(self, end: str, *, is_array: bool) -> Path:
        line = self._line()
        keys = self._keys()
        self._expect(end)
        path: Path = ()
        for key in keys[:-1]:
            path = (*path, key)
            self._lines.setdefault(path, line)
            if path in self._sizes:
                path = (*path, self._sizes[path] - 1)
        path = (*path, keys[-1])
        if not is_array:
            self._lines[path] = line
            return path
        self._lines.setdefault(path, line)
        index = self._sizes.get(path, 0)
        self._sizes[path] = index + 1
        self._lines[(*path, index)] = line
        return (*path, index)

    def _pair(self, table: Path) -> None:
        line = self._line()
        path = table
        for key in self._keys():
            path = (*path, key)
            self._lines.setdefault(path, line)
        self._expect("=")
        self._skip(_SPACE)
        self._value(path)

    def _value(self, path: Path) -> None:
        if self._take("["):
            self._array(path)
        elif self._take("{"):
            self._inline_table(path)
        elif (text := _TEXT.match(self._text, self._at)) is not None:
            self._at = text.end()
        else:
            self._skip(_SCALAR)

    def _array(self, path: Path) -> None:
        index = 0
        self._skip(_BLANK)
        while not self._take("]"):
            self._lines[(*path, index)] = self._line()
            self._value((*path, index))
            index += 1
            self._next_item()

    def _inline_table(self, path: Path) -> None:
        self._skip(_BLANK)
        while not self._take("}"):
            self._pair(path)
            self._next_item()

    def _next_item(self) -> None:
        self._skip(_BLANK)
        self._take(",")
        self._skip(_BLANK)

    def _keys(self) -> list[str]:
        """One dotted key, without its quotes."""
        keys: list[str] = []
        while True:
            self._skip(_SPACE)
            part = self._skip(_KEY_PART)
            keys.append(tomllib.loads(f"key = {part}")["key"] if part[:1] in ('"', "'") else part)
            self._skip(_SPACE)
            if not self._take("."):
                return keys

    def _line(self) -> int:
        return bisect.bisect_left(self._newlines, self._at) + 1

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise ValueError("not a TOML text")
        self._at = match.end()
        return match[0]

    def _take(self, token: str) -> bool:
        found = self._text.startswith(token, self._at)
        self._at += len(token) if found else 0
        return found

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise ValueError("not a TOML text")
