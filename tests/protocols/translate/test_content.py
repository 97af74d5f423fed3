"""Content blocks and their parts. What is refused, and the rows of the mapping: see test_request."""

import msgspec
import pytest

from llmgate.errors import BadRequest
from llmgate.protocols.translate.content import Block, Image, ImageUrl, Text, part_of, read_content, refused, shown


@pytest.mark.parametrize(
    ("raw", "blocks"),
    [
        (b'"hi"', [Block(type="text", text="hi")]),
        (b"null", []),
        (b"[]", []),
        (b'[{"type":"text","text":"a","more":1}]', [Block(type="text", text="a")]),
    ],
)
def test_content_is_read(raw: bytes, blocks: list[Block]) -> None:
    assert read_content(msgspec.Raw(raw)) == blocks


@pytest.mark.parametrize("raw", [b"5", b"{}", b"[5]", b'[{"type":5}]'])
def test_content_of_another_kind_is_refused(raw: bytes) -> None:
    with pytest.raises(BadRequest, match="is not of the type"):
        read_content(msgspec.Raw(raw))


def test_parts_as_json() -> None:
    parts = [Text("a"), Image(ImageUrl("u"))]
    assert msgspec.json.encode(parts) == (b'[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"u"}}]')


def test_a_tool_reference_is_the_tools_name() -> None:
    assert part_of(Block(type="tool_reference", tool_name="f")) == Text("f")


def test_a_refusal_says_why() -> None:
    assert str(refused("a fish")).startswith("llmgate: a fish cannot be sent to this upstream")


def test_a_foreign_word_is_bounded() -> None:
    assert shown("a\nb") == r"'a\nb'"
    assert len(shown("x" * 1000)) == 66
