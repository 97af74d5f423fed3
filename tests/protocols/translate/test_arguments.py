"""Arguments: what is sent when, and that pieces do not matter."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.errors import UpstreamFailed
from llmgate.protocols.translate.arguments import Arguments

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def pieces_of(text: str, places: list[int]) -> list[str]:
    ends = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    return [text[start:end] for start, end in pairwise(ends)]


@given(st.dictionaries(st.text(max_size=5), _VALUES, max_size=4), st.lists(st.integers(0, 500)), st.booleans())
def test_an_object_goes_out_as_it_came(found: dict[str, Any], places: list[int], ascii_only: bool) -> None:
    text = json.dumps(found, ensure_ascii=ascii_only)
    arguments, out = Arguments(), ""
    for piece in pieces_of(text, places):
        assert not arguments.complete
        arguments.add(piece)
        out += arguments.take()
    assert arguments.complete
    assert out + arguments.rest(cut_short=False) == text


@given(st.text(alphabet='{}[]"\\a ', max_size=12), st.lists(st.integers(0, 20)), st.booleans())
def test_the_result_does_not_depend_on_the_pieces(text: str, places: list[int], cut_short: bool) -> None:
    def result(pieces: list[str]) -> str | None:
        arguments, out = Arguments(), ""
        try:
            for piece in pieces:
                arguments.add(piece)
                out += arguments.take()
            out += arguments.rest(cut_short=cut_short)
        except UpstreamFailed:
            return None
        assert not out or cut_short or isinstance(json.loads(out), dict)
        return out

    assert result(pieces_of(text, places)) == result([text])


def test_what_may_be_sent_is_sent_at_once() -> None:
    arguments = Arguments()
    sent = []
    for piece in ("  ", "{", '"a"', ":1", "}", " "):
        arguments.add(piece)
        sent.append(arguments.take())
    assert sent == ["", "", '{"a"', ":1", "}", ""]


def test_an_empty_object_waits_for_another() -> None:
    arguments = Arguments()
    arguments.add("{}")
    assert (arguments.take(), arguments.complete) == ("", True)
    arguments.add(' {"a"')
    assert (arguments.take(), arguments.complete) == ('{"a"', False)


def test_an_empty_object_that_was_sent_stays() -> None:
    arguments = Arguments()
    arguments.add("{}")
    assert arguments.rest(cut_short=False) == "{}"
    arguments.add(" \n")
    with pytest.raises(UpstreamFailed):
        arguments.add('{"a":1}')


def test_nothing_is_kept_after_the_end() -> None:
    arguments = Arguments()
    arguments.add('{"a":1}')
    assert arguments.size == 7
    arguments.rest(cut_short=False)
    assert (arguments.size, arguments.begun, arguments.complete) == (0, True, True)


@pytest.mark.parametrize("text", ["", " ", "null", "null\n"])
def test_nothing_is_nothing(text: str) -> None:
    arguments = Arguments()
    arguments.add(text)
    assert (arguments.take(), arguments.rest(cut_short=False), arguments.complete) == ("", "", False)


@pytest.mark.parametrize("text", ["nul", "5", "[]", '"x', '"x"', '"[1]"', "\\", "}", '"\\ud83d"'])
@pytest.mark.parametrize("cut_short", [True, False])
def test_what_is_no_object_is_refused(text: str, cut_short: bool) -> None:
    arguments = Arguments()
    arguments.add(text)
    with pytest.raises(UpstreamFailed):
        arguments.rest(cut_short=cut_short)


def test_half_an_object() -> None:
    for cut_short in (True, False):
        arguments = Arguments()
        arguments.add('{"a":"\\')
        assert arguments.take() == '{"a":"\\'
        if cut_short:
            assert arguments.rest(cut_short=True) == ""
        else:
            with pytest.raises(UpstreamFailed):
                arguments.rest(cut_short=False)
