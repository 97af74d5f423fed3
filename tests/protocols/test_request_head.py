"""Heads: what is let through, what is refused and with which status, however the bytes are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.errors import BadRequest
from llmgate.protocols.request_head import CHUNKED, FIELD_LIMIT, FIELDS_LIMIT, TARGET_LIMIT, HeadReader

GET = b"GET / HTTP/1.1\r\n"
POST = b"POST /v1/messages?beta=true HTTP/1.1\r\n"
HOST = b"Host: localhost:8080\r\n"


def fields(count: int) -> bytes:
    return b"".join(b"x-%d: y\r\n" % number for number in range(count))


Outcome = tuple[bytes, int, bytes] | int | None
"""Raw head, length and what came behind; or the status of the refusal; or None while more is wanted."""


def read(*pieces: bytes) -> Outcome:
    reader = HeadReader()
    try:
        for number, piece in enumerate(pieces):
            head, rest = reader.feed(piece)
            if head is not None:
                return head.raw, head.length, rest + b"".join(pieces[number + 1 :])
            assert rest == b""
    except BadRequest as error:
        return error.status
    return None


def read_everyhow(data: bytes) -> Outcome:
    """Byte by byte and in one go it comes to the same."""
    whole = read(data)
    assert read(*(data[at : at + 1] for at in range(len(data)))) == whole
    return whole


GOOD = {
    "plain": (GET + HOST + b"\r\n", 0),
    "no host in 1.0": (b"GET / HTTP/1.0\r\n\r\n", 0),
    "a host in 1.0": (b"GET / HTTP/1.0\r\n" + HOST + b"\r\n", 0),
    "an empty host": (GET + b"host:\r\n\r\n", 0),
    "an empty port": (GET + b"host: a:\r\n\r\n", 0),
    "an address and an empty port": (GET + b"host: [::1]:\r\n\r\n", 0),
    "an address": (GET + b"Host: [::1]:80\r\n\r\n", 0),
    "a length": (POST + HOST + b"Content-Length: 12\r\n\r\n", 12),
    "a length with zeros": (POST + HOST + b"content-length:\t0012 \r\n\r\n", 12),
    "chunks": (POST + HOST + b"Transfer-Encoding: Chunked\r\n\r\n", CHUNKED),
    "options for all": (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", 0),
    "another method": (b"M-SEARCH / HTTP/1.1\r\n" + HOST + b"\r\n", 0),
    "a body with GET": (GET + HOST + b"content-length: 3\r\n\r\n", 3),
    "an empty value": (GET + HOST + b"a:\r\n\r\n", 0),
    "bytes of other alphabets": (GET + HOST + b"a: \xc3\xa4\xff\r\n\r\n", 0),
    "as many headers as may be": (GET + HOST + fields(FIELDS_LIMIT - 1) + b"\r\n", 0),
    "as long a line as may be": (b"GET /" + b"a" * (TARGET_LIMIT - 14) + b" HTTP/1.1\r\n" + HOST + b"\r\n", 0),
    "as long a header as may be": (GET + HOST + b"a:" + b"b" * (FIELD_LIMIT - 2) + b"\r\n\r\n", 0),
}


@pytest.mark.parametrize(("head", "length"), GOOD.values(), ids=GOOD)
def test_a_good_head_goes_through_as_it_is(head: bytes, length: int) -> None:
    assert read_everyhow(head + b"rest") == (head, length, b"rest")
    assert read_everyhow(b"\r\n" + head) == (head, length, b"")


REFUSED = {
    "no host": (GET + b"a: b\r\n\r\n", 400),
    "two hosts": (GET + HOST + HOST + b"\r\n", 400),
    "two hosts in 1.0": (b"GET / HTTP/1.0\r\n" + HOST + b"host: b\r\n\r\n", 400),
    "a list of hosts": (GET + b"Host: a, b\r\n\r\n", 400),
    "a host with a user": (GET + b"Host: a@b\r\n\r\n", 400),
    "a host with a path": (GET + b"Host: a/b\r\n\r\n", 400),
    "two colons": (GET + b"Host: a::\r\n\r\n", 400),
    "a port that is no number": (GET + b"Host: a:b\r\n\r\n", 400),
    "both framings": (POST + HOST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    "both framings, the other way round": (
        POST + HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
        400,
    ),
    "two lengths": (POST + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
    "two equal lengths": (POST + HOST + b"Content-Length: 1\r\ncontent-length: 1\r\n\r\n", 400),
    "a list of lengths": (POST + HOST + b"Content-Length: 1, 1\r\n\r\n", 400),
    "a length with a sign": (POST + HOST + b"Content-Length: +1\r\n\r\n", 400),
    "a negative length": (POST + HOST + b"Content-Length: -1\r\n\r\n", 400),
    "a length in hex": (POST + HOST + b"Content-Length: 0x1\r\n\r\n", 400),
    "a length with a space": (POST + HOST + b"Content-Length: 1 1\r\n\r\n", 400),
    "a length with an underscore": (POST + HOST + b"Content-Length: 1_1\r\n\r\n", 400),
    "no length": (POST + HOST + b"Content-Length:\r\n\r\n", 400),
    "a length beyond all": (POST + HOST + b"Content-Length: " + b"9" * 19 + b"\r\n\r\n", 400),
    "another coding": (POST + HOST + b"Transfer-Encoding: gzip\r\n\r\n", 400),
    "identity": (POST + HOST + b"Transfer-Encoding: identity\r\n\r\n", 400),
    "a second coding": (POST + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n", 400),
    "chunked twice": (POST + HOST + b"Transfer-Encoding: chunked, chunked\r\n\r\n", 400),
    "two codings": (POST + HOST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    "a quoted coding": (POST + HOST + b'Transfer-Encoding: "chunked"\r\n\r\n', 400),
    "a coding with a parameter": (POST + HOST + b"Transfer-Encoding: chunked;a=b\r\n\r\n", 400),
    "an empty coding": (POST + HOST + b"Transfer-Encoding:\r\n\r\n", 400),
    "a coding behind a tab": (POST + HOST + b"Transfer-Encoding: \x0bchunked\r\n\r\n", 400),
    "chunks in 1.0": (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    "a folded line": (POST + HOST + b"a: b\r\n c\r\n\r\n", 400),
    "a line folded with a tab": (POST + HOST + b"Transfer-Encoding:\r\n\tchunked\r\n\r\n", 400),
    "a folded first line": (GET + b" a: b\r\n" + HOST + b"\r\n", 400),
    "a bare CR in a value": (GET + HOST + b"a: b\rc: d\r\n\r\n", 400),
    "a bare LF in a value": (GET + HOST + b"a: b\nc: d\r\n\r\n", 400),
    "bare LFs": (b"GET / HTTP/1.1\nHost: a\n\n", 400),
    "CR CR LF": (GET + HOST + b"a: b\r\r\n\r\n", 400),
    "NUL in a value": (GET + HOST + b"a: b\0c\r\n\r\n", 400),
    "NUL in a name": (GET + HOST + b"a\0: b\r\n\r\n", 400),
    "DEL in a value": (GET + HOST + b"a: b\x7f\r\n\r\n", 400),
    "a space before the colon": (POST + HOST + b"Content-Length : 1\r\n\r\n", 400),
    "a tab before the colon": (POST + HOST + b"Transfer-Encoding\t: chunked\r\n\r\n", 400),
    "a header without a name": (GET + HOST + b": b\r\n\r\n", 400),
    "a header without a colon": (GET + HOST + b"abc\r\n\r\n", 400),
    "a name of other letters": (GET + HOST + b"Content\xadLength: 5\r\n\r\n", 400),
    "absolute-form": (b"GET http://localhost/ HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "authority-form": (b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "CONNECT with a path": (b"CONNECT / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "an asterisk with GET": (b"GET * HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "a relative path": (b"GET a HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "a fragment": (b"GET /a#b HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "a space in the path": (b"GET /a b HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "two spaces": (b"GET  / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "a tab for a space": (b"GET\t/ HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "a path of other letters": (b"GET /\xc3\xa4 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "a small method": (b"get / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "HTTP/0.9": (b"GET /\r\n", 400),
    "HTTP/2's preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "HTTP/2 without it": (b"GET / HTTP/2.0\r\n" + HOST + b"\r\n", 505),
    "HTTP/1.2": (b"GET / HTTP/1.2\r\n" + HOST + b"\r\n", 505),
    "a version with two digits": (b"GET / HTTP/1.10\r\n" + HOST + b"\r\n", 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01", 400),
    "two blank lines": (b"\r\n\r\n" + GET + HOST + b"\r\n", 400),
    "a bare CR first": (b"\rGET / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "a line that is too long": (b"GET /" + b"a" * TARGET_LIMIT, 414),
    "a line that is a little too long": (
        b"GET /" + b"a" * (TARGET_LIMIT - 13) + b" HTTP/1.1\r\n" + HOST + b"\r\n",
        414,
    ),
    "a header that is too long": (GET + HOST + b"a: " + b"b" * FIELD_LIMIT, 431),
    "a header that is a little too long": (GET + HOST + b"a:" + b"b" * (FIELD_LIMIT - 1) + b"\r\n\r\n", 431),
    "too many headers": (GET + HOST + fields(FIELDS_LIMIT) + b"\r\n", 431),
    "too much": (GET + HOST + (b"a: " + b"b" * 16_000 + b"\r\n") * 5 + b"\r\n", 431),
    "a bare LF before the limit": (b"GET /" + b"a" * 9 + b"\n" + b"a" * TARGET_LIMIT, 400),
    "a bare LF behind the limit": (b"GET /" + b"a" * TARGET_LIMIT + b"\n", 414),
}


@pytest.mark.parametrize(("head", "status"), REFUSED.values(), ids=REFUSED)
def test_what_can_be_misunderstood_is_refused(head: bytes, status: int) -> None:
    assert read_everyhow(head) == status


@pytest.mark.parametrize("at", range(len(b"\r\n" + GET + HOST + b"\r\n")))
def test_half_a_head_waits_for_the_rest(at: int) -> None:
    data = b"\r\n" + GET + HOST + b"\r\n"
    reader = HeadReader()
    assert not reader.has_begun
    assert reader.feed(data[:at]) == (None, b"")
    assert reader.has_begun == (at > 0)
    head, _ = reader.feed(data[at:])
    assert head is not None
    assert head.raw == GET + HOST + b"\r\n"
    assert not reader.has_begun


def test_one_reader_reads_one_head_after_the_other() -> None:
    reader = HeadReader()
    one, two = GET + HOST + b"a: b\r\n\r\n", POST + HOST + b"content-length: 1\r\n\r\n"
    for head in (one, two, one):
        for piece in (head[:20], head[20:30]):
            assert reader.feed(piece) == (None, b"")
        found, rest = reader.feed(head[30:])
        assert found is not None
        assert (found.raw, rest) == (head, b"")


@pytest.mark.parametrize("name", [b"Upgrade", b"upgrade", b"UPGRADE"])
def test_an_offer_to_upgrade_has_another_name_for_the_parser(name: bytes) -> None:
    head = GET + HOST + name + b": h2c\r\nConnection: Upgrade\r\n\r\n"
    assert read_everyhow(head) == (GET + HOST + b"x-offer: h2c\r\nConnection: Upgrade\r\n\r\n", 0, b"")


def test_little_is_kept_of_a_head_without_an_end() -> None:
    reader = HeadReader()
    reader.feed(b"GET /" + b"a" * (TARGET_LIMIT - 5))
    with pytest.raises(BadRequest):
        reader.feed(b"a" * 1000)
    assert len(reader._kept) == TARGET_LIMIT


LINES = st.sampled_from(
    [
        GET,
        POST,
        HOST,
        b"\r\n",
        b"a: b\r\n",
        b"Content-Length: 3\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"\n",
        b"\r",
        b" ",
    ]
)
MUTATED = st.builds(
    lambda data, at, byte: data[: at % (len(data) + 1)] + byte + data[at % (len(data) + 1) + 1 :],
    st.sampled_from([head for head, _ in (*GOOD.values(), *REFUSED.values()) if len(head) < 500]),
    st.integers(0, 500),
    st.binary(max_size=2),
)


@given(st.lists(LINES, max_size=8).map(b"".join) | MUTATED | st.binary(max_size=40), st.data())
def test_no_cut_changes_what_a_head_says(data: bytes, draw: st.DataObject) -> None:
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=5)))
    pieces = [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    assert read(*pieces) == read_everyhow(data)
