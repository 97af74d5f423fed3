"""One request after the other, cut out of a connection's bytes; what comes too early is told apart."""

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.errors import BadRequest
from llmgate.protocols.request_reader import RequestReader

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKS = b"4\r\nbody\r\n0\r\n\r\n"
REQUESTS = [GET, POST + b"body", CHUNKED + CHUNKS]


@pytest.mark.parametrize("request_bytes", REQUESTS)
def test_a_request_is_given_to_the_parser_and_the_next_is_not(request_bytes: bytes) -> None:
    reader = RequestReader()
    for _ in range(2):
        assert reader.feed(request_bytes + GET) == (request_bytes, GET)
        assert reader.is_complete
        reader.next()
        assert not reader.is_complete


@pytest.mark.parametrize("request_bytes", REQUESTS)
def test_byte_by_byte(request_bytes: bytes) -> None:
    reader = RequestReader()
    out = b""
    for at in range(len(request_bytes)):
        assert not reader.is_complete
        piece, rest = reader.feed(request_bytes[at : at + 1])
        out += piece
        assert rest == b""
    assert out == request_bytes
    assert reader.is_complete
    assert reader.feed(b"x") == (b"", b"x")


def test_half_a_head_is_known_as_such() -> None:
    reader = RequestReader()
    assert not reader.has_half_a_head
    reader.feed(POST[:20])
    assert reader.has_half_a_head
    reader.feed(POST[20:])
    assert not reader.has_half_a_head
    assert not reader.is_complete


def test_the_body_is_passed_on_as_it_comes() -> None:
    reader = RequestReader()
    assert reader.feed(POST + b"bo") == (POST + b"bo", b"")
    assert reader.feed(b"dyrest") == (b"dy", b"rest")


class Parsed:
    """What the parser behind it makes of the same bytes."""

    def __init__(self) -> None:
        self.begun = self.ended = 0
        self.names: list[bytes] = []

    def on_message_begin(self) -> None:
        self.begun += 1

    def on_message_complete(self) -> None:
        self.ended += 1

    def on_header(self, name: bytes, value: bytes) -> None:
        self.names.append(name.lower())


LINES = st.sampled_from(
    [
        *(b"GET / HTTP/1.1\r\n", b"POST /v1/messages HTTP/1.1\r\n", b"POST / HTTP/1.0\r\n", b"Host: a\r\n", b"\r\n"),
        *(b"Content-Length: 4\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"body", b"0\r\n"),
        *(b"4\r\nbody\r\n", b"Connection: Upgrade\r\nUpgrade: h2c\r\n", b"x: y\r\n", b"\n", b" "),
    ]
)


@given(st.lists(LINES, max_size=10).map(b"".join))
def test_the_parser_sees_one_request_where_we_see_one(data: bytes) -> None:
    """Two readers of one kind of bytes that agree: neither a second request, nor an end that only one of them sees."""
    reader, seen = RequestReader(), Parsed()
    parser = httptools.HttpRequestParser(seen)
    try:
        wanted, _ = reader.feed(data)
    except BadRequest:
        return
    if wanted:
        parser.feed_data(wanted)
        assert seen.begun == 1
        assert seen.ended == reader.is_complete
        assert seen.names.count(b"host") <= 1
