"""Find, read and check the settings: file, then environment, then command line, the later ones winning."""

import dataclasses
import os
import re
import ssl
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from llmgate.config.certificate import Certificate, CertificateFiles
from llmgate.config.checks import find_oddities, find_problems
from llmgate.config.environment import EnvironmentValues
from llmgate.config.keyring import Keyring
from llmgate.config.keys import Keys
from llmgate.config.origins import Origins
from llmgate.config.paths import find_file
from llmgate.config.refusals import find_refusals
from llmgate.config.settings import Settings
from llmgate.config.synonyms import Plain
from llmgate.core.keys import ClientKeys
from llmgate.errors import SettingsError

_LARGEST_FILE = 1 << 20


@dataclasses.dataclass(frozen=True)
class Loaded:
    """Settings that may be used. `path` is None where no file was found; `api_keys` are by upstream, `keys` those of
    the clients, none where nobody is asked for one."""

    settings: Settings
    path: Path | None
    warnings: tuple[str, ...] = ()
    api_keys: Mapping[str, SecretStr] = dataclasses.field(default_factory=dict)
    keys: ClientKeys = dataclasses.field(default_factory=ClientKeys)
    certificate: Certificate | None = None
    """Of the front door; None = it speaks plain HTTP."""
    origins: Origins | None = dataclasses.field(default=None, repr=False, compare=False)
    """Where each value came from; it holds secrets."""

    @property
    def tls(self) -> ssl.SSLContext | None:
        """What clients shake hands with; None: they do not."""
        return self.certificate.context if self.certificate is not None else None


def load(path: Path | None, *, environ: Mapping[str, str], overrides: Mapping[str, Any] | None = None) -> Loaded:
    """The settings of `path`, or of the first file that is found where it is None, or defaults where there is none.

    `overrides` (nested, as the TOML would be) come from the command line. SettingsError has a line for each thing that
    is wrong, each beginning with "llmgate: ".
    """
    return trace(path, environ=environ, overrides=overrides)[0]


def trace(
    path: Path | None, *, environ: Mapping[str, str], overrides: Mapping[str, Any] | None = None
) -> tuple[Loaded, Origins]:
    """As `load`, with where each value came from."""
    file = path if path is not None else find_file(environ)
    text = read_text(file) if file is not None else ""
    plain = Plain(_parse(file, text))
    overrides = overrides or {}
    environment = EnvironmentValues(environ, {*_upstreams(plain.values), *_upstreams(overrides)})
    origins = Origins(file, text, plain, environment, overrides)
    merged = _merge(overrides, environment.values, plain.values)
    settings = _validate(_with_auto(merged, overrides), origins)
    keys = Keys(settings, environ)
    keyring = Keyring(settings.server.keys_file)
    tls = CertificateFiles(settings.server)
    problems = [*find_problems(settings), *keys.problems, *keyring.problems, *tls.problems]
    if messages := origins.messages(problems):
        raise SettingsError("\n".join(messages))
    odd = [f"llmgate: environment variable {problem.path[0]} {problem.text}" for problem in environment.oddities]
    careless = [*find_oddities(settings), *keys.oddities, *keyring.oddities, *tls.oddities]
    warnings = [*origins.messages(careless), *odd]
    loaded = Loaded(settings, file, tuple(warnings), keys.by_upstream, keyring.keys, tls.certificate, origins)
    return loaded, origins


def read_text(file: Path) -> str:
    """The text of a settings file; SettingsError when it is no readable file in UTF-8."""
    try:
        with file.open("rb") as stream:
            data = stream.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise SettingsError(f"llmgate: {file}: cannot be read: {os.strerror(error.errno or 0)}") from None
    if len(data) > _LARGEST_FILE:
        raise SettingsError(f"llmgate: {file}: is too large for a settings file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"llmgate: {file}:{line}: is not UTF-8 text") from None


def _parse(file: Path | None, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:
        place = re.fullmatch(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", str(error), re.DOTALL)
        message, line = (place[1], place[2]) if place else (str(error), None)
        at = int(line) if line else text.rstrip().count("\n") + 1
        said = _in_words(message, text.split("\n")[at - 1])
        raise SettingsError(f"llmgate: {file}:{at}: {said}") from None
    except RecursionError:
        raise SettingsError(f"llmgate: {file}: not TOML: too many brackets inside each other") from None


def _in_words(message: str, line: str) -> str:
    """tomllib's message for what begins or ends on this line; a key or a table that stands twice is named."""
    key = re.match(r"\s*([^=#\[{]+?)\s*=", line)
    table = re.match(r"\s*(\[[^\]]*\]+)", line)
    if message.startswith("Cannot overwrite a value") and key:
        return f"{key[1]} stands there twice"
    inline = re.fullmatch(r"Duplicate inline table key '(.*)'", message)
    if inline:
        return f"{inline[1]} stands there twice"
    if message.startswith("Cannot declare") and message.endswith("twice") and table:
        return f"{table[1]} stands there twice"
    return f"not TOML: {message}"


def _upstreams(values: Mapping[str, Any]) -> list[str]:
    upstreams = values.get("upstreams")
    return list(upstreams) if isinstance(upstreams, Mapping) else []


class _Values(PydanticBaseSettingsSource):
    """A source of settings that are already read."""

    def __init__(self, settings: type[BaseSettings], values: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self._values = dict(values)

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002  its signature
        return self._values.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        return self._values


class _Merged(BaseSettings):
    """The values of `sources`, table by table, the first source winning. One class for all: a class made for each
    reading would live until the collector of circles comes."""

    model_config = SettingsConfigDict(extra="allow")

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_others: Any, **_named: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return tuple(_Values(settings_cls, source) for source in init_settings()["sources"])


def _merge(*sources: Mapping[str, Any]) -> dict[str, Any]:
    return _Merged(sources=sources).model_extra or {}  # type: ignore[call-arg]


def _with_auto(values: dict[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """An upstream of the command line need not say max_concurrent."""
    upstreams = values.get("upstreams")
    if not isinstance(upstreams, dict):
        return values
    named = {name: upstreams[name] for name in _upstreams(overrides) if isinstance(upstreams[name], dict)}
    auto = {name: {"max_concurrent": "auto", **table} for name, table in named.items()}
    return {**values, "upstreams": {**upstreams, **auto}}


def _validate(values: Mapping[str, Any], origins: Origins) -> Settings:
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        # Without its cause: pydantic's own text may hold values, and values may be secrets.
        raise SettingsError("\n".join(origins.messages(find_refusals(error)))) from None
