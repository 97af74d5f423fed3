"""Whether a request may come in at all, decided from its headers before a byte of its body is read.

`check` reads top to bottom: key, Host, Origin. (Method, path and size follow at the door itself, since they are told in
the shape of the path.) What each is against:

    key      strangers. Every refusal is the same, whatever is wrong with the key.
    Host     DNS rebinding: a page of evil.example whose name leads to 127.0.0.1 counts as of one origin with us, and
             only the Host header still tells its name. Names of this machine and addresses cannot be rebound.
    Origin   pages of other sites: a browser sends a simple POST to anybody, without asking first. It always says whose
             page it is by Origin, or, where that is left out, by Sec-Fetch-Site; programs send neither.

A page that our own origin served has that as its Origin. It is compared with the Host header, which was checked just
before. A proxy that changes Host needs its pages' origin among `origins`.
"""

import functools
import ipaddress
import re
from collections.abc import Mapping

import msgspec

from llmgate.core.keys import ClientKey, ClientKeys
from llmgate.errors import HostNotAllowed, OriginNotAllowed, Unauthorized

Headers = Mapping[bytes, bytes]
"""Names in lower case; the values of a name that comes twice are joined by ", ", which none of these checks takes."""

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,255})(?::(\d{0,5}))?", re.ASCII)
_HOST_MOST = 300
"""Bytes of a Host header: a name has at most 253."""
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_BEARER = re.compile(rb"bearer +([\x21-\x7e]+)", re.IGNORECASE)
_OWN_PAGES = (b"same-origin", b"none")
"""Sec-Fetch-Site of our own pages, and of what a person typed."""

CREDENTIALS = frozenset({b"authorization", b"x-api-key"})
"""The request headers that may bring a key."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request as the door sees it."""

    method: str
    path: str
    headers: Headers
    address: str = ""
    """IP address of the other end of the connection, "" of a Unix socket."""
    port: int = 0
    unix: bool = False
    """It came over a Unix socket, which no browser reaches."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What the settings say."""

    keys: ClientKeys
    open_paths: frozenset[str] = frozenset()
    """No key is asked here."""
    allowed_hosts: tuple[str, ...] = ()
    """In lower case; "*.name" is every name below it, "*" every name."""
    origins: frozenset[bytes] = frozenset()
    trusted_proxies: tuple[_Network, ...] = ()


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    key: ClientKey | None = None
    """None where nobody is asked for one."""
    peer: str = "unix"
    """Whoever asks, for people to read: "host:port", or the address alone that a trusted proxy told."""
    is_preflight: bool = False
    """A browser asks beforehand: it is answered here, with nothing but headers."""

    @property
    def key_name(self) -> str:
        return self.key.name if self.key is not None else ""


ANYBODY = Access()
"""Of a request that came past no door, as in a test."""


def check(asked: Asked, rules: Rules) -> Access:
    """Raises Unauthorized, HostNotAllowed or OriginNotAllowed, in this order."""
    preflight = is_preflight(asked)
    key = None if preflight or not rules.keys else _check_key(asked, rules)
    _check_host(asked, rules)
    _check_origin(asked.headers, rules)
    return Access(key=key, peer=peer_of(asked, rules.trusted_proxies), is_preflight=preflight)


def is_preflight(asked: Asked) -> bool:
    """Browsers send these without a key."""
    headers = asked.headers
    return asked.method == "OPTIONS" and b"origin" in headers and b"access-control-request-method" in headers


# ---- key


def _check_key(asked: Asked, rules: Rules) -> ClientKey | None:
    secret = _secret(asked.headers)
    key = rules.keys.find(secret or b"")
    if asked.path in rules.open_paths:
        return key
    if key is None or secret is None:
        raise Unauthorized("llmgate: a valid key is needed, as x-api-key or Authorization: Bearer (UNAUTHORIZED)")
    return key


def _secret(headers: Headers) -> bytes | None:
    """The one key that the headers bring. None where they bring none, or two: one of them is not for us. A header
    without one brings nothing: some clients send it for a key that is not set."""
    authorization = headers.get(b"authorization", b"").strip()
    bearer = _BEARER.fullmatch(authorization)
    found = {bearer[1]} if bearer else set()
    if other := headers.get(b"x-api-key", b"").strip():
        found.add(other)
    if not bearer and authorization.lower() not in (b"", b"bearer"):
        return None
    return found.pop() if len(found) == 1 else None


# ---- Host


def _check_host(asked: Asked, rules: Rules) -> None:
    host = asked.headers.get(b"host")
    if asked.unix or host is None or (len(host) <= _HOST_MOST and _is_allowed(host, rules.allowed_hosts)):
        return
    raise HostNotAllowed(
        "llmgate: this Host name is not among those allowed: ask by address or localhost, or add the name to "
        "allowed_hosts in [server] (HOST_NOT_ALLOWED)"
    )


def _name_of(host: bytes) -> str:
    """The name or address in a Host header, in lower case, without port, brackets and the root's dot; "" of none."""
    parts = _AUTHORITY.fullmatch(host.decode("latin-1").strip())
    return parts[1].lower().removesuffix(".").strip("[]") if parts else ""


@functools.lru_cache(maxsize=256)
def _is_allowed(host: bytes, allowed: tuple[str, ...]) -> bool:
    name = _name_of(host)
    if name == "localhost" or name.endswith(".localhost") or is_address(name):
        return True
    return bool(name) and any(_covers(entry, name) for entry in allowed)


def _covers(entry: str, name: str) -> bool:
    return entry in ("*", name) or (entry.startswith("*.") and name.endswith(entry[1:]))


def is_address(name: str) -> bool:
    """An IP literal, without brackets."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


# ---- Origin


def _check_origin(headers: Headers, rules: Rules) -> None:
    origin = headers.get(b"origin")
    if origin is None:
        is_ours = headers.get(b"sec-fetch-site", b"none").lower() in _OWN_PAGES
    else:
        is_ours = origin in rules.origins or _is_same(origin, headers.get(b"host", b""))
    if not is_ours:
        raise OriginNotAllowed(
            "llmgate: pages of this origin may not ask here: add it to origins in [server.cors] (ORIGIN_NOT_ALLOWED)"
        )


def _is_same(origin: bytes, host: bytes) -> bool:
    """Whether a page of this origin came from the host that is asked, whichever scheme a proxy in between speaks."""
    scheme, separator, authority = origin.decode("latin-1").lower().partition("://")
    own = _AUTHORITY.fullmatch(host.decode("latin-1").lower().strip())
    page = _AUTHORITY.fullmatch(authority)
    if not separator or page is None or own is None or scheme not in _DEFAULT_PORTS:
        return False
    port = _DEFAULT_PORTS[scheme]
    return (page[1], page[2] or port) == (own[1], own[2] or port)


# ---- who asks


def peer_of(asked: Asked, trusted: tuple[_Network, ...]) -> str:
    """The address that a trusted proxy tells, else that of the connection.

    Each proxy appends whom it heard from, so the list is read from its end, as far as trusted proxies wrote it.
    """
    if not asked.address:
        return "unix"
    peer = f"{asked.address}:{asked.port}"
    if not trusted or not _is_trusted(asked.address, trusted):
        return peer
    for entry in reversed(asked.headers.get(b"x-forwarded-for", b"").decode("latin-1").split(",")[-_MOST_HOPS:]):
        address = entry.strip()
        if not is_address(address):
            break
        peer = address
        if not _is_trusted(address, trusted):
            break
    return peer


_MOST_HOPS = 32


def _is_trusted(address: str, trusted: tuple[_Network, ...]) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    found = getattr(found, "ipv4_mapped", None) or found
    return any(found in network for network in trusted)
