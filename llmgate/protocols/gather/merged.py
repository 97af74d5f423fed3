"""An object of which pieces come: texts are joined, lists put one behind the other, objects merged.

That is what a delta means on every surface. Of numbers, of null and of the fields in LABELS the newest counts, since
some servers repeat them in every piece. Where a field's type changes, the newest piece counts; but text before or after
a list of parts, as Mistral sends it, becomes a part of that list.
"""

from typing import Any

import msgspec

from llmgate.protocols.budget import Budget
from llmgate.protocols.decoding import NULL
from llmgate.protocols.gather.values import Items, Newest, Text
from llmgate.protocols.seam import whole

LABELS = frozenset({"id", "index", "name", "object", "role", "status", "type"})

_EMPTY = (NULL, msgspec.Raw(b'""'), "")
_COST = 256
"""Bytes that a field costs beyond its value."""


class Merged:
    """Feed it the pieces by `add`."""

    __slots__ = ("_budget", "_parts")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._parts: dict[str, Text | Items | Merged | Newest] = {}

    def add(self, piece: dict[str, Any]) -> None:
        """Raises UpstreamFailed beyond the limit."""
        for key, value in piece.items():
            if value is None and key in self._parts:
                continue
            part = self._part(key, value)
            if isinstance(part, Items) and isinstance(value, str):
                part.say(value)
            else:
                part.add(value)

    def value(self) -> dict[str, Any]:
        """The whole object."""
        return {whole(key): part.value() for key, part in self._parts.items()}

    def _part(self, key: str, value: Any) -> Any:
        """Where the value belongs."""
        known = self._parts.get(key)
        kind = _kind_of(key, value)
        if known is None:
            self._budget.take(len(key) + _COST)
        elif isinstance(known, kind) or (isinstance(known, Items) and kind is Text):
            return known
        part = self._parts[key] = kind(self._budget)
        if isinstance(known, Text) and isinstance(part, Items):
            part.say(known.value())
        return part


def _kind_of(key: str, value: Any) -> type[Text | Items | Merged | Newest]:
    if isinstance(value, str) and key not in LABELS:
        return Text
    if isinstance(value, list):
        return Items
    return Merged if isinstance(value, dict) else Newest


def with_defaults(value: dict[str, Any], **defaults: str) -> dict[str, Any]:
    """What `Merged.value` returned, with these texts where a field is missing, null or an empty text."""
    missing = {key: text for key, text in defaults.items() if value.get(key, NULL) in _EMPTY}
    return {**value, **missing}
