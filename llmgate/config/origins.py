"""Where each setting came from, so that an error can say it: a line of the file, a variable, the command line."""

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path as FilePath
from typing import Any

from llmgate.config.environment import EnvironmentValues
from llmgate.config.lines import find_lines
from llmgate.config.problems import Path, Problem
from llmgate.config.synonyms import Plain

COMMAND_LINE = "command line"


@dataclasses.dataclass(frozen=True)
class Origins:
    """`text` is the file's; `file` is None where there is none."""

    file: FilePath | None
    text: str
    plain: Plain
    environment: EnvironmentValues
    overrides: Mapping[str, Any]
    later: Mapping[Path, str] = dataclasses.field(default_factory=dict)
    """Where single values came from that were taken on after the rest."""

    def messages(self, problems: Iterable[Problem]) -> list[str]:
        """One line for each problem, and for those found on the way; those of the file first, in its order."""
        lines = find_lines(self.text)
        told = [self._in_file(problem, lines) for problem in self.plain.problems]
        told += [self._told(problem, lines) for problem in problems]
        told += [
            (3, 0, f"environment variable {problem.path[0]} {problem.text}") for problem in self.environment.problems
        ]
        return list(dict.fromkeys(f"llmgate: {text}" for _, _, text in sorted(told, key=lambda entry: entry[:2])))

    def place(self, path: Path) -> str:
        """Where the value at `path` comes from: "FILE:LINE", "environment variable NAME", "command line", "default"."""
        if path in self.later:
            return self.later[path]
        if _has(self.overrides, path):
            return COMMAND_LINE
        if variable := self._variable(path):
            return f"environment variable {variable}"
        line = find_lines(self.text).get(self.plain.as_written(path))
        return f"{self.file}:{line}" if line else "default"

    def taking(self, newer: "Origins", paths: Iterable[Path]) -> "Origins":
        """The same, but for the values at `paths`, which are those of `newer`."""
        return dataclasses.replace(self, later={**self.later, **{path: newer.place(path) for path in paths}})

    def _told(self, problem: Problem, lines: Mapping[Path, int]) -> tuple[int, int, str]:
        """The message, after its place among the others: kind of origin and line."""
        path = problem.path
        if _has(self.overrides, path):
            return 2, 0, f"{COMMAND_LINE}: {problem}"
        if variable := self._variable(path):
            return 1, 0, f"environment variable {variable}: {problem}"
        written = dataclasses.replace(problem, path=self.plain.as_written(path))
        if written.path in lines or written.path[:-1] in lines:
            return self._in_file(written, lines)
        return self._of_table(problem)

    def _variable(self, path: Path) -> str | None:
        """The variable that sets what `path` leads to, or the list that it is in."""
        names = self.environment.names
        return next((names[path[:size]] for size in range(len(path), 0, -1) if path[:size] in names), None)

    def _in_file(self, problem: Problem, lines: Mapping[Path, int]) -> tuple[int, int, str]:
        known = [lines[problem.path[:size]] for size in range(len(problem.path), 0, -1) if problem.path[:size] in lines]
        line = known[0] if known else 0
        return 0, line, f"{self.file}:{line}: {problem}" if line else f"{self.file}: {problem}"

    def _of_table(self, problem: Problem) -> tuple[int, int, str]:
        """A key that stands nowhere, in a table that the environment or the command line made."""
        table = problem.path[:-1]
        names = [name for path, name in self.environment.names.items() if path[: len(table)] == table]
        if _has(self.overrides, table):
            return 2, 0, f"{COMMAND_LINE}: {problem}"
        return (1, 0, f"environment variable {names[0]}: {problem}") if table and names else (3, 0, str(problem))


def _has(values: Mapping[str, Any], path: Path) -> bool:
    """Whether `path` leads to a value, or into a list, which is always taken as a whole."""
    found: Any = values
    for part in path:
        if isinstance(found, list):
            return True
        if not isinstance(found, Mapping) or part not in found:
            return False
        found = found[part]
    return bool(path)
