"""Whoever may not come in cannot fill the log."""

import pytest

from llmgate.errors import OriginNotAllowed, Unauthorized
from llmgate.server.turned_away import SECONDS, TurnedAway


def test_one_line_at_once_then_one_a_minute_with_their_number(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    turned_away = TurnedAway(lambda: now)
    with caplog.at_level("INFO", "llmgate"):
        for step in range(10_000):
            now = step * SECONDS / 5_000
            turned_away.note(Unauthorized(""), f"number {step}")
        turned_away.note(OriginNotAllowed(""), "a page")
    assert caplog.messages == [
        "refused number 0 (UNAUTHORIZED)",
        "refused number 5000, after 4999 more that were not told (UNAUTHORIZED)",
        "refused a page (ORIGIN_NOT_ALLOWED)",
    ]


def test_a_quiet_minute_tells_nothing_of_before(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    turned_away = TurnedAway(lambda: now)
    with caplog.at_level("INFO", "llmgate"):
        turned_away.note(Unauthorized(""), "a")
        now = SECONDS
        turned_away.note(Unauthorized(""), "b")
    assert caplog.messages == ["refused a (UNAUTHORIZED)", "refused b (UNAUTHORIZED)"]
