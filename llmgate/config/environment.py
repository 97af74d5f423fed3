"""Settings as plain text: environment variables and `--upstream`.

LLMGATE_SECTION__KEY sets a key of a section (LLMGATE_SERVER__CORS__KEY of one inside another),
LLMGATE_UPSTREAMS__NAME__KEY one of an upstream; sections and keys in any case. A NAME is the upstream of exactly that
name, else the one upstream whose name is the same once case is set aside and everything but letters and digits is taken
as an underscore (LLMGATE_UPSTREAMS__VLLM_A100__URL means vllm-a100), else a new upstream of that name. Variables
without a double underscore are no settings: LLMGATE_CONFIG is known, and the others are told as odd.
Lists are JSON or separated by commas, lists of tables JSON; tables are JSON or name=value separated by commas.
"""

import json
import re
import types
import typing
from collections.abc import Collection, Mapping
from typing import Any

from pydantic import BaseModel

from llmgate.config.problems import Path, Problem
from llmgate.config.settings import Settings, UpstreamSettings, tables
from llmgate.errors import SettingsError
from llmgate.names import nearest

PREFIX = "LLMGATE_"
_BOOLEANS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


class EnvironmentValues:
    """What the environment sets: nested `values`, `names` of variables by path.

    The path of a problem is a variable; `oddities` are variables that set nothing, but hinder nothing.
    """

    def __init__(self, environ: Mapping[str, str], upstreams: Collection[str]) -> None:
        self.values: dict[str, Any] = {}
        self.names: dict[Path, str] = {}
        self.problems: list[Problem] = []
        self.oddities: list[Problem] = []
        for name in sorted(environ):
            if name.startswith(PREFIX) and "__" in name:
                self._read(name, environ[name], upstreams)
            elif name.startswith(PREFIX) and not _is_known(name, environ[name]):
                self.oddities.append(Problem((name,), f"is no setting{_meant(name)}"))

    def _read(self, name: str, text: str, upstreams: Collection[str]) -> None:
        section, _, rest = name.removeprefix(PREFIX).partition("__")
        section = section.lower()
        if section == "upstreams":
            written, _, key = rest.rpartition("__")
            path: tuple[str, ...] = (section, self._upstream(name, written, upstreams), key.lower())
        else:
            inner, _, key = rest.lower().partition("__")
            path = (section, inner, key) if (section, inner) in tables() else (section, rest.lower())
        if path[:2] in tables() and not path[-1]:
            keys = ", ".join(f"{name}__{known.upper()}" for known in tables()[path[:2]].model_fields)
            self.problems.append(Problem((name,), f"names a table of the settings; there are {keys}"))
        elif section not in Settings.model_fields or not all(path):
            sections = ", ".join(f"{PREFIX}{known.upper()}__..." for known in Settings.model_fields)
            self.problems.append(Problem((name,), f"names no section of the settings; there are {sections}"))
        elif path in self.names:
            self.problems.append(Problem((name,), f"sets the same key as {self.names[path]}"))
        else:
            self.names[path] = name
            self._put(path, text)

    def _upstream(self, name: str, written: str, upstreams: Collection[str]) -> str:
        if written in upstreams:
            return written
        alike = sorted(upstream for upstream in upstreams if _fold(upstream) == _fold(written))
        if len(alike) > 1:
            self.problems.append(Problem((name,), f"may mean each of the upstreams {', '.join(alike)}"))
        return alike[0] if alike else written

    def _put(self, path: tuple[str, ...], text: str) -> None:
        table = self.values
        for part in path[:-1]:
            table = table.setdefault(part, {})
        model = UpstreamSettings if path[0] == "upstreams" else tables().get(path[:-1])
        table[path[-1]] = text if model is None else from_text(model, path[-1], text)


def _is_known(name: str, text: str) -> bool:
    """Whether it is one that llmgate or its tests read, or that Kubernetes sets for a service called llmgate."""
    if name == "LLMGATE_CONFIG" or name.startswith("LLMGATE_TEST_"):
        return True
    of_service = re.match(r"LLMGATE_(?:SERVICE_(?:HOST|PORT)|PORT_\d+_)", name) is not None
    return of_service or (name == "LLMGATE_PORT" and "://" in text)


def _meant(name: str) -> str:
    """What goes on after "is no setting": the variable that is nearest, or what they look like."""
    keys = [(*table, key) for table, model in tables().items() for key in model.model_fields]
    known = ["__".join(path).upper() for path in keys if path not in tables()]
    word = name.removeprefix(PREFIX).upper()
    near = next((end for end in known if end.endswith(f"__{word}")), None) or nearest(word, [*known, "CONFIG"])
    return f"; did you mean {PREFIX}{near}?" if near else f": settings are {PREFIX}SECTION__KEY, see llmgate.toml(5)"


def _fold(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "_", name).upper()


def from_text(model: type[BaseModel], key: str, text: str, separator: str = ",") -> Any:
    """The value of `text` in the shape that `key` has; the text itself where it has none, for the model to refuse."""
    field = model.model_fields.get(key)
    kinds = _kinds(field.annotation) if field is not None else set()
    stripped = text.strip()
    if tuple in kinds:
        found = _from_json(stripped)  # which [::1]:8080 is not
        return found if isinstance(found, list) else _split(stripped, separator)
    if dict in kinds:
        return _from_json(stripped) if stripped.startswith("{") else _table(stripped, separator)
    if bool in kinds:
        return _BOOLEANS.get(stripped.lower(), text)
    if int in kinds and re.fullmatch(r"0|[1-9][0-9]{0,18}", stripped, re.ASCII):
        return int(stripped)
    return text


def _kinds(annotation: Any) -> set[Any]:
    """The plain types that an annotation is made of: {int, None} of `int | None`, {dict} of `dict[str, str]`."""
    origin = typing.get_origin(annotation)
    if origin in (types.UnionType, typing.Union):
        return {kind for part in typing.get_args(annotation) for kind in _kinds(part)}
    return {origin or annotation}


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _split(text: str, separator: str) -> list[str]:
    return [part.strip() for part in text.split(separator)] if text else []


def _table(text: str, separator: str) -> dict[str, str] | str:
    pairs = [part.partition("=") for part in _split(text, separator)]
    return {name.strip(): value.strip() for name, _, value in pairs} if all(sign for _, sign, _ in pairs) else text


def parse_upstream(text: str) -> dict[str, dict[str, Any]]:
    """`NAME=URL[,max_concurrent=1][,models=a|b]...` as {NAME: {"url": URL, ...}}, for overrides["upstreams"].

    max_concurrent may be left out: load() then takes a file's, else "auto". SettingsError says what is wrong. Several
    endpoints are not to be had here: their tables would need signs of their own between the commas.
    """
    name, equals, rest = text.partition("=")
    url, *pairs = rest.split(",")
    if not equals or not name or not url:
        raise SettingsError(
            "llmgate: --upstream: must be NAME=URL, such as reasoning=http://127.0.0.1:8000,max_concurrent=1"
        )
    values: dict[str, Any] = {"url": url}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        key = key.strip()
        if key == "endpoints":
            raise SettingsError(f"llmgate: --upstream {name}: endpoints need a settings file, see llmgate.toml(5)")
        if not equals or key not in UpstreamSettings.model_fields or key in values:
            raise SettingsError(f"llmgate: --upstream {name}: {_advise_pair(key, is_pair=bool(equals))}")
        values[key] = from_text(UpstreamSettings, key, value, "|")
    return {name: values}


def _advise_pair(key: str, *, is_pair: bool) -> str:
    """What is wrong after the URL: an unknown key is named as that of a file is."""
    known = [key for key in UpstreamSettings.model_fields if key not in ("url", "endpoints")]
    if not is_pair or key in UpstreamSettings.model_fields:
        return f"after the URL comes KEY=VALUE, each KEY once, of {', '.join(known)}"
    near = nearest(key, known)
    return f"unknown key {key}; " + (f"did you mean {near}?" if near else f"known here are {', '.join(known)}")
