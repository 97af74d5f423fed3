"""A slot counts as free only when the server's own count leaves no doubt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.core.slots import freed, waits_inside

few = st.integers(0, 6)


@pytest.mark.parametrize(
    ("draining", "busy", "certain", "count"),
    [
        (1, 0, 0, 1),
        (1, 1, 0, 0),
        (1, 1, 1, 1),
        (1, 2, 1, 0),
        (2, 1, 0, 1),
        (3, 2, 1, 2),
        (1, 4, 0, 0),
        (0, 0, 0, 0),
        (2, 0, 3, 2),
    ],
)
def test_what_the_server_is_busy_with_may_always_be_one_that_drains(
    draining: int, busy: int, certain: int, count: int
) -> None:
    assert freed(draining, busy, certain) == count


@given(running=few, still_busy=few, gone=few, just_sent=few, others=few)
def test_never_more_than_have_left(running: int, still_busy: int, gone: int, just_sent: int, others: int) -> None:
    """Whoever else is busy there: nobody is given a slot that is still at work."""
    busy = running + still_busy + just_sent + others
    assert freed(still_busy + gone, busy, running) <= gone
    assert freed(still_busy + gone, running + still_busy, running) == gone


@pytest.mark.parametrize(
    ("without_head", "busy", "slots", "certain", "waits"),
    [
        (True, 2, 2, 1, True),
        (True, 1, 1, 0, True),
        (False, 2, 2, 1, False),
        (True, 1, 2, 0, False),
        (True, 2, 2, 2, False),
        (True, 0, 0, 0, False),
        (True, 3, 2, 2, True),
    ],
)
def test_who_waits_inside_the_server(without_head: bool, busy: int, slots: int, certain: int, waits: bool) -> None:
    """All slots are busy, and not all of them with ours."""
    assert waits_inside(without_head, busy, slots, certain) is waits
