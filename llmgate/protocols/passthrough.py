"""What is passed on to a server as it is, under /upstream/NAME/: which paths, which of them wait, where redirects lead.

A path goes on undecoded, byte for byte, so that the server sees what it would see without us. What could be read as
another path than it looks, by the server or by a proxy in front of it, does not go on at all.
"""

import re
from typing import Final
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

from llmgate.errors import BadRequest, MethodNotAllowed
from llmgate.protocols.fault import Hides, nothing_hidden

READ_ONLY: Final = frozenset(
    {
        b"/api/me",
        b"/api/show",
        b"/apply-template",
        b"/chat/completions/input_tokens",
        b"/detokenize",
        b"/responses/input_tokens",
        b"/tokenize",
        b"/v1/chat/completions/control",
        b"/v1/chat/completions/input_tokens",
        b"/v1/chat/completions/render",
        b"/v1/completions/render",
        b"/v1/messages/count_tokens",
        b"/v1/responses/input_tokens",
        b"/v1/streams/lookup",
    }
)
"""Paths of llama-server, vLLM and Ollama whose POST takes no slot of the server and never makes its model run: text to
tokens and back, templates, counts, questions about models and streams. (`control` ends the thinking of an answer that
runs: it must not wait for that answer.)"""

UNGATED: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS"})
"""They start no work: the safe methods (RFC 9110 9.2.1), and one that ends something, which must not wait for that."""

METHODS: Final = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"
"""What is said to be allowed; others pass as well, but for those that are refused."""

_REFUSED: Final = frozenset({"CONNECT", "TRACE"})
"""TRACE would show the client our own key for the server (RFC 9110 9.3.8); CONNECT asks for no path."""

_PLAIN: Final = re.compile(rb"[!-~]*")
_CONTROL: Final = re.compile(rb"[\x00-\x1f\x7f]")
_SEPARATOR: Final = re.compile(rb"[/\\]")

PASSED: Final = frozenset({b"allow", b"cache-control", b"content-disposition", b"content-encoding"})
"""Headers of an answer without which it would not be what it is, beside those that every answer may bring, and its
length and Location."""


def is_gated(method: str, path: bytes) -> bool:
    """Whether such a request takes a place in the queue: all that could make the model run, and all that is unknown."""
    return method not in UNGATED and not (method == "POST" and path in READ_ONLY)


def check_method(method: str) -> None:
    """Raises MethodNotAllowed for one that is not passed on to anybody."""
    if method in _REFUSED:
        raise MethodNotAllowed("llmgate: this method is not passed on (METHOD_NOT_ALLOWED)")


def check_target(path: bytes, query: bytes) -> None:
    """Raises BadRequest for anything but a plain path, as it stands undecoded in the request line, and its query.

    Not plain: `.` and `..` as a segment, be it encoded (even twice), behind a backslash or before a `;`; a path that
    begins like a host (`//host`); control characters, encoded in the path as well.
    """
    if not (_PLAIN.fullmatch(path) and _PLAIN.fullmatch(query)):
        raise _not_plain()
    for _ in range(3):
        if not path.startswith(b"/") or path[1:2] in (b"/", b"\\") or _CONTROL.search(path):
            raise _not_plain()
        segments = _SEPARATOR.split(path)
        if any(segment.partition(b";")[0] in (b".", b"..") for segment in segments):
            raise _not_plain()
        path = unquote_to_bytes(path)


def _not_plain() -> BadRequest:
    return BadRequest("llmgate: only a plain path is passed on: no dot segments, no control characters (BAD_REQUEST)")


def location_for(location: bytes, url: str, outside: bytes) -> bytes | None:
    """Where a client finds what a server's redirect leads to; None where it finds that nowhere.

    `url` is the server's own, `outside` the path under which its paths are passed on, such as "/llm/upstream/a".
    A Location that is relative, or leads to another host, holds as it is.
    """
    base = urlsplit(url)
    try:
        target = urlsplit(location.decode("latin-1"), scheme=base.scheme)
        elsewhere = bool(target.netloc) and _origin(target) != _origin(base)
    except ValueError:
        return None
    if elsewhere or not (target.netloc or target.path.startswith("/")):
        return location
    inside = base.path.rstrip("/") + "/"
    path = target.path or "/"
    if not path.startswith(inside):
        return None
    rest = target._replace(scheme="", netloc="", path=path.removeprefix(inside)).geturl()
    return outside + b"/" + rest.encode("latin-1")


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    return url.scheme, url.hostname, url.port or {"http": 80, "https": 443}.get(url.scheme)


class Unwatched:
    """The StreamWatch of a body of which nothing is known but its end: it passes as it comes."""

    __slots__ = ("complete", "failed", "hides", "input_tokens", "inside_event", "opened", "output_tokens", "started")

    def __init__(self) -> None:
        self.complete = self.failed = self.started = self.opened = False
        self.inside_event = False
        """A body that is not over: nothing of our own may follow it."""
        self.output_tokens = 0
        self.input_tokens: int | None = None
        self.hides: Hides = nothing_hidden
        """Means nothing here."""

    def feed(self, data: bytes) -> bytes:
        """All of it."""
        self.started = self.inside_event = True
        return data

    def finish(self) -> bytes:
        """Only now it is known to be whole."""
        self.complete, self.inside_event = True, False
        return b""
