"""Which upstream is only called otherwise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.core.succession import find_successors, names_known


def sets(**upstreams: str) -> dict[str, set[str]]:
    return {name: set(servers) for name, servers in upstreams.items()}


@pytest.mark.parametrize(
    ("gone", "new", "found"),
    [
        (sets(), sets(), {}),
        (sets(a="1"), sets(), {}),
        (sets(), sets(b="1"), {}),
        (sets(a="1"), sets(b="1"), {"b": "a"}),
        (sets(a="1"), sets(b="2"), {}),
        (sets(a="12"), sets(b="23"), {"b": "a"}),
        (sets(a="1", c="2"), sets(b="1", d="2"), {"b": "a", "d": "c"}),
        (sets(a="12"), sets(b="1", c="2"), {}),
        (sets(a="1", c="2"), sets(b="12"), {}),
        (sets(a="1", c="1"), sets(b="1"), {}),
        (sets(a="1", c="3"), sets(b="1", d="1"), {}),
    ],
)
def test_rule_by_rule(gone, new, found):
    assert find_successors(gone, new) == found


UPSTREAMS = st.dictionaries(st.sampled_from("abc"), st.sets(st.integers(1, 4), min_size=1))


@given(UPSTREAMS, UPSTREAMS)
def test_nobody_is_moved_where_it_could_be_another_one_as_well(gone, new):
    new = {name.upper(): servers for name, servers in new.items()}
    pairs = [(old, name) for old in gone for name in new if gone[old] & new[name]]
    clear = {
        (old, name)
        for old, name in pairs
        if [pair[0] for pair in pairs].count(old) == 1 and [pair[1] for pair in pairs].count(name) == 1
    }
    assert {(old, name) for name, old in find_successors(gone, new).items()} == clear


@pytest.mark.parametrize(
    ("known", "renamed", "now", "after"),
    [
        ({}, {}, {"a"}, {}),
        ({}, {"b": "a"}, {"b"}, {"a": "b"}),
        ({"a": "b"}, {"c": "b"}, {"c"}, {"a": "c", "b": "c"}),
        ({"a": "b"}, {}, {"c"}, {}),
        ({"a": "b"}, {}, {"a", "b"}, {}),
        ({"a": "b"}, {"a": "b"}, {"a"}, {"b": "a"}),
    ],
)
def test_every_name_that_it_had(known, renamed, now, after):
    assert names_known(known, renamed, now) == after
