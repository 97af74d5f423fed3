"""Whether what answers at a URL is llmgate itself: an upstream that leads to one makes a chain, or a circle."""

import functools
import json
import re
from collections.abc import Collection
from urllib.parse import urlsplit

from llmgate import __version__

LOOK_SECONDS = 2.0
CHAIN = "a chain, in which requests wait a second time, out of sight; where it leads back here, they go round for ever"

_OURS = re.compile(rb'"llmgate: [^"]*\([A-Z_]+\)"')


@functools.cache
def gate_at(url: str) -> str | None:
    """Its version, "" where it tells none without a key; None where it is something else, or does not answer.

    Several upstreams may lead to one server: it is asked once.
    """
    import httpx

    own = {"user-agent": f"llmgate/{__version__}"}
    try:
        answer = httpx.get(f"{url}/api/version", headers=own, timeout=LOOK_SECONDS, trust_env=False)
    except (httpx.HTTPError, ValueError):
        return None
    return version_in(answer.content)


def version_in(body: bytes) -> str | None:
    """Of what GET /api/version gives, which is as Ollama's and names llmgate beside it, or an error of ours."""
    if _OURS.search(body):
        return ""
    try:
        told = json.loads(body)["llmgate"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return told if isinstance(told, str) else None


def is_one_of(url: str, listen: Collection[str]) -> bool:
    """Whether a connection to `url` ends at one of our own addresses, by port and by name of this machine."""
    wanted = urlsplit(url)
    return any(
        own.port is not None and own.port == wanted.port and _is_same(wanted.hostname or "", own.hostname or "")
        for own in map(urlsplit, listen)
    )


def _is_same(host: str, own: str) -> bool:
    import socket

    local = {"localhost", "127.0.0.1", "::1", "0.0.0.0", "::", socket.gethostname()}  # noqa: S104
    if host == own or (host in local and own in local):
        return True
    return own in ("0.0.0.0", "::") and _is_here(host)  # noqa: S104


def _is_here(host: str) -> bool:
    """Whether it is a name or an address of this machine: others cannot be bound."""
    import socket

    try:
        for family, kind, _, _, address in socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM):
            with socket.socket(family, kind) as bound:
                bound.bind(address)
                return True
    except OSError:
        pass
    return False
