"""Values put into texts: all that was there stays, or nothing is done."""

import json
import tomllib
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from llmgate.cli.connect.merge import CannotMerge, combined, merge
from llmgate.cli.connect.recipe import Format, dump
from llmgate.config.toml import dump as dump_toml

CODEX = {"model": "new", "model_provider": "llmgate", "model_providers": {"llmgate": {"name": "llmgate", "port": 1}}}


@pytest.mark.parametrize("format_", ["json", "toml", "yaml"])
@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_file_gets_the_values(format_: Format, text: str) -> None:
    assert merge(text, format_, CODEX) == dump(format_, CODEX)


@pytest.mark.parametrize("format_", ["json", "toml", "yaml"])
def test_done_twice_it_changes_nothing_more(format_: Format) -> None:
    once = merge(dump(format_, {"other": 1}), format_, CODEX)
    assert merge(once, format_, CODEX) is once


def test_json_keeps_order_indent_and_other_keys() -> None:
    text = '{\n    "b": {"x": 1, "y": "ü"},\n    "a": [1]\n}\n'
    merged = merge(text, "json", {"b": {"x": 2, "z": 3}, "c": True})
    assert merged == ('{\n    "b": {"x": 2, "y": "ü",\n        "z": 3\n    },\n    "a": [1],\n    "c": true\n}\n')
    assert list(json.loads(merged)) == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"b": [0, /* mine */ 2]}', "has comments in b that would be lost"),
        ('{"a": 1, "a": 2}', "stands there twice"),
        ('{"a": "//"', "is not JSON"),
        ("[1]", "does not hold a table"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_json_that_cannot_be_kept_is_refused(text: str, said: str) -> None:
    with pytest.raises(CannotMerge, match=said):
        merge(text, "json", {"b": 1})


TOML = """\
# mine
model = "old"  # why

# the servers
[mcp.files]
command = "x"

[model_providers.llmgate]
# hand-made
port = 2

[[more]]
a = 1
"""


def test_toml_keeps_comments_and_changes_only_the_lines_it_must() -> None:
    merged = merge(TOML, "toml", CODEX)
    expected = TOML.replace('"old"  # why\n', '"new"  # why\nmodel_provider = "llmgate"\n')
    expected = expected.replace(".llmgate]\n", '.llmgate]\nname = "llmgate"\n').replace("port = 2", "port = 1")
    assert merged == expected


def test_toml_gets_a_table_that_is_not_there() -> None:
    merged = merge("[[more]]\na = 1\n", "toml", CODEX)
    assert merged.startswith(
        'model = "new"\nmodel_provider = "llmgate"\n[[more]]\na = 1\n\n[model_providers.llmgate]\n'
    )


@pytest.mark.parametrize(
    "text",
    [
        "a = [",
        'model = """\nx\n"""\n',
        'model_providers = { llmgate = { name = "x" } }\n',
        "model_providers.llmgate.name = 'x'\n[other]\n",
    ],
)
def test_toml_that_cannot_be_changed_safely_is_refused(text: str) -> None:
    with pytest.raises(CannotMerge):
        merge(text, "toml", CODEX)


YAML = """\
# mine
name: old
models:
- name: one
  model: m1

- name: two
  model: m2
rules: [a]  # stays
"""


def test_yaml_keeps_comments_elsewhere_and_adds_to_lists() -> None:
    merged = merge(YAML, "yaml", {"models": [{"name": "two", "model": "m3"}, {"name": "three"}], "version": "1"})
    assert merged.startswith("# mine\nname: old\nmodels:\n- name: one\n")
    assert "rules: [a]  # stays\n" in merged
    assert yaml.safe_load(merged) == {
        "name": "old",
        "models": [{"name": "one", "model": "m1"}, {"name": "two", "model": "m3"}, {"name": "three"}],
        "rules": ["a"],
        "version": "1",
    }


@pytest.mark.parametrize("text", ["a: [", "- a", "models:\n# why\n- name: x\n", "{models: []}\n"])
def test_yaml_that_cannot_be_changed_safely_is_refused(text: str) -> None:
    with pytest.raises(CannotMerge):
        merge(text, "yaml", {"models": [{"name": "y"}]})


def test_lists_are_joined_by_id_or_name() -> None:
    old = [{"id": "a", "x": 1}, {"name": "b"}, "c"]
    assert combined(old, [{"id": "a", "y": 2}, "c", {"id": "z"}]) == [
        {"id": "a", "x": 1, "y": 2},
        {"name": "b"},
        "c",
        {"id": "z"},
    ]


names = st.sampled_from(["model", "a", "b.c", "llmgate", "ü"])
scalars = (
    st.integers(-9, 9) | st.booleans() | st.sampled_from(["x", "# no", '"', "a = b", "[t]", "'", "", "yes", "- x"])
)
tables = st.recursive(
    st.dictionaries(names, scalars, max_size=3), lambda t: st.dictionaries(names, t | scalars, max_size=3)
)
READERS: dict[Format, Any] = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}


@given(tables, tables, st.sampled_from(["json", "toml", "yaml"]))
def test_the_result_is_what_both_say_together(old: dict[str, Any], new: dict[str, Any], format_: Format) -> None:
    before = dump_toml(old) if format_ == "toml" else dump(format_, old)
    try:
        after = merge(before, format_, new)
    except CannotMerge:
        return
    assert READERS[format_](after) == combined(old, new)
