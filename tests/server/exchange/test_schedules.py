"""Requests in any order of whatever may happen to them."""

from typing import Any

from hypothesis import given

from tests.server.house import logged
from tests.server.schedule import SCHEDULES, Player
from tests.server.stage import play


@given(SCHEDULES)
def test_whatever_the_order(steps: list[Any]) -> None:
    """One answer begun at most, ended at most once, told once; every slot back once; nothing left, nothing logged."""

    async def main() -> None:
        await Player().play(steps)

    with logged() as lines:
        play(main())
    assert lines == []
