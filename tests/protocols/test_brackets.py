"""Brackets: the end of an object is found wherever it is cut, and nothing else is taken for it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.protocols.brackets import Brackets

_VALUES = st.recursive(
    st.integers() | st.text(alphabet='{}[]"\\aé', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=3), _VALUES, max_size=3), st.booleans(), st.integers(1, 5))
def test_the_end_of_an_object(found: dict[str, object], ascii_only: bool, size: int) -> None:
    text = json.dumps(found, ensure_ascii=ascii_only).encode()
    brackets = Brackets()
    for start in range(0, len(text) - size, size):
        assert brackets.find_end(text[start : start + size]) == 0
        assert brackets.find_end(b"") == 0
    last = max(0, (len(text) - 1) // size * size)
    assert Brackets().find_end(text + b'{"more":1}') == len(text)
    assert brackets.find_end(text[last:] + b"}{") == len(text) - last


@pytest.mark.parametrize("text", [b"", b"5", b'"{}"', b'{"a":"\\"}', b"{[}", b'{"\\', b"null"])
def test_no_end(text: bytes) -> None:
    assert Brackets().find_end(text) == 0
    brackets = Brackets()
    assert [brackets.find_end(bytes([byte])) for byte in text] == [0] * len(text)
