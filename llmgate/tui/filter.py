"""What the person looks for: words that are told apart by blanks and must all hold.

A word is a regular expression, looked for in all that is known of a row, upper or lower case; `client=dsh` looks in one
field alone, `!x` turns a word round. One that is no regular expression is taken as it stands.
"""

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import and_
from typing import Generic, TypeVar

from llmgate.adminapi import EventView, RequestView, UpstreamView

REQUEST_FIELDS = (
    "id",
    "upstream",
    "state",
    "model",
    "api",
    "path",
    "client",
    "session",
    "purpose",
    "peer",
    "endpoint",
    "outcome",
    "reason",
    "key",
)
EVENT_FIELDS = ("id", "upstream", "word", "kind", "text", "client", "session", "purpose", "outcome", "by")
MOST_REMEMBERED = 30_000
PLAIN = re.compile(r"[A-Za-z0-9_:/@=,-]+")
Made = TypeVar("Made")
FIELDS = (*dict.fromkeys(REQUEST_FIELDS + EVENT_FIELDS),)


@dataclass(frozen=True, slots=True)
class Term:
    """One word of a filter; `field` "" is all of them."""

    pattern: re.Pattern[str]
    field: str = ""
    inverse: bool = False
    literal: str = ""
    """The word itself, where it holds no sign of a regular expression: ten times as quick to look for."""

    def of(self, texts: Iterable[str]) -> list[bool]:
        """Of each text of small letters whether it is in it, or is not for an inverse."""
        literal, inverse, search = self.literal, self.inverse, self.pattern.search
        if literal:
            return [(literal in text) is not inverse for text in texts]
        return [(search(text) is None) is inverse for text in texts]


@dataclass(frozen=True, slots=True)
class Filter:
    terms: tuple[Term, ...] = ()
    bad: str = ""
    """The first word that is no regular expression."""

    def requests(self, requests: Sequence[RequestView]) -> list[bool]:
        """Of each request whether it is to be shown."""
        shown = [True] * len(requests)
        for term in self.terms:
            texts = [_field(request, term.field) for request in requests] if term.field else TEXTS.of(requests)
            shown = [*map(and_, shown, term.of(texts))]
        return shown

    def event(self, event: EventView) -> bool:
        return all(term.of([_of_event(event, term.field)])[0] for term in self.terms)

    def upstream(self, upstream: UpstreamView) -> bool:
        """Upstreams stay in sight while one looks for requests: only `upstream=` takes some of them away."""
        return all(term.of([upstream.name.lower()])[0] for term in self.terms if term.field == "upstream")


class Remembered(Generic[Made]):
    """What was made of requests: a view of one never changes, and in each picture most of 10,000 are the same."""

    def __init__(self, make: Callable[[Sequence[RequestView]], list[Made]]) -> None:
        self._make = make
        self._made: dict[int, Made] = {}
        self._held: list[RequestView] = []
        """Those of `_made`, so that no other takes on the identity of one."""

    def of(self, requests: Sequence[RequestView]) -> list[Made]:
        if len(self._held) >= MOST_REMEMBERED:
            self._made.clear()
            self._held.clear()
        unknown = [request for request in requests if id(request) not in self._made]
        self._made.update(zip(map(id, unknown), self._make(unknown), strict=True))
        self._held += unknown
        return [*map(self._made.__getitem__, map(id, requests))]


def _texts(requests: Sequence[RequestView]) -> list[str]:
    """All the text of each in one."""
    return ["\n".join([_field(request, name) for name in REQUEST_FIELDS]) for request in requests]


TEXTS = Remembered(_texts)


class Verdicts:
    """What the last filter that was asked for says of requests."""

    def __init__(self) -> None:
        self._wanted = Filter()
        self._said = Remembered(self._wanted.requests)

    def of(self, wanted: Filter, requests: Sequence[RequestView]) -> list[bool]:
        if wanted is not self._wanted:
            self._wanted, self._said = wanted, Remembered(wanted.requests)
        return self._said.of(requests)


VERDICTS = Verdicts()


def _of_event(event: EventView, field: str) -> str:
    names = (field,) if field else EVENT_FIELDS
    return "\n".join([_field(event, "request_id" if name == "id" else name) for name in names])


def _field(row: RequestView | EventView, field: str) -> str:
    text: str = getattr(row, field, "") or ""
    return text.lower()


@lru_cache(maxsize=64)
def parse(text: str) -> Filter:
    """The filter that a person typed."""
    terms, bad = [], ""
    for word in text.split():
        inverse, rest = word.startswith("!"), word.removeprefix("!")
        field, equals, value = rest.partition("=")
        if not equals or field not in FIELDS:
            field, value = "", rest
        if value:
            pattern, is_bad = _pattern(value)
            bad = bad or (value if is_bad else "")
            literal = value.lower() if PLAIN.fullmatch(value) else ""
            terms.append(Term(pattern, field, inverse, literal))
    return Filter(tuple(terms), bad)


def _pattern(value: str) -> tuple[re.Pattern[str], bool]:
    flags = re.IGNORECASE | re.MULTILINE
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "[[" may mean something else in a later Python; it would spoil the screen
            return re.compile(value, flags), False
    except (re.error, OverflowError, RecursionError):
        return re.compile(re.escape(value), flags), True
