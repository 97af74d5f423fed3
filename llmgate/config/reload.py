"""What a reload changes: the difference of two settings, key by key, and what of it is taken on.

Each key's reload class stands in settings.py. A "live" one is in force after a reload; a "restart" one waits for a new
start: until then the old value stays. Values are shown as they are written in a file, those of headers never.
"""

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, TypeVar

from pydantic.fields import FieldInfo

from llmgate.config.frozen import FrozenDict
from llmgate.config.problems import Path, dotted
from llmgate.config.settings import Section, Settings, UpstreamSettings
from llmgate.config.written import HIDDEN, written_value

Class = Literal["live", "restart"]
Secrets = Mapping[tuple[str, ...], Any]
"""Keys by where they stand: ("keys", "laptop"), ("upstreams", "a", "api_key_file")."""
Model = TypeVar("Model", bound=Section)


@dataclasses.dataclass(frozen=True)
class Change:
    """One key that differs. `old` or `new` is None where the key, or the whole upstream, is not there."""

    key: str
    """As in the file, such as "upstreams.reasoning.max_concurrent"."""
    old: Any
    new: Any
    reload: Class

    def __str__(self) -> str:
        """For the log: what it is now, and what it was."""
        if self.old is None:
            return f"{self.key} is new: {self.new}"
        if self.new is None:
            return f"{self.key} is gone"
        if self.old == self.new:
            return f"{self.key} has another value, which is not shown"
        change = f"{self.key} = {self.new!r} (was {self.old!r})"
        return change if self.reload == "live" else f"{change}: needs a restart"


def differences(old: Settings, new: Settings, renamed: Mapping[str, str] = FrozenDict()) -> list[Change]:
    """In the order of the settings, upstreams last. `renamed`: the old name, by the new one, of each upstream that is
    only called otherwise: what else differs there is told too."""
    changes = [*_section((), old, new), *_upstreams(old.upstreams, new.upstreams)]
    for name, was in renamed.items():
        changes += _section(("upstreams", name), old.upstreams[was], new.upstreams[name])
    return changes


def secret_differences(old: Secrets, new: Secrets, told: Collection[str]) -> Iterator[Change]:
    """Of keys, which are never shown; those settings that were `told` as different are left out, and whole upstreams
    that came or went."""
    for path in dict.fromkeys([*old, *new]):
        key = dotted(path)
        if old.get(path) != new.get(path) and key not in told and dotted(path[:2]) not in told:
            yield Change(key, HIDDEN if path in old else None, HIDDEN if path in new else None, "live")


def in_force(old: Settings, new: Settings) -> Settings:
    """The new settings, with the old value of every key that only a new start takes on."""
    return _keep(old, new)


def _keep(old: Model, new: Model) -> Model:
    kept = {}
    for name, field in type(new).model_fields.items():
        was, now = getattr(old, name), getattr(new, name)
        if was == now:
            continue
        if isinstance(now, Section):
            kept[name] = _keep(was, now)
        elif _class(field) == "restart":
            kept[name] = was
    return new.model_copy(update=kept) if kept else new


def _section(path: Path, old: Section, new: Section) -> Iterator[Change]:
    for name, field in type(new).model_fields.items():
        was, now = getattr(old, name), getattr(new, name)
        if was == now or (not path and name == "upstreams"):
            continue
        if isinstance(now, Section):
            yield from _section((*path, name), was, now)
        else:
            yield Change(dotted((*path, name)), written_value(field, was), written_value(field, now), _class(field))


def _upstreams(old: Mapping[str, UpstreamSettings], new: Mapping[str, UpstreamSettings]) -> Iterator[Change]:
    for name in dict.fromkeys([*old, *new]):
        path: Path = ("upstreams", name)
        was, now = old.get(name), new.get(name)
        if was is not None and now is not None:
            yield from _section(path, was, now)
        else:
            yield Change(dotted(path), was and was.display_url, now and now.display_url, "live")


def _class(field: FieldInfo) -> Class:
    extra = field.json_schema_extra
    return "live" if isinstance(extra, dict) and extra.get("reload") == "live" else "restart"
