"""The edges of ASGI that every path needs: reading a bounded body in time, and the headers as a table."""

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.types import Receive, Scope

from llmgate.errors import BodyTimeout, BodyTooLarge

Header = tuple[bytes, bytes]
Headers = Mapping[bytes, bytes]

JSON = (b"content-type", b"application/json")


class ClientLeft(Exception):
    """The client went before its body was here: there is nobody to answer."""


def headers_of(scope: Scope) -> Headers:
    """Names in lower case; of a name that comes twice the last counts."""
    return dict(scope["headers"])


def peer_of(scope: Scope) -> str:
    """Address of the client's socket, "host:port"; "unix" where it has none."""
    client = scope.get("client")
    return f"{client[0]}:{client[1]}" if client else "unix"


async def read_body(headers: Headers, receive: Receive, limit: int, seconds: float | None) -> bytes:
    """The whole request body, of at most `limit` bytes, that arrives within `seconds` (None: as long as it takes).

    Raises BodyTooLarge, BodyTimeout, ClientLeft. The body must be read before a request queues: while some of it is
    unread, uvicorn stops reading the socket and never learns that the client left.
    """
    declared = headers.get(b"content-length", b"")
    if declared.isdigit() and int(declared) > limit:
        raise BodyTooLarge("llmgate: the request body is too large (BODY_TOO_LARGE)")
    try:
        async with asyncio.timeout(seconds):
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
