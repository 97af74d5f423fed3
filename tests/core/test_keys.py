"""Whose a key is, what it opens, and how many requests it has going."""

import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.core.keys import ClientKey, ClientKeys, KeyCounts
from llmgate.errors import KeyLimit


def key(name: str = "laptop", secret: bytes = b"", **fields: Any) -> ClientKey:
    return ClientKey(name=name, digest=hashlib.sha256(secret or name.encode()).digest(), **fields)


KEYS = ClientKeys([key("a"), key("b", disabled=True), key("c")])


def test_a_key_is_found_by_its_secret() -> None:
    assert [found and found.name for found in map(KEYS.find, (b"a", b"c", b"d", b"", b"A", b"a "))] == [
        *("a", "c", None, None, None, None)
    ]


def test_one_that_is_disabled_is_nobodys() -> None:
    assert KEYS.find(b"b") is None


def test_every_key_is_compared_whichever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """F66: how long it takes tells nothing."""
    compared = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", compare)
    for secret in (b"a", b"c", b"nobody's"):
        compared.clear()
        KEYS.find(secret)
        assert [other for _, other in compared] == [each.digest for each in KEYS]


def test_no_keys_are_false_and_equal_ones_are_equal() -> None:
    assert not ClientKeys()
    assert ClientKeys([key("a", disabled=True)])
    assert ClientKeys(KEYS) == KEYS
    assert hash(KEYS) == hash(ClientKeys(KEYS))
    assert ClientKeys() != KEYS
    assert KEYS != "a"


@pytest.mark.parametrize(
    ("models", "names", "may"),
    [
        ((), ["anything"], True),
        (("m",), ["m"], True),
        (("m",), ["m2"], False),
        (("m",), ["M"], False),
        (("m*",), ["m2"], True),
        (("m*",), ["x", "m2"], True),
        (("*",), ["x\ny"], True),
        (("m",), ["m\n"], False),
        (("m",), ["m:latest"], True),
        (("m:latest",), ["m"], True),
        (("m",), ["m:7b"], False),
        (("a", "q[12]"), ["q2"], True),
        (("a", "q[12]"), ["q3"], False),
    ],
)
def test_models(models: tuple[str, ...], names: list[str], may: bool) -> None:
    assert key(models=models).may_use(*names) is may


def test_as_many_as_it_may_have() -> None:
    counts, limited = KeyCounts(), key(max_concurrent=2)
    counts.enter(limited)
    counts.enter(limited)
    with pytest.raises(KeyLimit, match="as many requests as it may") as refused:
        counts.enter(limited)
    assert refused.value.limit == 2
    counts.leave("laptop")
    counts.enter(limited)
    assert counts["laptop"] == 2


def test_each_key_has_its_own_count_and_none_has_no_limit() -> None:
    counts = KeyCounts()
    for _ in range(3):
        counts.enter(key("a"))
    counts.enter(key("b", max_concurrent=1))
    assert (counts["a"], counts["b"], counts["c"]) == (3, 1, 0)


def test_a_lower_limit_holds_for_those_that_come_after() -> None:
    counts = KeyCounts()
    counts.enter(key(max_concurrent=2))
    counts.enter(key(max_concurrent=2))
    with pytest.raises(KeyLimit):
        counts.enter(key(max_concurrent=1))
    counts.leave("laptop")
    with pytest.raises(KeyLimit):
        counts.enter(key(max_concurrent=1))
    counts.leave("laptop")
    counts.enter(key(max_concurrent=1))


@given(st.lists(st.sampled_from(["enter", "leave"])), st.integers(1, 3))
def test_the_count_is_that_of_those_inside(steps: list[str], limit: int) -> None:
    counts, inside, limited = KeyCounts(), 0, key(max_concurrent=limit)
    for step in steps:
        if step == "leave" and inside:
            counts.leave("laptop")
            inside -= 1
        elif step == "enter":
            entered = _enter(counts, limited)
            assert entered is (inside < limit)
            inside += entered
        assert counts["laptop"] == inside


def _enter(counts: KeyCounts, limited: ClientKey) -> bool:
    try:
        counts.enter(limited)
    except KeyLimit:
        return False
    return True


def test_keys_can_be_walked() -> None:
    assert [each.name for each in KEYS] == ["a", "b", "c"]


def test_what_becomes_of_a_key_with_a_reload() -> None:
    before = key("a", models=("m",))
    for now, found in (
        ([key("a", models=("m",))], before),
        ([key("a")], key("a")),
        ([key("other name", b"a")], key("other name", b"a")),
        ([key("a", b"another secret")], None),
        ([key("b")], None),
        ([key("a", disabled=True)], None),
        ([], before),
    ):
        assert ClientKeys(now).now(before) == found
