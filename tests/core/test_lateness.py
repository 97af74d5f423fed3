"""A clock that rings late is not judged before what came meanwhile was read."""

import pytest

from llmgate.core.lateness import LATE_SECONDS, REREAD_SECONDS, is_late, prolonged


@pytest.mark.parametrize(
    ("after", "late"), [(-1, False), (0, False), (LATE_SECONDS / 2, False), (LATE_SECONDS, True), (3600, True)]
)
def test_it_is_late_where_everything_stood_still(after: float, late: bool) -> None:
    assert is_late(100.0 + after, 100.0) is late


@pytest.mark.parametrize(
    ("after", "seconds", "more"),
    [(2.0, 30.0, 2.0), (3600.0, 30.0, 30.0), (0.0, 30.0, REREAD_SECONDS), (5.0, 0.001, REREAD_SECONDS)],
)
def test_as_long_as_it_stood_still_and_at_most_all_its_time_again(after: float, seconds: float, more: float) -> None:
    assert prolonged(100.0 + after, 100.0, seconds) == pytest.approx(100.0 + after + more)
