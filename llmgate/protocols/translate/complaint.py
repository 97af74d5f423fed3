"""Our words for what msgspec finds wrong with a request: without numbers, by which some clients sort errors."""

import re

_INDEX = re.compile(r"\[[^]]*\]")
_PATH = re.compile(r" - at `\$\.?([^`]*)`$")
_FIELD = re.compile(r"missing required field `(\w+)`")


def complaint(found: str, whole: str) -> str:
    """A sentence's beginning; `whole` is what was decoded."""
    if lacking := _FIELD.search(found):
        return f"{whole} lacks {lacking[1]}"
    path = _PATH.search(found)
    where = _INDEX.sub("", path[1]).lstrip(".") if path else ""
    return f"{where or whole} is not of the type that it must be"
