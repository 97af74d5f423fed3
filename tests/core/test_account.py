"""How many may be at one server: the part of each who names it, and those who came before a reload."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.core.account import Account


def account(in_flight: int = 0, *, leaving: dict[str, int] | None = None, **shares: int) -> Account:
    made = Account()
    made.in_flight = in_flight
    for owner, most in shares.items():
        made.share(owner, most, leaving=False)
    for owner, most in (leaving or {}).items():
        made.share(owner, most, leaving=True)
    return made


def test_nobody_told_a_bound_so_there_is_none():
    assert Account().has_room("a")
    assert account(99, a=0, b=1).has_room("b")


@pytest.mark.parametrize(("in_flight", "room"), [(0, True), (3, True), (4, False), (5, False)])
def test_it_gets_what_all_who_name_it_may_send_together(in_flight, room):
    assert account(in_flight, a=3, b=1).has_room("a") is room


def test_one_that_leaves_has_no_part_unless_nobody_else_has():
    one = account(1, a=1, leaving={"b": 5})
    assert not one.has_room("a")
    assert not one.has_room("b")
    assert one.owners == 2
    one.withdraw("a")
    assert one.has_room("b")
    assert one.owners == 1


def test_another_part_replaces_the_old_one():
    one = account(1, a=1)
    one.share("a", 2, leaving=False)
    assert one.has_room("a")
    one.share("a", 1, leaving=True)
    assert not one.has_room("a")


def test_what_those_could_take_who_wait_where_it_leaves_is_kept_free_from_all_others():
    one = account(1, a=3, leaving={"b": 1, "c": 1})
    one.claim("b", 2)
    assert not one.has_room("a")
    assert one.has_room("b")
    assert one.has_room("c"), "they were there together"
    one.claim("b", 0)
    assert one.has_room("a")
    one.claim("b", 2)
    one.withdraw("b")
    assert one.has_room("a")


def test_one_that_comes_back_keeps_nothing_free_any_more():
    one = account(0, a=1, leaving={"b": 1})
    one.claim("b", 1)
    one.share("b", 1, leaving=False)
    assert one.has_room("a")
    assert one.has_room("b")


@given(st.dictionaries(st.sampled_from("abc"), st.tuples(st.integers(0, 3), st.booleans())), st.integers(0, 9))
def test_any_owners(owners, in_flight):
    one = account(in_flight)
    for owner, (most, leaving) in owners.items():
        one.share(owner, most, leaving=leaving)
    named = [most for most, leaving in owners.values() if not leaving]
    counted = named or [most for most, _ in owners.values()]
    assert one.has_room("a") is (not all(counted) or not counted or in_flight < sum(counted))
    for owner in owners:
        one.withdraw(owner)
    assert (one.owners, one.has_room("a")) == (0, True)
