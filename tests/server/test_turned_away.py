"""Whoever may not come in cannot fill the log."""

import pytest

from llmgate.errors import KeyLimit, OriginNotAllowed, Unauthorized
from llmgate.server.turned_away import MOST_KINDS, SECONDS, TurnedAway


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


def test_every_key_has_its_own_line(caplog: pytest.LogCaptureFixture) -> None:
    turned_away = TurnedAway(lambda: 0.0)
    told: list[tuple[str, str, str]] = []
    turned_away.on_told = lambda *what: told.append(what)
    with caplog.at_level("INFO", "llmgate"):
        for key in ("a", "b", "a", "b"):
            turned_away.note(KeyLimit(""), f"key={key}", key)
        turned_away.note(Unauthorized(""), "nobody")
    assert caplog.messages == [
        "refused key=a (KEY_LIMIT)",
        "refused key=b (KEY_LIMIT)",
        "refused nobody (UNAUTHORIZED)",
    ]
    assert [what[1] for what in told] == caplog.messages
    assert [(code, key) for code, _, key in told] == [("KEY_LIMIT", "a"), ("KEY_LIMIT", "b"), ("UNAUTHORIZED", "")]
    assert turned_away.counts == {"KEY_LIMIT": 4, "UNAUTHORIZED": 1}


def test_what_is_kept_is_bounded_and_so_is_what_is_told() -> None:
    now = 0.0
    turned_away = TurnedAway(lambda: now)
    told: list[str] = []
    turned_away.on_told = lambda code, text, key: told.append(key)
    for number in range(3 * MOST_KINDS):
        turned_away.note(KeyLimit(""), "", f"key-{number}")
    assert len(told) == len(set(told)) == len(turned_away._kinds) <= MOST_KINDS + 1
    assert told[-1] == f"key-{MOST_KINDS}", "of all the others the first one is told"
    now = SECONDS
    turned_away.note(KeyLimit(""), "", "another")
    assert (told[-1], len(turned_away._kinds)) == ("another", 1)
