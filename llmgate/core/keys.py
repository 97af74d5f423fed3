"""The keys of clients: who has which, what it opens, and how many requests each has going.

A key is known by its SHA-256 only. It is compared with all of them in constant time, so that neither how much of a key
is right nor how many there are can be measured; a key has enough entropy that a fast hash is no weakness.
"""

import fnmatch
import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from llmgate.core.routing import other_tag
from llmgate.errors import KeyLimit


class ClientKey(msgspec.Struct, frozen=True, kw_only=True):
    """One key by the name that log and feed show."""

    name: str
    digest: bytes
    """SHA-256 of the key, 32 bytes."""
    models: tuple[str, ...] = ()
    """Names and globs of the models that it may ask for; empty: every one."""
    max_concurrent: int = 0
    """Requests that it may have at once, those that wait included; 0: as many as it likes."""
    disabled: bool = False

    def may_use(self, *names: str) -> bool:
        """Whether one of these names of one model is among those that it may ask for."""
        if not self.models:
            return True
        both = {*names, *map(other_tag, names)} - {""}
        return any(re.match(fnmatch.translate(glob), name) for glob in self.models for name in both)


class ClientKeys:
    """All keys there are; false where there are none, and then nobody is asked for one."""

    def __init__(self, keys: Iterable[ClientKey] = ()) -> None:
        self._keys = tuple(keys)
        self._by_digest = {key.digest: key for key in self._keys}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClientKeys) and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(self._keys)

    def __bool__(self) -> bool:
        return bool(self._keys)

    def __iter__(self) -> Iterator[ClientKey]:
        return iter(self._keys)

    def find(self, secret: bytes) -> ClientKey | None:
        """Whose key this is; None where it is nobody's, or is disabled."""
        digest = hashlib.sha256(secret).digest()
        found = None
        for key in self._keys:  # all of them, whichever it is
            if hmac.compare_digest(digest, key.digest):
                found = key
        return None if found is None or found.disabled else found

    def now(self, key: ClientKey) -> ClientKey | None:
        """What has become of a key that was found before these were all there are; None where it opens nothing any
        more. Where nobody is asked for a key it opens what it did."""
        if not self._keys:
            return key
        found = self._by_digest.get(key.digest)
        return None if found is None or found.disabled else found


class KeyCounts:
    """How many requests each key has going, by its name: that outlives a reload of the keys."""

    def __init__(self) -> None:
        self._going: Counter[str] = Counter()

    def __getitem__(self, name: str) -> int:
        return self._going[name]

    def enter(self, key: ClientKey) -> None:
        """Counts one more; KeyLimit where it has as many as it may."""
        if 0 < key.max_concurrent <= self._going[key.name]:
            raise KeyLimit(
                "llmgate: this key has as many requests as it may have at once; wait for one of them (KEY_LIMIT)",
                limit=key.max_concurrent,
            )
        self._going[key.name] += 1

    def leave(self, name: str) -> None:
        """One that entered is over."""
        self._going[name] -= 1
        if not self._going[name]:
            del self._going[name]
