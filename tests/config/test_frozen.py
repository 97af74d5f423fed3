"""A dict that cannot be changed."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from llmgate.config.frozen import FrozenDict


def test_equal_ones_have_equal_hashes_whatever_their_order() -> None:
    one, other = FrozenDict({"a": 1, "b": 2}), FrozenDict({"b": 2, "a": 1})
    assert one == other == {"a": 1, "b": 2}
    assert hash(one) == hash(other)
    assert hash(one) != hash(FrozenDict({"a": 1, "b": 3}))


CHANGES: dict[str, Callable[[Any], object]] = {
    "set": lambda table: table.__setitem__("a", 2),
    "delete": lambda table: table.__delitem__("a"),
    "or": lambda table: table.__ior__({"b": 1}),
    "clear": lambda table: table.clear(),
    "pop": lambda table: table.pop("a"),
    "popitem": lambda table: table.popitem(),
    "setdefault": lambda table: table.setdefault("b", 1),
    "update": lambda table: table.update(b=1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_nothing_changes_it(change: Callable[[Any], object]) -> None:
    table = FrozenDict({"a": 1})
    with pytest.raises(TypeError):
        change(table)
    assert table == {"a": 1}


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy])
def test_copies_are_as_frozen(again: Callable[[Any], Any]) -> None:
    table = FrozenDict({"a": (1, 2)})
    assert again(table) == table
    assert type(again(table)) is FrozenDict
