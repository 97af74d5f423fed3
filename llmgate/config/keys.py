"""The keys that upstreams are asked with, read at start and at every reload from the environment or from files."""

import os
import re
import ssl
import stat
from collections.abc import Mapping
from pathlib import Path

from pydantic import SecretStr

from llmgate.config.problems import Problem
from llmgate.config.settings import Settings, UpstreamSettings
from llmgate.config.units import BadValue

_LONGEST_KEY = 16384


class Keys:
    """`by_upstream`, and what is wrong (`problems`) or careless (`oddities`) with where they lie."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self.by_upstream: dict[str, SecretStr] = {}
        self.problems: list[Problem] = []
        self.oddities: list[Problem] = []
        for name, upstream in settings.upstreams.items():
            self._read_key(name, upstream, environ)
            self._check_ca_file(name, upstream)

    def _read_key(self, name: str, upstream: UpstreamSettings, environ: Mapping[str, str]) -> None:
        key = "api_key_env" if upstream.api_key_env else "api_key_file"
        path = ("upstreams", name, key)
        try:
            if upstream.api_key_env:
                self.by_upstream[name] = _from_environment(upstream.api_key_env, environ)
            elif upstream.api_key_file:
                self.by_upstream[name] = _from_file(upstream.api_key_file)
                if upstream.api_key_file.stat().st_mode & stat.S_IROTH:
                    self.oddities.append(Problem(path, "can be read by every user of this machine: chmod o-r"))
        except BadValue as error:
            self.problems.append(Problem(path, str(error)))
        except OSError as error:
            self.problems.append(Problem(path, f"must be a file that can be read: {os.strerror(error.errno or 0)}"))

    def _check_ca_file(self, name: str, upstream: UpstreamSettings) -> None:
        try:
            if upstream.ca_file:
                ssl.create_default_context(cafile=upstream.ca_file)
        except ssl.SSLError:
            self.problems.append(Problem(("upstreams", name, "ca_file"), "must hold certificates in PEM form"))
        except OSError as error:
            text = f"must be a file that can be read: {os.strerror(error.errno or 0)}"
            self.problems.append(Problem(("upstreams", name, "ca_file"), text))


def _from_environment(variable: str, environ: Mapping[str, str]) -> SecretStr:
    if variable not in environ:
        raise BadValue("names an environment variable that is not set")
    return _secret(environ[variable])


def _from_file(path: Path) -> SecretStr:
    with path.open("rb") as file:
        return _secret(file.read(_LONGEST_KEY + 1).decode("utf-8", "replace"))


def _secret(text: str) -> SecretStr:
    key = text.strip()
    if not re.fullmatch(r"[\x21-\x7e]+", key) or len(key) > _LONGEST_KEY:
        raise BadValue("must hold one key: a line of letters, digits and signs without blanks")
    return SecretStr(key)
