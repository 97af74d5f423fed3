"""Values of a JSON document of which pieces come: what is kept of them is bytes, counted against a Budget."""

from typing import Any

import msgspec

from llmgate.errors import UpstreamFailed
from llmgate.protocols.budget import Budget
from llmgate.protocols.gather.gathering import TOO_DEEP
from llmgate.protocols.seam import whole

_COST = 128
"""Bytes that a kept value costs beyond its own."""


def encoded(value: Any) -> bytes:
    """The value as JSON that every client can read; UpstreamFailed where it is nested too deeply."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_mended(value))
    except RecursionError:
        raise UpstreamFailed(TOO_DEEP) from None


def _mended(value: Any) -> Any:
    """The same without halves of surrogate pairs."""
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, list):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        return {whole(key): _mended(item) for key, item in value.items()}
    return value


class Text:
    """A text that comes in pieces, which may be cut within a surrogate pair."""

    __slots__ = ("_budget", "_bytes")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._bytes = bytearray()

    def __bool__(self) -> bool:
        return bool(self._bytes)

    def add(self, piece: str) -> None:
        """Raises UpstreamFailed beyond the limit."""
        data = piece.encode("utf-8", "surrogatepass")
        self._budget.take(len(data))
        self._bytes += data

    def value(self) -> str:
        """All of it."""
        return whole(self._bytes.decode("utf-8", "surrogatepass"))


class Newest:
    """A value of which the newest counts; null, or an empty text, is never newer than anything else."""

    __slots__ = ("_budget", "_data")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._data = b""

    def add(self, value: Any) -> None:
        """Raises UpstreamFailed beyond the limit."""
        if self._data and value in (None, ""):
            return
        data = encoded(value)
        self._budget.give_back(len(self._data))
        self._budget.take(len(data))
        self._data = data

    def value(self) -> msgspec.Raw:
        """It, after the first `add`."""
        return msgspec.Raw(self._data)


class Fields:
    """The fields of an object, each of which is a Newest."""

    __slots__ = ("_budget", "_fields")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._fields: dict[str, Newest] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._fields

    def add(self, key: str, value: Any) -> None:
        """Raises UpstreamFailed beyond the limit."""
        if key not in self._fields:
            self._budget.take(len(key) + _COST)
            self._fields[key] = Newest(self._budget)
        self._fields[key].add(value)

    def text(self, key: str) -> str:
        """The value of one, where it is a text; else an empty one."""
        value = msgspec.json.decode(self._fields[key].value()) if key in self._fields else None
        return value if isinstance(value, str) else ""

    def value(self) -> dict[str, Any]:
        """All of them, in the order in which they came first."""
        return {whole(key): field.value() for key, field in self._fields.items()}


class Items:
    """A list that comes in pieces. Texts that come amid the pieces become parts of type text, as in a message."""

    __slots__ = ("_budget", "_items")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._items: list[bytes | Text] = []

    def add(self, piece: list[Any]) -> None:
        """Raises UpstreamFailed beyond the limit."""
        for item in piece:
            data = encoded(item)
            self._budget.take(len(data) + _COST)
            self._items.append(data)

    def say(self, piece: str) -> None:
        """Raises UpstreamFailed beyond the limit."""
        last = self._items[-1] if self._items else None
        if not isinstance(last, Text):
            if not piece:
                return
            self._budget.take(_COST)
            last = Text(self._budget)
            self._items.append(last)
        last.add(piece)

    def value(self) -> list[Any]:
        """All of them."""
        return [
            msgspec.Raw(item) if isinstance(item, bytes) else {"type": "text", "text": item.value()}
            for item in self._items
        ]
