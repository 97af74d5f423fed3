"""The head of a request as bytes, and the origin that it goes to."""

import functools
import re
from dataclasses import dataclass

import httpx

from llmgate.upstreams.answer import Headers

_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
"""RFC 9110 5.6.2, what a method and a header name consist of."""

_BODYLESS = frozenset({b"GET", b"HEAD", b"OPTIONS", b"DELETE", b"TRACE"})
"""Methods that need no Content-Length while they have no body (RFC 9110 8.6)."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port of one upstream; path, query and userinfo of its URL play no part here."""

    host: str
    port: int
    secure: bool
    authority: bytes
    """The value of the Host header."""

    @classmethod
    def of(cls, url: httpx.URL | str) -> "Origin":
        """Raises ValueError for anything but an http or https URL with a host."""
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise ValueError("not a URL") from error
        if parsed.scheme not in {"http", "https"} or not parsed.host:
            raise ValueError("not an http or https URL with a host")
        secure = parsed.scheme == "https"
        return cls(parsed.raw_host.decode("ascii"), parsed.port or (443 if secure else 80), secure, parsed.netloc)


def request_head(method: bytes, target: bytes, headers: Headers, authority: bytes, body_bytes: int) -> bytes:
    """Everything up to the empty line. Host and Content-Length are added where absent.

    Raises ValueError for what could be read as something else by the server: CR, LF or NUL anywhere, a name that is
    no token, a blank in the target, a Content-Length that is not the body's, any Transfer-Encoding.
    """
    _check_line(method, target)
    lines = [b"%b %b HTTP/1.1\r\n" % (method, target)]
    has_host = has_length = False
    for name, value in headers:
        key = _checked_name(name)
        if key == b"host":
            has_host = True
        elif key == b"content-length":
            _check_length(value, body_bytes, repeated=has_length)
            has_length = True
        elif key == b"transfer-encoding":
            raise ValueError("the body of a request is sent with its length, never with a Transfer-Encoding")
        lines.append(b"%b: %b\r\n" % (name, value))
    if not has_host:
        lines.insert(1, b"Host: %b\r\n" % authority)
    if not has_length and (body_bytes or method not in _BODYLESS):
        lines.append(b"Content-Length: %d\r\n" % body_bytes)
    head = b"".join(lines)
    # each line has one CR and one LF of ours: any more came in with a value
    if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines) or b"\0" in head:
        raise ValueError("CR, LF or NUL in a header value")
    return head + b"\r\n"


@functools.lru_cache(maxsize=1024)
def _checked_name(name: bytes) -> bytes:
    """The name in lower case."""
    if _TOKEN.fullmatch(name) is None:
        raise ValueError("a header name is no token")
    return name.lower()


def _check_line(method: bytes, target: bytes) -> None:
    if _TOKEN.fullmatch(method) is None:
        raise ValueError("the method is no token")
    if not target or b" " in target or b"\t" in target:
        raise ValueError("the target of a request is empty or has a blank in it")


def _check_length(value: bytes, body_bytes: int, *, repeated: bool) -> None:
    if repeated or value.strip() != b"%d" % body_bytes:
        raise ValueError("a Content-Length that is not the body's")
