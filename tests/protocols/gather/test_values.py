"""Kept values: text, the newest, lists; always JSON that can be read."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.errors import UpstreamFailed
from llmgate.protocols.budget import Budget
from llmgate.protocols.gather.values import Fields, Items, Newest, Text, encoded


def plain(value: Any) -> Any:
    return json.loads(msgspec.json.encode(value))


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ({"a": [1, None, True, 0.5]}, b'{"a":[1,null,true,0.5]}'),
        ({"a\ud83d": ["\ud83d\ude00", "\ude00", 1, {"b": "\ud83d"}]}, '{"a�":["😀","�",1,{"b":"�"}]}'.encode()),
        ([float("nan"), "\ud83d"], b'[null,"\xef\xbf\xbd"]'),
        (10**30, b"1" + b"0" * 30),
    ],
)
def test_encoded(value: Any, data: bytes) -> None:
    assert encoded(value) == data


def test_encoded_too_deeply() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(UpstreamFailed, match="too deeply"):
        encoded(deep)


@given(st.text(), st.lists(st.integers(0, 20)))
def test_a_text_is_joined_whatever_its_pieces(text: str, places: list[int]) -> None:
    units = text.encode("utf-16-le", "surrogatepass")
    whole, place = Text(Budget(1000)), 0
    for end in [*sorted(2 * place for place in places), len(units)]:
        whole.add(units[place:end].decode("utf-16-le", "surrogatepass"))
        place = max(place, end)
    assert whole.value() == text
    assert bool(whole) is bool(text)


def test_half_a_pair_alone() -> None:
    text = Text(Budget(100))
    text.add("a\ud83d")
    text.add("b")
    assert text.value() == "a�b"


def test_the_newest_counts() -> None:
    newest = Newest(Budget(100))
    for value in (None, "", "a", {"b": 1}, None, ""):
        newest.add(value)
    assert plain(newest.value()) == {"b": 1}


def test_null_before_anything_else() -> None:
    newest = Newest(Budget(100))
    newest.add(None)
    newest.add("")
    assert plain(newest.value()) is None


def test_only_the_newest_is_kept() -> None:
    newest = Newest(Budget(100))
    for _ in range(10):
        newest.add("x" * 40)
    with pytest.raises(UpstreamFailed):
        newest.add("x" * 101)


def test_fields() -> None:
    fields = Fields(Budget(10_000))
    for key, value in (("b", 1), ("a", None), ("b", 2), ("c\ud83d", 3)):
        fields.add(key, value)
    assert plain(fields.value()) == {"b": 2, "a": None, "c�": 3}
    assert list(fields.value()) == ["b", "a", "c�"]
    assert "a" in fields
    assert "d" not in fields


def test_names_of_fields_count() -> None:
    fields = Fields(Budget(1000))
    for number in range(7):
        fields.add(str(number), 1)
    with pytest.raises(UpstreamFailed):
        fields.add("8", 1)


def test_items() -> None:
    items = Items(Budget(10_000))
    items.say("")
    items.add([1, {"a": "\ud83d"}])
    items.say("b")
    items.say("c")
    items.say("")
    items.add(["d"])
    items.say("e")
    found = [1, {"a": "�"}, {"type": "text", "text": "bc"}, "d", {"type": "text", "text": "e"}]
    assert plain(items.value()) == found


def test_each_item_counts() -> None:
    items = Items(Budget(1000))
    with pytest.raises(UpstreamFailed):
        items.add([1] * 8)


def test_each_text_counts() -> None:
    items = Items(Budget(1000))
    items.say("x" * 800)
    with pytest.raises(UpstreamFailed):
        items.say("x" * 100)
