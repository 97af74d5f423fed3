"""What is said of an upstream that a reload calls otherwise or takes away."""

import pytest

from llmgate.core.events import GateStatistics, Limits, Mode
from llmgate.core.fate import dropped, renamed


def gate(waiting: int = 0, running: int = 0, refused: int = 0) -> GateStatistics:
    outcomes = {"refused": refused} if refused else {}
    return GateStatistics(Limits(), Mode.OPEN, waiting, running, 0, 0, 0, outcomes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (gate(), "one is now uno: its queue goes on"),
        (gate(3, 1), "one is now uno: its queue goes on, 3 waiting and 1 running"),
        (gate(0, 1), "one is now uno: its queue goes on, 1 running"),
    ],
)
def test_another_name(now: GateStatistics, said: str) -> None:
    assert renamed("one", "uno", now) == said


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (gate(), gate(), "a is gone: nobody was there"),
        (gate(0, 1, 7), gate(0, 1, 7), "a takes nobody new: 1 running is served to the end"),
        (gate(2, 1), gate(2, 1), "a takes nobody new: 2 waiting and 1 running are served to the end"),
        (
            gate(1, 0, 7),
            gate(0, 0, 8),
            "a takes nobody new: 1 waiting was sent away (REFUSED), as nobody could be served there",
        ),
        (
            gate(2, 2),
            gate(0, 2, 2),
            (
                "a takes nobody new: 2 waiting were sent away (REFUSED), as nobody could be served there; "
                "2 running are served to the end"
            ),
        ),
    ],
)
def test_taken_away(before: GateStatistics, now: GateStatistics, said: str) -> None:
    assert dropped("a", before, now) == said
