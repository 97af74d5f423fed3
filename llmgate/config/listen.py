"""Addresses that the front door listens on, and whether an upstream's URL points back at one of them."""

import dataclasses
import ipaddress
import re
from urllib.parse import SplitResult

from llmgate.config.units import BadValue

_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?", re.ASCII)
_HELP = 'must be "host:port", "[::1]:port", "unix:/path" or "fd:3"'
_MOST_FD = 1 << 20
UNIX_PATH_LIMIT = 103
"""Bytes of a Unix socket's path that every system takes: 104 with its NUL on macOS and BSD, 108 on Linux."""


@dataclasses.dataclass(frozen=True)
class Listen:
    """One address: `host` and `port`, or `path` of a Unix socket, or the number of a socket that is passed to us as an
    open file (then host is "" and port 0)."""

    host: str = ""
    port: int = 0
    path: str = ""
    fd: int | None = None

    def __str__(self) -> str:
        if self.fd is not None:
            return f"fd:{self.fd}"
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Only this machine can reach it: a Unix socket or a loopback address. Of a passed socket that shows only once
        it is here."""
        return bool(self.path) or is_loopback(self.host)


def parse_listen(text: str) -> Listen:
    """Port 0 lets the system choose. BadValue says what is allowed."""
    if text.startswith("unix:"):
        return Listen(path=check_socket_path(text.removeprefix("unix:")))
    if text.startswith("fd:"):
        return Listen(fd=_parse_fd(text.removeprefix("fd:")))
    host, colon, port = text.rpartition(":")
    if not colon or not re.fullmatch(r"\d{1,5}", port, re.ASCII) or int(port) > 65535:
        raise BadValue(f"{_HELP}, the port from 0 to 65535")
    if not host:
        raise BadValue(f'{_HELP}; for every address of this machine say "0.0.0.0:{port}" or "[::]:{port}"')
    return Listen(host=_parse_host(host), port=int(port))


def _parse_fd(text: str) -> int:
    if not re.fullmatch(r"\d{1,7}", text, re.ASCII) or not 3 <= int(text) <= _MOST_FD:
        raise BadValue(f"{_HELP}; the number of a passed socket is 3 or more")
    return int(text)


def _parse_host(text: str) -> str:
    if text.startswith("[") and text.endswith("]"):
        try:
            return str(ipaddress.IPv6Address(text[1:-1]))
        except ValueError:
            raise BadValue(f"{_HELP}; the part in brackets is no IPv6 address") from None
    if re.fullmatch(r"[\d.]+", text, re.ASCII):
        try:
            return str(ipaddress.IPv4Address(text))
        except ValueError:
            raise BadValue(f"{_HELP}; the host is no IPv4 address") from None
    if not _HOST.fullmatch(text):
        raise BadValue(f"{_HELP}; an IPv6 address stands in brackets")
    return text.lower()


def check_socket_path(path: str) -> str:
    """The path unchanged; BadValue when no Unix socket can be bound there."""
    if not path.startswith("/") or "\0" in path:
        raise BadValue("must be an absolute path of a Unix socket")
    if len(path.encode()) > UNIX_PATH_LIMIT:
        raise BadValue("must be a shorter path: a Unix socket's path has room for about a hundred bytes")
    return path


def is_loopback(host: str) -> bool:
    """Names other than localhost count as not: they may resolve to anything."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address, an IPv4 one behind ::ffff: taken out; None for a name."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def points_at(url: SplitResult, listen: Listen) -> bool:
    """Whether a request to `url` would come back to `listen`, as far as that is known without asking the system."""
    port = url.port or (443 if url.scheme == "https" else 80)
    host = (url.hostname or "").lower()
    if listen.path or not listen.port or port != listen.port:
        return False
    return host == listen.host or _reaches(host, listen.host)


def _reaches(host: str, bound: str) -> bool:
    target, own = _address(host), _address(bound)
    if own is not None and own.is_unspecified:
        same_family = target is None or target.version == own.version or own.version == 6
        return same_family and (is_loopback(host) or (target is not None and target.is_unspecified))
    if target is not None and target.is_unspecified:
        return is_loopback(bound)
    if "localhost" in (host, bound):
        return is_loopback(host) and is_loopback(bound)
    return target is not None and target == own
