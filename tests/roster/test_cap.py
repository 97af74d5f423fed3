"""The cap of a server holds through reloads: what runs there is counted, wherever the server belongs by now."""

import pytest

from llmgate.core.events import Mode
from tests.test_roster import A, B, C, House, of, several


async def test_a_server_that_is_taken_away_and_put_back_is_still_counted() -> None:
    house = House(of(a=several(A, B)))
    first, second = await house.enter("a"), await house.enter("a")
    for reloaded in (several(B), several(C, B), several(B, A)):
        house.reload(of(a=reloaded))
        await house.turns()
        if A not in str(reloaded):
            assert house.places[first].endpoint == ""
    assert (house.places[first].endpoint, house.places[second].endpoint) == ("a#2", "a")
    third = await house.enter("a")
    assert house.state(third) == "waiting", "I1: both are busy"
    house.places[first].leave("completed")
    assert (house.state(third), house.places[third].endpoint) == ("running", "a#2")


async def test_a_server_is_forgotten_with_the_last_request_there() -> None:
    house = House(of(a={"url": A}))
    running = await house.enter("a")
    house.reload(of(a={"url": B}))
    assert len(house.roster._accounts._by_server) == 2
    house.places.pop(running).leave("completed")
    assert len(house.roster._accounts._by_server) == 1


@pytest.mark.parametrize("moment", ["open", "paused", "down"])
async def test_one_that_is_called_otherwise_goes_on_with_everybody(moment: str) -> None:
    house = House(of(a={"models": ["m"], "max_concurrent": 2}))
    first, second = await house.enter("a"), await house.enter("a")
    if moment == "paused":
        house.roster.admission.pause("a")
    elif moment == "down":
        house.roster.admission.set_endpoint("a", "a", up=False, reason="gone")
    waiting = [await house.enter("a") for _ in range(3)]
    server = house.roster.servers["a"]
    house.reload(of(b={"models": ["n"], "max_concurrent": 2}))
    assert list(house.roster.admission.upstreams()) == list(house.roster.servers) == ["b"]
    assert house.roster.leaving == frozenset()
    assert house.roster.servers["b"].traffic is server.traffic
    gate = house.roster.admission.gate("b")
    assert gate.endpoints()["b"].in_flight == 2
    newcomer = await house.enter("b")
    assert [ticket.caller.id for ticket in gate.waiting()] == [*waiting, newcomer], "I2, I9"
    house.places[first].leave("completed")
    assert house.state(waiting[0]) == ("running" if moment == "open" else "waiting"), "what holds it up goes with it"
    house.roster.admission.resume("b")
    house.roster.admission.set_endpoint("b", "b", up=True)
    house.places[second].drain("client_gone", None)
    assert house.roster.admission.gate("b").endpoints()["b"].in_flight == 2
    assert house.places[waiting[0]].endpoint == "b"
    assert house.outcomes == {first: ["completed"], second: ["client_gone"]}


async def test_with_several_servers_each_keeps_its_count_under_the_new_name() -> None:
    house = House(of(a=several(A, B)))
    first, second = await house.enter("a"), await house.enter("a")
    waiting = await house.enter("a")
    house.reload(of(b=several(C, B)))
    assert (house.places[first].endpoint, house.places[second].endpoint) == ("", "b#2")
    assert (house.state(waiting), house.places[waiting].endpoint) == ("running", "b")
    house.reload(of(c=several(C, B, A)))
    assert [house.places[it].endpoint for it in (first, second, waiting)] == ["c#3", "c#2", "c"]


async def test_one_that_leaves_already_is_taken_over_too() -> None:
    house = House(of(a={}, z={"url": C}))
    running, waiting = await house.enter("a"), await house.enter("a")
    house.reload(of(z={"url": C}))
    assert house.roster.leaving == {"a"}
    house.reload(of(z={"url": C}, b={}))
    assert house.roster.leaving == frozenset()
    assert house.roster.admission.gate("b").mode is Mode.OPEN
    house.places[running].leave("completed")
    assert house.state(waiting) == "running"


async def test_a_server_that_goes_to_another_upstream_begins_there_with_what_it_has() -> None:
    house = House(of(a={"url": A, "max_concurrent": 2}, b={"url": B}))
    first, second = await house.enter("a"), await house.enter("a")
    house.reload(of(a={"url": C}, b={"url": A, "max_concurrent": 2}))
    third = await house.enter("b")
    assert house.state(third) == "waiting", "I1"
    for running in (first, second):
        house.places[running].leave("completed")
        await house.turns()
    assert house.state(third) == "running"


async def test_two_that_change_servers() -> None:
    house = House(of(a={"url": A}, b={"url": B}))
    running = [await house.enter("a"), await house.enter("b")]
    waiting = [await house.enter("a"), await house.enter("b")]
    house.reload(of(a={"url": B}, b={"url": A}))
    assert [house.state(name) for name in waiting] == ["waiting", "waiting"]
    house.places[running[0]].leave("completed")
    await house.turns()
    assert [house.state(name) for name in waiting] == ["waiting", "waiting"], (
        "each runs on where it must not count twice"
    )
    house.places[running[1]].leave("completed")
    await house.turns()
    assert [house.state(name) for name in waiting] == ["running", "running"]


async def test_a_new_one_with_a_server_that_another_gave_up() -> None:
    house = House(of(a={"url": A}))
    running = await house.enter("a")
    house.reload(of(a={"url": C}, b={"url": A}))
    waiting = await house.enter("b")
    assert house.state(waiting) == "waiting", "I1"
    house.places[running].leave("completed")
    await house.turns()
    assert house.state(waiting) == "running"


async def test_nobody_is_let_in_before_all_of_them_are_changed() -> None:
    house = House(of(a={"url": B}, z={"url": A}))
    house.roster.admission.set_endpoint("a", "a", up=False, reason="gone")
    running, waiting = await house.enter("z"), await house.enter("a")
    house.reload(of(a={"url": A}, z={"url": C}))
    await house.turns()
    assert [house.state(running), house.state(waiting)] == ["running", "waiting"], "I1"


async def test_where_another_takes_the_server_over_who_waits_comes_first() -> None:
    """Two upstreams become one: who waits at the one that is gone came before whoever comes now."""
    house = House(of(a={"url": A}, b={"url": B}))
    running = await house.enter("a")
    waiting = [await house.enter("a"), await house.enter("a")]
    house.reload(of(b={"url": A}))
    assert house.roster.leaving == {"a"}
    newcomer = await house.enter("b")
    for name in (running, *waiting):
        assert house.state(name) == "running"
        assert house.state(newcomer) == "waiting"
        house.places[name].leave("completed")
        await house.turns()
    assert house.state(newcomer) == "running"


async def test_nor_does_whoever_takes_it_over_let_its_own_in_before_them() -> None:
    house = House(of(a={}, b={}))
    (of_a, first), (of_b, second) = [[await house.enter(name) for _ in range(2)] for name in "ab"]
    house.reload(of(b={}))
    house.places[of_a].leave("completed")
    await house.turns()
    assert [house.state(name) for name in (first, second)] == ["waiting", "waiting"], "b has what it may"
    house.places[of_b].leave("completed")
    assert house.state(second) == "waiting"
    await house.turns()
    assert [house.state(name) for name in (first, second)] == ["running", "waiting"]
    house.places[first].leave("completed")
    await house.turns()
    assert house.state(second) == "running"


async def test_two_that_name_one_server_on_purpose_have_their_parts_of_it() -> None:
    house = House(of(a={"url": A, "max_concurrent": 3}, b={"url": A, "max_concurrent": 1}))
    of_a, of_b = [await house.enter("a") for _ in range(4)], [await house.enter("b") for _ in range(2)]
    assert [house.state(name) for name in (*of_a, *of_b)] == [*["running"] * 3, "waiting", "running", "waiting"]
    assert len(house.roster.sent_to("a")) == 4
    house.reload(of(a={"url": A, "max_concurrent": 1}, b={"url": A, "max_concurrent": 3}))
    await house.turns()
    assert house.state(of_b[1]) == "waiting", "together they have all that they may"
    house.places[of_a[0]].leave("completed")
    await house.turns()
    assert [house.state(of_a[3]), house.state(of_b[1])] == ["waiting", "running"]


async def test_a_server_is_the_same_however_its_url_is_written() -> None:
    house = House(of(a={"url": "http://localhost:1"}))
    await house.enter("a")
    house.reload(of(b={"url": "http://127.0.0.1:1/"}, c={"url": C}))
    assert house.state(await house.enter("b")) == "waiting"


async def test_connections_of_replaced_servers_are_found_under_the_new_name(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(of(a={}))
    monkeypatch.setattr(type(house.roster.servers["a"]), "in_use", 1)
    house.reload(of(b={}))
    house.reload(of(c={}))
    assert house.roster.in_use("c") == 3
