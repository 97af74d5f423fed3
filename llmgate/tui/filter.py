"""What the person looks for: words that are told apart by blanks and must all hold.

A word is a regular expression, looked for in all that is known of a row, upper or lower case; `client=dsh` looks in one
field alone, `!x` turns a word round. One that is no regular expression is taken as it stands.
"""

import re
import warnings
from dataclasses import dataclass
from functools import lru_cache

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
    "key",
)
EVENT_FIELDS = ("id", "upstream", "word", "kind", "text", "client", "session", "purpose", "outcome", "by")
MOST_TEXTS = 20_000
PLAIN = re.compile(r"[A-Za-z0-9_:/@=,-]+")
FIELDS = (*dict.fromkeys(REQUEST_FIELDS + EVENT_FIELDS),)


@dataclass(frozen=True, slots=True)
class Term:
    """One word of a filter; `field` "" is all of them."""

    pattern: re.Pattern[str]
    field: str = ""
    inverse: bool = False
    literal: str = ""
    """The word itself, where it holds no sign of a regular expression: ten times as quick to look for."""

    def holds(self, text: str) -> bool:
        """Whether it is in a text of small letters, or is not for an inverse."""
        if self.literal:
            return (self.literal in text) is not self.inverse
        return (self.pattern.search(text) is None) is self.inverse


@dataclass(frozen=True, slots=True)
class Filter:
    terms: tuple[Term, ...] = ()
    bad: str = ""
    """The first word that is no regular expression."""

    def request(self, request: RequestView) -> bool:
        """Whether the request is to be shown."""
        for term in self.terms:  # noqa: SIM110  (no generator: this is asked 10,000 times for one picture)
            if not term.holds(_field(request, term.field) if term.field else TEXTS.of(request)):
                return False
        return True

    def event(self, event: EventView) -> bool:
        return all(term.holds(_of_event(event, term.field)) for term in self.terms)

    def upstream(self, upstream: UpstreamView) -> bool:
        """Upstreams stay in sight while one looks for requests: only `upstream=` takes some of them away."""
        return all(term.holds(upstream.name.lower()) for term in self.terms if term.field == "upstream")


class Texts:
    """All the text of a request in one, made once for each state of it: each picture may look through 10,000."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[RequestView, str]] = {}

    def of(self, request: RequestView) -> str:
        known = self._made.get(request.id)
        if known is not None and known[0] is request:
            return known[1]
        if len(self._made) >= MOST_TEXTS:
            self._made.clear()
        text = "\n".join([_field(request, name) for name in REQUEST_FIELDS])
        self._made[request.id] = request, text
        return text


TEXTS = Texts()


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
