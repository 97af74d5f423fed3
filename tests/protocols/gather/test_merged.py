"""Objects that come in pieces."""

import json
from typing import Any

import msgspec
import pytest

from llmgate.errors import UpstreamFailed
from llmgate.protocols.budget import Budget
from llmgate.protocols.gather.merged import Merged, with_defaults

X, YZ = {"type": "text", "text": "x"}, {"type": "text", "text": "yz"}


def merge(*pieces: dict[str, Any]) -> Any:
    merged = Merged(Budget(100_000))
    for piece in pieces:
        merged.add(piece)
    return json.loads(msgspec.json.encode(merged.value()))


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        ([], {}),
        ([{"a": "x"}, {"a": "y"}], {"a": "xy"}),
        ([{"a": [1]}, {"a": [2]}], {"a": [1, 2]}),
        ([{"a": {"b": "x"}}, {"a": {"b": "y", "c": 1}}], {"a": {"b": "xy", "c": 1}}),
        ([{"a": 1}, {"a": 2}], {"a": 2}),
        ([{"type": "x"}, {"type": "x"}, {"type": "y"}], {"type": "y"}),
        ([{"role": "assistant"}, {"role": ""}], {"role": "assistant"}),
        ([{"id": 5}, {"id": "x"}], {"id": "x"}),
        ([{"a": None}, {"a": "x"}, {"a": None}], {"a": "x"}),
        ([{"a": None}, {"a": None}], {"a": None}),
        ([{"a": ""}], {"a": ""}),
        ([{"a": []}, {"a": {}}], {"a": {}}),
        ([{"a": "x"}, {"a": 1}, {"a": "y"}], {"a": "y"}),
        ([{"a": {"b": 1}}, {"a": "x"}], {"a": "x"}),
        ([{"a": "x"}, {"a": [1]}, {"a": "y"}, {"a": "z"}], {"a": [X, 1, YZ]}),
        ([{"a": ""}, {"a": [1]}], {"a": [1]}),
        ([{"\ud83d": 1}], {"�": 1}),
    ],
)
def test_merged(pieces: list[dict[str, Any]], whole: dict[str, Any]) -> None:
    assert merge(*pieces) == whole


def test_every_field_counts() -> None:
    merged = Merged(Budget(1000))
    with pytest.raises(UpstreamFailed):
        merged.add({str(number): None for number in range(10)})


def test_defaults() -> None:
    merged = Merged(Budget(10_000))
    merged.add({"a": None, "b": "x", "c": "", "type": "", "e": [], "id": 0})
    found = with_defaults(merged.value(), a="1", b="2", c="3", d="4", type="5", e="6", id="7")
    whole = {"a": "1", "b": "x", "c": "3", "d": "4", "type": "5", "e": [], "id": 0}
    assert json.loads(msgspec.json.encode(found)) == whole
