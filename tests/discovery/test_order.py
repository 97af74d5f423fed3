"""An operator's order about an upstream that a reload changes, or drops, while its server is asked."""

import asyncio

import pytest

from llmgate.server.admin_route import Conflict
from tests.test_roster import A, B, House, of, several

MEANWHILE = [of(a={"url": B}), of(b={}), of(a=several(A))]


@pytest.mark.parametrize("new", MEANWHILE, ids=["other server", "renamed", "several"])
async def test_what_a_reload_changed_meanwhile_is_refused_and_nothing_is_set(new: object) -> None:
    house = House(of(a={}))
    order = asyncio.get_running_loop().create_task(house.roster.discovery.follow_slots("a"))
    await asyncio.sleep(0)
    house.reload(new)  # type: ignore[arg-type]
    with pytest.raises(Conflict, match="a reload changed upstream a while its server was asked"):
        await order
    assert not any(house.roster.discovery.follows(name) for name in ("a", "b"))
    await house.roster.aclose()


async def test_one_that_leaves_is_not_asked_and_a_number_there_stays_when_it_is_back() -> None:
    house = House(of(a={"max_concurrent": "auto"}, b={"url": B}))
    await house.enter("a")
    house.reload(of(b={"url": B}))
    with pytest.raises(Conflict, match="upstream a is no longer in the settings"):
        await house.roster.discovery.follow_slots("a")
    house.roster.discovery.pin("a")
    house.reload(of(a={"max_concurrent": "auto"}, b={"url": B}))
    assert not house.roster.discovery.follows("a")
    await house.roster.aclose()
