"""Requests in any order of whatever may happen to them."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from llmgate.protocols.speech import Kind
from tests.server.house import logged
from tests.server.schedule import SCHEDULES, Player
from tests.server.stage import play


@given(st.sampled_from(["auto", "openai"]), SCHEDULES)
def test_whatever_the_order(kind: Kind, steps: list[Any]) -> None:
    """One answer begun at most, ended at most once, told once; every slot back once; nothing left, nothing logged."""

    async def main() -> None:
        await Player(kind).play(steps)

    with logged() as lines:
        play(main())
    assert lines == []
