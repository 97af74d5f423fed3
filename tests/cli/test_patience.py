"""How long a command waits."""

import pytest
import typer

from llmgate.cli.patience import Patience, seconds


def test_durations_are_as_in_the_settings() -> None:
    assert [seconds(text) for text in ("30", "250ms", "5m")] == [30.0, 0.25, 300.0]
    with pytest.raises(typer.BadParameter, match="must be a number of seconds"):
        seconds("soon")


def test_it_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    patience, endless, none = Patience(5.0), Patience(None), Patience(0.0)
    assert (patience.is_over(), endless.is_over(), none.is_over()) == (False, False, True)
    now[0] = 105.0
    assert (patience.is_over(), endless.is_over()) == (True, False)
