"""Other spellings that a settings file may use: those of the plugin that llmgate grew from.

`[providers.NAME]` for `[upstreams.NAME]`, and in it and its endpoints maxConcurrent, maxQueued and queueTimeoutMs
(milliseconds).
"""

from collections.abc import Mapping
from typing import Any

from llmgate.config.problems import Path, Problem

KEYS = {"maxConcurrent": "max_concurrent", "maxQueued": "max_queued", "queueTimeoutMs": "queue_timeout"}


class Plain:
    """A file's values under their own names.

    `written` gives the path in the file for those paths in `values` that differ; `problems` have paths of the file.
    """

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.values: dict[str, Any] = dict(raw)
        self.written: dict[Path, Path] = {}
        self.problems: list[Problem] = []
        self._merge_providers()
        upstreams = self.values.get("upstreams")
        if isinstance(upstreams, dict):
            self.values["upstreams"] = {
                name: self._upstream(("upstreams", name), table) for name, table in upstreams.items()
            }

    def as_written(self, path: Path) -> Path:
        """The path in the file that stands for `path`."""
        for size in range(len(path), 0, -1):
            if path[:size] in self.written:
                return (*self.written[path[:size]], *path[size:])
        return path

    def _merge_providers(self) -> None:
        if "providers" not in self.values:
            return
        providers = self.values.pop("providers")
        upstreams = self.values.setdefault("upstreams", {})
        if not isinstance(providers, dict):
            self.problems.append(
                Problem(("providers",), "must be tables, such as [providers.NAME], or better [upstreams.NAME]")
            )
        elif isinstance(upstreams, dict):
            for name in sorted(providers.keys() & upstreams.keys()):
                self.problems.append(Problem(("providers", name), f"is there a second time, as upstreams.{name}"))
            self.written |= {("upstreams", name): ("providers", name) for name in providers.keys() - upstreams.keys()}
            self.values["upstreams"] = {**providers, **upstreams}

    def _upstream(self, path: Path, table: Any) -> Any:
        plain = self._keys(path, table)
        if isinstance(plain, dict) and isinstance(plain.get("endpoints"), list):
            endpoints = enumerate(plain["endpoints"])
            plain["endpoints"] = [self._keys((*path, "endpoints", index), endpoint) for index, endpoint in endpoints]
        return plain

    def _keys(self, path: Path, table: Any) -> Any:
        """The table that `path` leads to, each of its keys under its own name."""
        if not isinstance(table, dict):
            return table
        plain: dict[str, Any] = {}
        for key, value in table.items():
            plain_key = KEYS.get(str(key), str(key))
            written = (*self.as_written(path), key)
            if plain_key != key:
                self.written[*path, plain_key] = written
                if plain_key in table:
                    self.problems.append(Problem(written, f"is there a second time, as {plain_key}"))
                    continue
            plain[plain_key] = self._seconds(written, value) if key == "queueTimeoutMs" else value
        return plain

    def _seconds(self, written: Path, milliseconds: Any) -> Any:
        if not isinstance(milliseconds, int) or isinstance(milliseconds, bool) or milliseconds < 0:
            self.problems.append(Problem(written, "must be a whole number of milliseconds, 0 or more"))
            return 0
        return milliseconds / 1000
