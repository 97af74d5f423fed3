"""A name that is not known, told in the same words everywhere: the nearest one, then all that there are."""

import difflib
from collections.abc import Collection, Iterable

from llmgate.errors import AdminRefusal


def nearest(name: str, known: Collection[str]) -> str | None:
    """The one that was probably meant."""
    return next(iter(difflib.get_close_matches(name, known, n=1)), None)


def meant(name: str, known: Collection[str]) -> str:
    """ "did you mean X? " where one is near, else ""."""
    near = nearest(name, known)
    return f"did you mean {near}? " if near else ""


def unknown(what: str, name: str, known: Collection[str]) -> str:
    """ "there is no upstream 'resoning'; did you mean reasoning? there are: ollama, reasoning": the daemon's words."""
    return f"there is no {what} {name!r}; {meant(name, known)}there are: {', '.join(known) or 'none'}"


def unknown_upstream(name: str, known: Iterable[str]) -> AdminRefusal:
    """The daemon's own refusal, where it is not the one to give it."""
    return AdminRefusal(unknown("upstream", name, list(known)), "UNKNOWN_UPSTREAM")
