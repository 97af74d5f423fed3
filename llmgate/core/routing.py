"""Which upstream serves a model: exact name, then alias, then both with Ollama's tag `:latest` added or left out, then
the most specific glob, then the default upstream.
"""

import fnmatch
import re
from collections.abc import Iterable, Mapping

import msgspec

from llmgate.errors import UnknownModel

LATEST = ":latest"
"""The tag of Ollama that a name without a tag stands for."""

_NAMES_TOLD = 20
_WILDCARD = re.compile(r"[*?]|\[!?.[^]]*\]")
"""`[...]` stands for one letter, whatever it lists."""


class Route(msgspec.Struct, frozen=True):
    """Where a request goes, and the model name that the upstream is asked for."""

    upstream: str
    model: str


class Serves(msgspec.Struct, frozen=True):
    """What one upstream serves."""

    models: tuple[str, ...] = ()
    """Exact names and globs (`*`, `?`, `[...]`)."""
    aliases: Mapping[str, str] = {}
    """Name that clients use -> name that the upstream knows."""
    told: tuple[str, ...] = ()
    """Names that the upstream lists itself: those that a glob brings here can be listed."""


class Routes:
    """A table made once from the settings (and from what upstreams say of themselves), then only read."""

    def __init__(self, serves: Mapping[str, Serves], default_upstream: str = "") -> None:
        self._exact: dict[str, Route] = {}
        self._aliases: dict[str, Route] = {}
        globs: list[tuple[str, str]] = []
        for upstream, served in serves.items():
            for model in served.models:
                if is_glob(model):
                    globs.append((model, upstream))
                else:
                    self._exact.setdefault(model, Route(upstream, model))
            for alias, model in served.aliases.items():
                self._aliases.setdefault(alias, Route(upstream, model))
        globs.sort(key=lambda entry: _specificity(entry[0]), reverse=True)
        self._globs = [(re.compile(fnmatch.translate(glob)), upstream) for glob, upstream in globs]
        self._default = default_upstream
        self._told = {
            model: Route(upstream, model)
            for upstream, served in serves.items()
            for model in served.told
            if self._known(model) is None and self._matched(model) == upstream
        }

    def find(self, model: str) -> Route:
        """The route of a model; UnknownModel names those that are known."""
        route = self._known(model)
        if route is not None:
            return route
        if upstream := self._matched(model) or self._default:
            return Route(upstream, model)
        raise UnknownModel(f"llmgate: no upstream serves the model {model!r}; {_names(self.models())} (UNKNOWN_MODEL)")

    def _known(self, model: str) -> Route | None:
        return self._named(model) or self._named(other_tag(model))

    def _named(self, model: str) -> Route | None:
        return self._exact.get(model) or self._aliases.get(model)

    def _matched(self, model: str) -> str:
        """The upstream with the most specific glob; "" where none matches."""
        return next((upstream for pattern, upstream in self._globs if pattern.match(model)), "")

    def models(self) -> list[tuple[str, Route]]:
        """Every name that can be listed, in the order of the settings: exact names, of what a glob stands for whatever
        its upstream lists, aliases.
        """
        return [
            *self._exact.items(),
            *self._told.items(),
            *((name, route) for name, route in self._aliases.items() if name not in self._exact),
        ]


def is_glob(model: str) -> bool:
    """Whether a name in the settings is a pattern."""
    return any(letter in model for letter in "*?[")


def other_tag(model: str) -> str:
    """The other way to write a name: "llama3" and "llama3:latest" are one. "" where another tag leaves no other way.

    A tag follows the last slash: "host:5000/llama3" has none.
    """
    if model.endswith(LATEST):
        return model.removesuffix(LATEST)
    return "" if ":" in model.rpartition("/")[2] else model + LATEST


def _specificity(glob: str) -> tuple[int, int, bool]:
    """More letters before the first wildcard, then more in all, come first; "*" alone comes last."""
    first = _WILDCARD.search(glob)
    before = first.start() if first else len(glob)
    return before, len(_WILDCARD.sub("", glob)), glob != "*"


def _names(models: Iterable[tuple[str, Route]]) -> str:
    names = [name for name, _ in models]
    if not names:
        return "none is known yet: is the upstream up?"
    told = ", ".join(names[:_NAMES_TOLD])
    return f"known are {told}" + (" and more" if len(names) > _NAMES_TOLD else "")
