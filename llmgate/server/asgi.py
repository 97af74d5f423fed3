"""The edges of ASGI that every path needs: reading a bounded body in time, and the headers as a table."""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from starlette.types import Receive, Scope

from llmgate.core.access import ANYBODY, Access
from llmgate.errors import BodyTimeout, BodyTooLarge, CodedBody
from llmgate.server.body_clock import running

Header = tuple[bytes, bytes]
Headers = Mapping[bytes, bytes]
T = TypeVar("T")

JSON = (b"content-type", b"application/json")

INTERNAL = "llmgate: an internal error, see the log of llmgate (INTERNAL)"
"""All that a client is told of a fault of ours."""


ACCESS = "llmgate.access"
"""The name in a scope of what the door found."""

CONNECTION = "llmgate.connection"
"""The name in `scope["extensions"]` of the client's Connection."""


class Connection(Protocol):
    """What ASGI does not offer of a client's connection."""

    def abort(self) -> None:
        """Closes it at once. An answer that has no end yet gets none."""
        ...

    @property
    def is_behind(self) -> bool:
        """More is waiting for the client than a connection should hold."""
        ...

    @property
    def unsent(self) -> int:
        """Bytes that the client has not taken yet, as far as that is known."""
        ...

    async def wait_writable(self) -> None:
        """Until it is not behind any more, or lost."""
        ...


class ClientLeft(Exception):
    """The client went before its body was here: there is nobody to answer."""


def headers_of(scope: Scope) -> Headers:
    """Names in lower case; a name that comes twice has its values joined to a list (RFC 9110 5.3)."""
    pairs = scope["headers"]
    headers: dict[bytes, bytes] = dict(pairs)
    if len(headers) < len(pairs):
        headers.clear()
        for name, value in pairs:
            headers[name] = headers[name] + b", " + value if name in headers else value
    return headers


def new_request_id() -> str:
    """Names one request in answers, log, feed and at the upstream."""
    return "req_" + secrets.token_hex(8)


def access_of(scope: Scope) -> Access:
    """What the door found of this request."""
    found: Access = scope.get(ACCESS, ANYBODY)
    return found


def peer_of(scope: Scope) -> str:
    """Whoever asks: "host:port" of the client's socket, the address that a trusted proxy told, or "unix"."""
    return access_of(scope).peer


LARGE_BODY = 256 * 1024
"""Bytes of a body beyond which reading it takes milliseconds, in which the loop could do other things."""


_NEW = ThreadPoolExecutor(1, thread_name_prefix="large-body")
_WITH_SLOT = ThreadPoolExecutor(1, thread_name_prefix="large-body-with-slot")
"""One after the other: each takes its share of the interpreter from the loop, and several times its size of memory. Who
has a slot does not wait for newcomers."""


async def read_aside(read: Callable[[bytes], T], body: bytes, *, with_slot: bool = False) -> T:
    """`read(body)`, of a large body in another thread, where others of its kind are waited for. `with_slot`: a server
    waits for it."""
    if len(body) <= LARGE_BODY:
        return read(body)
    return await asyncio.get_running_loop().run_in_executor(_WITH_SLOT if with_slot else _NEW, read, body)


def check_coding(headers: Headers) -> None:
    """Raises CodedBody for a body that must be read here and is compressed (RFC 9110 8.4 and 15.5.16).

    No client of these surfaces compresses unless it is told to, and a few kilobytes could become gigabytes.
    """
    if headers.get(b"content-encoding", b"").strip().lower() not in (b"", b"identity"):
        raise CodedBody("llmgate: the request body is compressed: send it without Content-Encoding (CODED_BODY)")


async def read_body(headers: Headers, receive: Receive, limit: int, seconds: float | None) -> bytes:
    """The whole request body, of at most `limit` bytes, that arrives within `seconds` (None: as long as it takes).

    Raises BodyTooLarge, BodyTimeout, ClientLeft. The body must be read before a request queues: while some of it is
    unread, uvicorn stops reading the socket and never learns that the client left.
    """
    declared = headers.get(b"content-length", b"")
    if declared.isdigit() and int(declared) > limit:
        raise BodyTooLarge("llmgate: the request body is too large (BODY_TOO_LARGE)")
    try:
        async with asyncio.timeout(None) as time_limit:
            with running(time_limit, seconds):
                return await _read_pieces(receive, limit)
    except TimeoutError:
        raise BodyTimeout("llmgate: the request body did not arrive in time (BODY_TIMEOUT)") from None


async def _read_pieces(receive: Receive, limit: int) -> bytes:
    message: Any = await receive()
    if message["type"] == "http.request" and not message["more_body"]:
        _check_length(message["body"], limit)
        return bytes(message["body"])
    body = bytearray()
    while message["type"] == "http.request":
        body += message["body"]
        _check_length(body, limit)
        if not message["more_body"]:
            return bytes(body)
        message = await receive()
    raise ClientLeft


def _check_length(body: bytes | bytearray, limit: int) -> None:
    if len(body) > limit:
        raise BodyTooLarge("llmgate: the request body is too large (BODY_TOO_LARGE)")
