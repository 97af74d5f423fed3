"""What is wrong with settings: where, and in words."""

import dataclasses
import re

Path = tuple[str | int, ...]
"""What leads to a setting, such as ("upstreams", "reasoning", "url")."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """`text` goes on after the key: "must be ...", "is missing ..."; with `unknown`, it is the whole sentence's end."""

    path: Path
    text: str
    unknown: bool = False

    def __str__(self) -> str:
        return f"unknown key {dotted(self.path)}{self.text}" if self.unknown else f"{dotted(self.path)} {self.text}"


def dotted(path: Path) -> str:
    """The path as a TOML key, an index in brackets."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            quoted = (
                part
                if re.fullmatch(r"[A-Za-z0-9_-]+", part, re.ASCII)
                else f'"{part.encode("unicode_escape").decode()}"'
            )
            text += f".{quoted}" if text else quoted
    return text
