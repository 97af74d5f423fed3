"""The keys of clients, from the TOML file that server.keys_file names.

    [keys.laptop]
    hash = "9f86d0..."            # SHA-256 of the key in hex; or key = "..." itself
    models = ["qwen*", "fast"]    # left out: every model
    max_concurrent = 2            # left out or 0: no limit of its own
    disabled = false

No message holds a value: it may be a key.
"""

import hashlib
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, StrictBool, ValidationError

from llmgate.config import values
from llmgate.config.problems import Problem
from llmgate.config.settings import Count, Section
from llmgate.config.units import BadValue
from llmgate.core.keys import ClientKey, ClientKeys

KEYS_FILE = ("server", "keys_file")

SHORTEST_KEY = 16
"""Characters, below which a key is warned of: its hash tells it to whoever reads the file, and others may guess it."""

_LARGEST_FILE = 1 << 20
_LONGEST_KEY = 1024
_HASH = re.compile(r"(?:sha256:)?([0-9a-f]{64})", re.ASCII | re.IGNORECASE)


def _parse_key(value: object) -> object:
    text = values.parse_text(value)
    if text and (not re.fullmatch(r"[\x21-\x7e]+", text) or len(text) > _LONGEST_KEY):
        raise BadValue("must be one line of letters, digits and signs without blanks")
    return text


def _parse_hash(value: object) -> str:
    text = values.parse_text(value)
    found = _HASH.fullmatch(text)
    if text and found is None:
        raise BadValue("must be the SHA-256 of the key in hex, 64 letters and digits: printf %s KEY | sha256sum")
    return found[1].lower() if found else ""


class KeySettings(Section):
    """One [keys.NAME]."""

    key: Annotated[SecretStr, BeforeValidator(_parse_key)] = SecretStr("")
    hash: Annotated[str, BeforeValidator(_parse_hash)] = ""
    models: Annotated[tuple[str, ...], BeforeValidator(values.parse_models)] = ()
    max_concurrent: Count = 0
    disabled: StrictBool = False


class KeysFile(Section):
    """All of the file."""

    keys: dict[Annotated[str, AfterValidator(values.parse_upstream_name)], KeySettings] = Field(default_factory=dict)


class Keyring:
    """`keys`, and what is wrong (`problems`) or careless (`oddities`) with their file."""

    def __init__(self, path: Path | None) -> None:
        self.keys = ClientKeys()
        self.problems: list[Problem] = []
        self.oddities: list[Problem] = []
        if path is None:
            return
        try:
            self._read(path)
        except OSError as error:
            self._refuse(f"must be a file that can be read: {os.strerror(error.errno or 0)}")
        except tomllib.TOMLDecodeError as error:
            self._refuse(f"is not TOML: {error}")
        except (UnicodeDecodeError, RecursionError):
            self._refuse("is not TOML")
        except ValidationError as error:
            for details in error.errors(include_url=False, include_input=False):
                self._refuse(_in_words(details))

    def _refuse(self, text: str) -> None:
        self.problems.append(Problem(KEYS_FILE, text))

    def _read(self, path: Path) -> None:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(_LARGEST_FILE + 1)
        if len(text) > _LARGEST_FILE:
            self._refuse("is too large for a file of keys")
            return
        if mode & stat.S_IROTH:
            self.oddities.append(Problem(KEYS_FILE, "can be read by every user of this machine: chmod o-r"))
        found = KeysFile.model_validate(tomllib.loads(text.decode()))
        if not found.keys:
            self._refuse("holds no key: add [keys.NAME] with key or hash, or leave keys_file out")
        self.keys = ClientKeys(self._make(name, key) for name, key in found.keys.items())
        self._check_distinct()

    def _make(self, name: str, settings: KeySettings) -> ClientKey:
        secret = settings.key.get_secret_value()
        if bool(secret) == bool(settings.hash):
            self._refuse(f"must have one of key and hash in keys.{name}")
        elif 0 < len(secret) < SHORTEST_KEY:
            self.oddities.append(
                Problem(KEYS_FILE, f"has a key in keys.{name} that is short enough to be guessed: openssl rand -hex 24")
            )
        return ClientKey(
            name=name,
            digest=bytes.fromhex(settings.hash) if settings.hash else hashlib.sha256(secret.encode()).digest(),
            models=settings.models,
            max_concurrent=settings.max_concurrent,
            disabled=settings.disabled,
        )

    def _check_distinct(self) -> None:
        """Of two names for one key nobody knows whose limits hold."""
        owners: dict[bytes, str] = {}
        for key in self.keys:
            owner = owners.setdefault(key.digest, key.name)
            if owner != key.name:
                self._refuse(f"has the same key in keys.{owner} and keys.{key.name}")


def _in_words(details: Any) -> str:
    place = ".".join(str(part) for part in details["loc"] if part != "[key]")
    if details["type"] == "extra_forbidden":
        return f"has an unknown key {place}; known are {', '.join(KeySettings.model_fields)}"
    if details["type"] == "value_error":
        return f"has {place}, which {details['ctx']['error']}"
    return f"has {place}, which has a value that is not allowed there"
