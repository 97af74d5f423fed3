"""Call: which piece belongs to it, and what becomes of its name and id."""

import pytest

from llmgate.errors import UpstreamFailed
from llmgate.protocols.call_piece import CallPiece
from llmgate.protocols.translate.call import Call


def piece(name: str = "", arguments: str = "", id: str = "", index: int | None = 0) -> CallPiece:  # noqa: A002
    return CallPiece(index, id, name, arguments)


def call(*pieces: CallPiece) -> Call:
    made = Call()
    for one in pieces:
        made.add(one)
    return made


@pytest.mark.parametrize(
    ("first", "then", "goes_on"),
    [
        (piece("f", id="x"), piece("", "{"), True),
        (piece("f", id="x"), piece("f", "{", id="x"), True),
        (piece("f", "{}", id="x"), piece("f", "{}", id="x"), True),
        (piece("f", id="x"), piece("g", id="y"), False),
        (piece("f", id="x"), piece("", id="y"), False),
        (piece("f", id="x"), piece("", "{", id="y"), True),
        (piece("", id="x"), piece("", "{", id="y"), False),
        (piece("f", id="x"), piece("g", "{", id="y"), False),
        (piece("f", "{}", id="x"), piece("", "{}", id="y"), False),
        (piece("f", "{", id="x"), piece("", "}", id="y"), True),
        (piece("f", "{", id="x"), piece("g", "}", id="y"), False),
        (piece("f"), piece("", id="y"), True),
        (piece("", "{"), piece("f", id="y"), True),
        (piece("f"), piece("f", id="y"), True),
        (piece("f", "{}"), piece("f", id="y"), False),
        (piece("f"), piece("g", id="y"), False),
        (piece("get_"), piece("it"), True),
        (piece("get_", index=None), piece("it", index=None), False),
        (piece("f", index=None), piece("f", "{", index=None), True),
        (piece("f", "{"), piece("f", "}"), True),
        (piece("f", "{"), piece("g", "{"), False),
        (piece("f", "{}"), piece("f", " "), True),
        (piece("f", "{}"), piece("f", "{}"), False),
        (piece("f", "{}", id="x"), piece("f", "{}"), False),
    ],
)
def test_which_piece_belongs_to_it(first: CallPiece, then: CallPiece, goes_on: bool) -> None:
    assert call(first).goes_on_with(then) is goes_on


@pytest.mark.parametrize(
    ("pieces", "name"),
    [
        ([piece("f")], "f"),
        ([piece("get_"), piece("it")], "get_it"),
        ([piece("get"), piece("get_it")], "get_it"),
        ([piece("f"), piece("f")], "f"),
        ([piece("f"), piece("")], "f"),
        ([piece("f", "{"), piece("f")], "f"),
        ([piece("", "{"), piece("f")], "f"),
    ],
)
def test_its_name(pieces: list[CallPiece], name: str) -> None:
    assert call(*pieces).name == name


def test_its_first_id_stays() -> None:
    assert call(piece("f", "{"), piece(id="x"), piece(id="y")).id == "x"


def test_a_name_without_end() -> None:
    with pytest.raises(UpstreamFailed, match="too long"):
        call(piece("x" * 5000))
    assert call(piece("x" * 4096)).size == 4096


@pytest.mark.parametrize(
    ("pieces", "cut_short", "last", "rest"),
    [
        ([piece("f", '{"a":1}')], False, True, '{"a":1}'),
        ([piece("f")], False, True, ""),
        ([piece("f")], True, True, None),
        ([piece("f")], True, False, ""),
        ([piece("", id="x")], False, True, None),
        ([piece("f", '{"a":')], True, True, '{"a":'),
        ([piece("f", '{"a":"\ud83d')], True, True, '{"a":"\ufffd'),
    ],
)
def test_its_end(pieces: list[CallPiece], cut_short: bool, last: bool, rest: str | None) -> None:
    assert call(*pieces).end(cut_short=cut_short, last=last) == rest


def test_a_call_without_a_name_is_broken() -> None:
    with pytest.raises(UpstreamFailed, match="name is missing"):
        call(piece("", "{}")).end(cut_short=False, last=True)
