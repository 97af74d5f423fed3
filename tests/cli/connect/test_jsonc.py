"""JSON with comments: what is read of it, and that a change leaves all the rest to the letter."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.cli.connect.jsonc import CommentLost, edit, read
from llmgate.cli.connect.merge import combined

TEXT = """\
// settings of mine
{
  "size": 16, // big
  "theme": {"mode": "system", "light": "One // Light", /* x */ },
  "models": {
    // first
    "ollama": { "url": "http://h" } // here
    // the end
  },
  "list": [1, /* two */ 2,],
}
// over
"""
PLAIN = {
    "size": 16,
    "theme": {"mode": "system", "light": "One // Light"},
    "models": {"ollama": {"url": "http://h"}},
    "list": [1, 2],
}


def test_it_is_read_without_its_comments() -> None:
    assert read(TEXT) == PLAIN


def test_what_is_said_already_changes_nothing() -> None:
    assert edit(TEXT, PLAIN) == TEXT


def test_a_value_changes_where_it_stands() -> None:
    changed = edit(TEXT, PLAIN | {"size": {"a": 1}})
    assert changed == TEXT.replace('"size": 16, // big', '"size": {\n    "a": 1\n  }, // big')


def test_a_key_is_added_behind_the_comments_of_its_table() -> None:
    changed = edit(TEXT, PLAIN | {"models": {"ollama": {"url": "http://h"}, "mine": [True]}, "new": None})
    assert changed == TEXT.replace(
        '{ "url": "http://h" } // here\n    // the end\n',
        '{ "url": "http://h" }, // here\n    // the end\n    "mine": [\n      true\n    ]\n',
    ).replace("2,],\n", '2,],\n  "new": null\n')


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("{}", '{\n  "k": 1\n}'),
        ('{"a": 0}', '{"a": 0,\n  "k": 1\n}'),
        ('{"a": 0,}', '{"a": 0,\n  "k": 1\n}'),
        ("{ // none\n}", '{ // none\n  "k": 1\n}'),
        ('{\n\t"a": 0\n}', '{\n\t"a": 0,\n\t"k": 1\n}'),
    ],
)
def test_a_table_grows(text: str, changed: str) -> None:
    assert edit(text, read(text) | {"k": 1}) == changed
    assert read(changed) == read(text) | {"k": 1}


def test_a_comment_is_not_thrown_away() -> None:
    with pytest.raises(CommentLost, match="list"):
        edit(TEXT, PLAIN | {"list": [1, 2, 3]})
    assert '"http://new"' in edit('{"a": "http://old"}', {"a": "http://new"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1 "b": 2}', "a comma or } is missing in line 1"),
        ('{"a" 1}', "a key is missing"),
        ("{\n'a': 1}", "a key is missing in line 2"),
        ('{"a": }', "a value is missing"),
        ("[1 2]", "a comma or ] is missing"),
        ("{} {}", "something follows its end"),
        ('{"a": 1, "a": 2}', "a key stands there twice"),
        ('{"a": nul}', "Expecting value"),
        ('{"a": "', "a value is missing"),
        ("", "a value is missing"),
        ("{/* ", "a key is missing"),
    ],
)
def test_what_is_none_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("}", r"\}").replace("]", r"\]")):
        read(text)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)
tables = st.dictionaries(st.text(), values, max_size=4)


@given(tables, tables, st.sampled_from([None, 2, "\t"]))
def test_it_agrees_with_json(old: dict[str, Any], new: dict[str, Any], indent: Any) -> None:
    text = json.dumps(old, indent=indent, ensure_ascii=False)
    assert read(text) == old
    wanted = combined(old, new)
    assert json.loads(edit(text, wanted)) == wanted
