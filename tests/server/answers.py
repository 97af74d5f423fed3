"""What an upstream says in the tests of the exchange over real sockets, and what of it a client may see."""

import pytest
from gateprocess import CHAT, MESSAGES
from hands import ANSWER, CHAT_ANSWER

SURFACES = [
    pytest.param(MESSAGES, ANSWER, id="messages"),
    pytest.param(CHAT, CHAT_ANSWER, id="chat"),
]
PATHS = pytest.mark.parametrize("path", [MESSAGES, CHAT], ids=["messages", "chat"])
STRANGE_HEADERS = (
    b"request-id: up-1\r\nx-ratelimit-limit: 5\r\nretry-after: 7\r\nserver: llama.cpp\r\nset-cookie: a=b\r\n"
    b"access-control-allow-origin: *\r\nconnection: keep-alive, x-hop\r\nx-hop: 1\r\nkeep-alive: timeout=5\r\n"
)
PASSED_HEADERS = {"request-id": "up-1", "x-ratelimit-limit": "5", "retry-after": "7"}
STRIPPED_HEADERS = {"server", "set-cookie", "access-control-allow-origin", "x-hop", "keep-alive", "connection"}
OVERLOADED = b'{"type":"error","error":{"type":"overloaded_error","message":"come again"}}'


def sse_head(headers: bytes = b"") -> bytes:
    return (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=x\r\ntransfer-encoding: chunked\r\n"
        + headers
        + b"\r\n"
    )
