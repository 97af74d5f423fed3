"""Values written as TOML are read back as the same values."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.config.toml import dump, header, key, pair, scalar

texts = st.text(st.characters(exclude_categories=("Cs",)))
scalars = texts | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))


@given(st.dictionaries(texts, values, max_size=4))
def test_what_is_written_is_read_back(tables: dict[str, Any]) -> None:
    assert tomllib.loads(dump(tables)) == tables


def test_own_values_go_first_and_deep_tables_stand_in_braces() -> None:
    values = {"a": {"b": {"c": {"d": 1}, "e": [1, {"f": 2}]}, "g": 3}, "h": True, "i": {}}
    assert dump(values) == (
        "h = true\ni = {}\n\n[a]\ng = 3\n\n[a.b]\nc = { d = 1 }\ne = [1, { f = 2 }]\n"
    )  # fmt: skip


def test_keys_are_quoted_where_they_must() -> None:
    assert (key("a-b_1"), key("a.b"), key("")) == ("a-b_1", '"a.b"', '""')
    assert header(("upstreams", "a.b")) == '[upstreams."a.b"]'
    assert pair("x", 'q"\x7f') == 'x = "q\\"\\u007f"'


def test_nothing_is_written_for_what_toml_does_not_know() -> None:
    with pytest.raises(TypeError, match="no form of NoneType"):
        scalar(None)
