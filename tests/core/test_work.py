"""A silent request is alive while its server comes on, and not since others do."""

from hypothesis import given
from hypothesis import strategies as st

from llmgate.core.work import Look, Work, is_at_work

READS, READS_ON = Work(7, 100, 0), Work(7, 164, 0)
WRITES, WRITES_ON = Work(7, 164, 5), Work(7, 164, 9)
OTHER, OTHER_ON = Work(8, 20, 50), Work(8, 20, 60)

works = st.builds(
    Work,
    st.none() | st.integers(0, 3),
    st.none() | st.integers(0, 3),
    st.none() | st.integers(0, 3),
)
looks = st.builds(Look, st.floats(0, 10), st.dictionaries(st.integers(0, 3), works))


def look(**busy: Work) -> Look:
    return Look(0.0, busy)


def test_what_reads_a_prompt_is_alive():
    assert is_at_work(look(a=READS), look(a=READS_ON), 0)


def test_what_writes_unheard_is_alive():
    assert is_at_work(look(a=WRITES), look(a=WRITES_ON), 0)


def test_what_stands_still_is_not():
    assert not is_at_work(look(a=READS), look(a=READS), 0)
    assert not is_at_work(look(a=WRITES), look(a=WRITES), 0)


def test_a_neighbour_that_is_heard_is_no_life():
    assert not is_at_work(look(a=READS, b=OTHER), look(a=READS, b=OTHER_ON), 1)
    assert is_at_work(look(a=WRITES, b=OTHER), look(a=WRITES_ON, b=OTHER_ON), 1)


def test_beside_a_prompt_that_is_read_everything_may_stand_still():
    assert is_at_work(look(a=READS, b=WRITES), look(a=READS_ON, b=WRITES), 5)


def test_another_request_in_a_slot_is_life():
    assert is_at_work(look(a=READS), look(a=Work(9, 0, 0)), 0)
    assert is_at_work(look(), look(a=READS), 0)


def test_one_that_only_ended_is_not():
    assert not is_at_work(look(a=WRITES), look(), 0)


def test_where_no_figures_are_told_only_another_task_is_life():
    before = look(a=Work(7, None, None))
    assert not is_at_work(before, look(a=Work(7, None, None)), 0)
    assert is_at_work(before, look(a=Work(8, None, None)), 9)


@given(looks, st.integers(0, 5))
def test_nothing_moved_is_never_life(seen: Look, heard: int):
    assert not is_at_work(seen, seen._replace(at=99.0), heard)


@given(looks, looks, st.integers(0, 5))
def test_the_more_is_heard_of_the_others_the_less_is_life(before: Look, after: Look, heard: int):
    if is_at_work(before, after, heard + 1):
        assert is_at_work(before, after, heard)


@given(looks, looks)
def test_unheard_any_move_is_life(before: Look, after: Look):
    moved = any(before.busy.get(slot) != work for slot, work in after.busy.items())
    assert is_at_work(before, after, 0) == moved
