"""Bodies in chunks: the same body without extensions and trailers, or a refusal, however the bytes are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.errors import BadRequest
from llmgate.protocols.chunks import EXTENSIONS_LIMIT, FREE_CHUNKS, LINE_LIMIT, TRAILERS_LIMIT, ChunkReader
from llmgate.protocols.request_head import FIELDS_LIMIT

Outcome = tuple[bytes, bytes] | int | None
"""The plain chunks and what came behind; or the status of the refusal; or None while more is wanted."""


def read(*pieces: bytes) -> Outcome:
    reader = ChunkReader()
    out = b""
    try:
        for number, piece in enumerate(pieces):
            plain, rest = reader.feed(piece)
            out += plain
            if reader.done:
                return out, rest + b"".join(pieces[number + 1 :])
            assert rest == b""
    except BadRequest as error:
        return error.status
    return None


def read_everyhow(data: bytes) -> Outcome:
    whole = read(data)
    assert read(*(data[at : at + 1] for at in range(len(data)))) == whole
    return whole


TWO = b"4\r\nWiki\r\n5\r\npedia\r\n"
END = b"0\r\n\r\n"

GOOD = {
    "plain": (TWO + END, TWO + END),
    "nothing": (END, END),
    "extensions": (b'4;a=b;c\r\nWiki\r\n5;\r\npedia\r\n0;x="y"\r\n\r\n', TWO + END),
    "leading zeros": (b"0004\r\nWiki\r\n005\r\npedia\r\n000\r\n\r\n", TWO + END),
    "large letters": (b"A\r\n0123456789\r\n" + END, b"a\r\n0123456789\r\n" + END),
    "line ends in the data": (b"2\r\n\r\n\r\n" + END, b"2\r\n\r\n\r\n" + END),
    "trailers": (TWO + b"0\r\nx: y\r\ncontent-length: 5\r\n\r\n", TWO + END),
    "as many trailers as may be": (TWO + b"0\r\n" + b"a: b\r\n" * FIELDS_LIMIT + b"\r\n", TWO + END),
    "as large trailers as may be": (TWO + b"0\r\na:" + b"b" * (TRAILERS_LIMIT - 4) + b"\r\n\r\n", TWO + END),
    "small chunks": (b"1\r\na\r\n" * FREE_CHUNKS + END, b"1\r\na\r\n" * FREE_CHUNKS + END),
}


@pytest.mark.parametrize(("body", "plain"), GOOD.values(), ids=GOOD)
def test_a_body_is_written_anew(body: bytes, plain: bytes) -> None:
    assert read_everyhow(body + b"GET /") == (plain, b"GET /")


REFUSED = {
    "no size": (b"\r\n", 400),
    "a size that is no number": (b"x\r\n", 400),
    "a sign": (b"+4\r\nWiki\r\n", 400),
    "a negative size": (b"-4\r\n", 400),
    "a prefix": (b"0x4\r\nWiki\r\n", 400),
    "an underscore": (b"1_0\r\n", 400),
    "a space before": (b" 4\r\nWiki\r\n", 400),
    "a space behind": (b"4 \r\nWiki\r\n", 400),
    "a space before an extension": (b"4 ;a\r\nWiki\r\n", 400),
    "a size beyond all": (b"1" * 17 + b"\r\n", 400),
    "a bare LF behind the size": (b"4\nWiki\r\n", 400),
    "a bare CR behind the size": (b"4\rWiki\r\n", 400),
    "a bare LF in an extension": (b"4;a\nb\r\nWiki\r\n", 400),
    "NUL in an extension": (b"4;a\0\r\nWiki\r\n", 400),
    "a long extension": (b"4;" + b"a" * LINE_LIMIT + b"\r\nWiki\r\n", 400),
    "many extensions": ((b"4;" + b"a" * 1000 + b"\r\nWiki\r\n") * (EXTENSIONS_LIMIT // 1000 + 1), 400),
    "more data than the size": (b"4\r\nWikipedia\r\n", 400),
    "less data than the size": (b"4\r\nWik\r\n", 400),
    "no line end": (b"4\r\nWiki5\r\n", 400),
    "a bare LF for a line end": (b"4\r\nWiki\n", 400),
    "a bare CR for a line end": (b"4\r\nWiki\rx", 400),
    "a bare LF at the end": (b"0\r\n\n", 400),
    "a folded trailer": (b"0\r\na: b\r\n c\r\n\r\n", 400),
    "a trailer without a colon": (b"0\r\nabc\r\n\r\n", 400),
    "a trailer without a name": (b"0\r\n: b\r\n\r\n", 400),
    "a space before a trailer's colon": (b"0\r\na : b\r\n\r\n", 400),
    "too many trailers": (b"0\r\n" + b"a: b\r\n" * (FIELDS_LIMIT + 1) + b"\r\n", 431),
    "a long trailer": (b"0\r\na:" + b"b" * TRAILERS_LIMIT + b"\r\n\r\n", 431),
    "trailers behind the limit": (b"0\r\na:" + b"b" * (TRAILERS_LIMIT - 4) + b"\r\nc:\r\n\r\n", 431),
    "too many small chunks": (b"1\r\na\r\n" * (FREE_CHUNKS + 1000), 400),
}


@pytest.mark.parametrize(("body", "status"), REFUSED.values(), ids=REFUSED)
def test_what_can_be_misunderstood_is_refused(body: bytes, status: int) -> None:
    assert read_everyhow(body) == status


@pytest.mark.parametrize(
    "body", [b"4", b"4;a", b"4\r", b"4\r\nWi", b"4\r\nWiki\r", b"0\r\n", b"0\r\n\r", b"0\r\na: b\r"]
)
def test_half_a_body_waits_for_the_rest(body: bytes) -> None:
    assert read_everyhow(body) is None


def test_little_is_kept_of_a_body() -> None:
    reader = ChunkReader()
    reader.feed(b"fffffff\r\n")
    for _ in range(100):
        assert reader.feed(b"x" * 10_000) == (b"x" * 10_000, b"")
    assert reader._kept == b""


PIECES = st.sampled_from(
    [b"4\r\nWiki\r\n", b"2;a\r\n\r\n\r\n", b"0\r\n", b"\r\n", b"a: b\r\n", b"\r", b"\n", b"1", b";", b"x"]
)


@given(st.lists(PIECES, max_size=8).map(b"".join) | st.binary(max_size=20), st.data())
def test_no_cut_changes_what_a_body_is(data: bytes, draw: st.DataObject) -> None:
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=5)))
    pieces = [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    assert read(*pieces) == read_everyhow(data)
