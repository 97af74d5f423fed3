"""EventCutter: the grammar, any cut, the bound."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.errors import UpstreamFailed
from llmgate.protocols.budget import Budget
from llmgate.protocols.events import Event, EventCutter
from tests.protocols.streams import cut


def events(*pieces: bytes, limit: int = 10_000) -> list[Event]:
    cutter = EventCutter(Budget(limit))
    return [event for piece in pieces for event in cutter.feed(piece)] + list(cutter.end())


@pytest.mark.parametrize(
    ("stream", "found"),
    [
        (b"data: a\n\n", [(b"", b"a")]),
        (b"data:a\n\n", [(b"", b"a")]),
        (b"data:  a\n\n", [(b"", b" a")]),
        (b"data: a\ndata: b\n\n", [(b"", b"a\nb")]),
        (b"event: x\ndata: a\n\ndata: b\n\n", [(b"x", b"a"), (b"", b"b")]),
        (b"event: x\n\n", [(b"x", b"")]),
        (b"event: x\nevent: y\n\n", [(b"y", b"")]),
        (b"data\n\n", []),
        (b"data: a\r\rdata: b\r\n\r\ndata: c\n\r\n", [(b"", b"a"), (b"", b"b"), (b"", b"c")]),
        (b": x\n\n:\n\ndata: a\n: y\n\n", [(b"", b"a")]),
        (b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", [(b"", b"a")]),
        (b"id: 1\nretry: 2\nunknown\n data: x\ndata: a\n\n", [(b"", b"a")]),
        (b"data: a", [(b"", b"a")]),
        (b"data: a\n", [(b"", b"a")]),
        (b"data: a\ndata: b", [(b"", b"a\nb")]),
        (b"", []),
        (b"data: a\x0bb\x85\xe2\x80\xa8c\n\n", [(b"", b"a\x0bb\x85\xe2\x80\xa8c")]),
    ],
)
def test_the_grammar(stream: bytes, found: list[Event]) -> None:
    assert events(stream) == found
    assert events(*(stream[place : place + 1] for place in range(len(stream)))) == found


_LINES = st.sampled_from(
    [b"data: a", b"data:b", b"data", b"event: x", b": c", b":", b"", b"", b"\xef\xbb\xbf", b"id: 1"]
)
_ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])


@given(st.lists(st.tuples(_LINES, _ENDS), max_size=12), st.lists(st.integers(0, 200)), st.sampled_from([80, 10_000]))
def test_the_cut_does_not_matter(lines: list[tuple[bytes, bytes]], places: list[int], limit: int) -> None:
    stream = b"".join(line + end for line, end in lines)

    def outcome(pieces: Iterable[bytes]) -> tuple[list[Event], bool]:
        cutter, found = EventCutter(Budget(limit)), []
        try:
            for piece in pieces:
                found.extend(cutter.feed(piece))
        except UpstreamFailed:
            return found, True
        return found + list(cutter.end()), False

    assert outcome(cut(stream, places)) == outcome([stream])


def test_an_empty_piece_changes_nothing() -> None:
    assert events(b"data: a\r", b"", b"\ndata: b\r\n", b"\r\n") == [(b"", b"a\nb")]


@pytest.mark.parametrize("line", [b"data: ", b": ", b"event: ", b"", b"other: "])
def test_a_line_is_bounded(line: bytes) -> None:
    for end in (b"", b"\n"):
        with pytest.raises(UpstreamFailed):
            events(line + b"x" * 101 + end, limit=100)


def test_the_bound_is_one_of_what_is_kept() -> None:
    assert len(events(b"data: abc\n\n" * 100, limit=100)) == 100
    assert events(b": xxxxxxxxxx\n" * 100 + b"data: a\n\n", limit=100) == [(b"", b"a")]
    assert events(b"event: xxxxxxxxxx\n" * 100 + b"\n", limit=100) == [(b"xxxxxxxxxx", b"")]
    with pytest.raises(UpstreamFailed):
        events(b"data: a\n" * 2, limit=100)
