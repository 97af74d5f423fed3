"""A name that is not known, told in the same words everywhere: the nearest one, then all that there are."""

import difflib
from collections.abc import Collection, Iterable, Mapping

from llmgate.errors import AdminRefusal

_NEAR = 0.65
"""Of 1 = the same. A swap of two letters in a name of three is still near."""
_MOST_NAMED = 5
"""Of the ids that an unclear beginning may mean."""
_UNSEEN = str.maketrans("", "", "-_")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one that was probably meant; case, dashes and underscores do not count."""
    plain = {_plain(candidate): candidate for candidate in known}
    close = difflib.get_close_matches(_plain(name), plain, n=1, cutoff=_NEAR)
    return plain[close[0]] if close else None


def _plain(name: str) -> str:
    return name.translate(_UNSEEN).lower()


def meant(name: str, known: Iterable[str]) -> str:
    """ "did you mean X? " where one is near, else ""."""
    near = nearest(name, known)
    return f"did you mean {near}? " if near else ""


def unknown(what: str, name: str, known: Collection[str]) -> str:
    """ "there is no upstream 'resoning'; did you mean reasoning? there are: ollama, reasoning": the daemon's words."""
    return f"there is no {what} {name!r}; {meant(name, known)}there are: {', '.join(known) or 'none'}"


def no_upstream(name: str, known: Collection[str], renamed: Mapping[str, str]) -> str:
    """The same of an upstream, of which a reload may know another name: `renamed`, the new one by the old one."""
    if name in renamed:
        return f"there is no upstream {name!r} any more: a reload calls it {renamed[name]}"
    return unknown("upstream", name, known)


def unknown_upstream(name: str, known: Iterable[str], renamed: Mapping[str, str]) -> AdminRefusal:
    """The daemon's own refusal, where it is not the one to give it."""
    return AdminRefusal(no_upstream(name, list(known), renamed), "UNKNOWN_UPSTREAM")


def whole_ids(text: str, known: Collection[str]) -> list[str]:
    """Those that an id as it is typed may mean: it itself, else all that begin so."""
    return [text] if text in known else [each for each in known if text and each.startswith(text)]


def ambiguous(text: str, found: Collection[str]) -> str:
    """ "req_c is the beginning of req_c1, req_c2 and 3 more: say more of it"."""
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return f"{text} is the beginning of {', '.join(list(found)[:_MOST_NAMED])}{more}: say more of it"
