"""What a client needs, as plain values: lines for a shell, files of its settings, and what a person should know."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from llmgate.cli.connect.target import Target

Format = Literal["json", "toml", "yaml"]
Language = Literal["sh", "json", "toml", "yaml", "python", "text"]


@dataclass(frozen=True)
class Block:
    """Text to be copied. `title` says what to do with it, as a sentence without its stop."""

    title: str
    language: Language
    text: str


@dataclass(frozen=True)
class SettingsFile:
    """What must stand in one of the client's files. `places`: where it may be, `$NAME` and `~` as in a shell.

    The first place that is there is meant, else the last.
    """

    places: tuple[str, ...]
    format: Format
    values: Mapping[str, Any]

    @property
    def place(self) -> str:
        """The one to tell people."""
        return self.places[-1]


@dataclass(frozen=True)
class Recipe:
    """All of one client. Its files come after its blocks, its notes last."""

    blocks: tuple[Block, ...] = ()
    files: tuple[SettingsFile, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Client:
    """`name` is what is typed, `title` its own name; `tried`: the version that was run with its lines, "" for none."""

    name: str
    title: str
    protocol: str
    render: Callable[[Target], Recipe]
    tried: str = ""


def dump(format_: Format, values: Mapping[str, Any]) -> str:
    """The values as a text of this format, which ends with a newline."""
    if format_ == "json":
        return json.dumps(values, indent=2, ensure_ascii=False) + "\n"
    if format_ == "toml":
        from llmgate.config.toml import dump as dump_toml

        return dump_toml(values)
    import yaml

    return str(yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=10_000))
