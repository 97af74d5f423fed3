"""Writes what a client needs into its own settings file: shown first, asked about, the old file kept as FILE.bak."""

import contextlib
import difflib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from llmgate.cli.connect.merge import CannotMerge, merge
from llmgate.cli.connect.recipe import SettingsFile, dump
from llmgate.errors import LlmgateError


@dataclass(frozen=True)
class Change:
    """One file before and after; `path` is where it really lies, behind symbolic links."""

    path: Path
    before: str
    after: str

    @property
    def is_needed(self) -> bool:
        return self.before != self.after

    @property
    def backup(self) -> Path:
        """A free name, so that the file as it was before us outlives a second change."""
        names = (f"{self.path.name}.bak{number}" for number in ("", *map(str, range(2, 10**6))))
        return next(path for name in names if not os.path.lexists(path := self.path.with_name(name)))

    def diff(self) -> Iterator[str]:
        """Lines of a unified diff."""
        old, new = self.before.splitlines(), self.after.splitlines()
        return difflib.unified_diff(old, new, str(self.path), str(self.path), lineterm="")


def plan(file: SettingsFile, environ: Mapping[str, str]) -> Change:
    """LlmgateError, with the lines to put in by hand, where the file cannot be changed safely."""
    path = place_of(file, environ)
    try:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        return Change(path, before, merge(before, file.format, file.values))
    except CannotMerge as error:
        reason = str(error)
    except UnicodeDecodeError:
        reason = "is not UTF-8 text"
    except OSError as error:
        reason = f"cannot be read: {os.strerror(error.errno or 0)}"
    raise LlmgateError(
        f"llmgate: {path} {reason}. Nothing was written. Put this in by hand:\n\n{dump(file.format, file.values)}"
    )


def place_of(file: SettingsFile, environ: Mapping[str, str]) -> Path:
    """The first of its places that is there; else the one that a variable names; else the last."""
    known = [(place, path) for place in file.places if (path := _expand(place, environ)) is not None]
    there = (path for _, path in known if path.exists())
    named = (path for place, path in known if place.startswith("$"))
    return (next(there, None) or next(named, None) or known[-1][1]).resolve()


def _expand(place: str, environ: Mapping[str, str]) -> Path | None:
    """None where it begins with a variable that is not set."""
    variable = re.match(r"\$(\w+)", place)
    if variable is None:
        return Path(place.replace("~", environ.get("HOME", "~"), 1)).expanduser()
    value = environ.get(variable[1])
    return Path(value + place[variable.end() :]) if value else None


def write(change: Change) -> None:
    """Puts the file in place as a whole, with the mode of the old one, else for its owner only: it may hold a key."""
    path = change.path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            shutil.copy2(path, change.backup)
        _replace(path, change.after)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise LlmgateError(f"llmgate: {path} cannot be written: {reason}; it is as it was") from None


def _replace(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        if path.exists():
            shutil.copymode(path, name)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
