"""LineCutter: any cut, the bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.errors import UpstreamFailed
from llmgate.protocols.budget import Budget
from llmgate.protocols.events import Event
from llmgate.protocols.gather.lines import LineCutter
from tests.protocols.streams import cut, cuts


def lines(*pieces: bytes, limit: int = 10_000) -> list[Event]:
    cutter = LineCutter(Budget(limit))
    return [line for piece in pieces for line in cutter.feed(piece)] + list(cutter.end())


def test_lines() -> None:
    assert lines(b"a\n\nb\r\nc") == [(b"", b"a"), (b"", b""), (b"", b"b\r"), (b"", b"c")]
    assert lines() == [(b"", b"")]


@given(st.lists(st.sampled_from([b"a", b"\n", b"\r", b"bcd"])).map(b"".join), cuts)
def test_the_cut_does_not_matter(stream: bytes, places: list[int]) -> None:
    assert lines(*cut(stream, places)) == lines(stream)


@pytest.mark.parametrize("pieces", [[b"x" * 11], [b"x" * 11 + b"\n"], [b"x" * 6, b"x" * 5]])
def test_the_limit(pieces: list[bytes]) -> None:
    cutter, found = LineCutter(Budget(10)), []
    found += cutter.feed(b"x" * 10 + b"\n")
    with pytest.raises(UpstreamFailed, match="more at once"):
        found += [line for piece in pieces for line in cutter.feed(piece)]
    assert found == [(b"", b"x" * 10)]
