"""The self-check sees a lost `leave`, a lost connection and a stranger at the server, also while nothing runs."""

import asyncio
import copy
from typing import Any

import pytest

from llmgate.config.load import Loaded
from llmgate.config.settings import Settings
from llmgate.core.caller import Caller
from llmgate.core.drift import LASTING_SECONDS
from llmgate.core.events import AlarmCleared, AlarmRaised, Event, Limits
from llmgate.core.gate import Gate
from llmgate.protocols.slot_list import Slot
from llmgate.roster import Roster
from llmgate.selfcheck import LOOK_SECONDS, SelfCheck
from llmgate.upstreams.slots import SlotWatch


class House:
    """A roster of one upstream, whose connections and busy tasks a test says, and its self-check."""

    def __init__(self, **upstream: Any) -> None:
        self.events: list[Event] = []
        self.now = 0.0
        self.asked = 0
        self.tasks: frozenset[tuple[str, int]] | None = None
        settings = Settings.model_validate(
            {"upstreams": {"a": {"url": "http://127.0.0.1:1", "max_concurrent": 2, "release_timeout": 0, **upstream}}}
        )
        self.roster = Roster(Loaded(settings, None), self.on_event, lambda _: None)
        self.connections = self.asides = 0
        self.roster.in_use = lambda _: self.connections  # type: ignore[method-assign]
        self.roster.asides = lambda _: self.asides  # type: ignore[method-assign]
        self.watch = self.roster.lookout.slot_watches["a"]
        for watch in self.roster.lookout.slot_watches.values():
            watch.busy_slots = self.busy_slots  # type: ignore[method-assign]
        self.check = SelfCheck(self.roster, lambda: self.now)

    def on_event(self, event: Event) -> None:
        self.events.append(event)
        self.roster.note(event)

    async def busy_slots(self, *, idle: bool) -> list[Slot] | None:
        assert idle is not bool(self.roster.sent_to("a"))
        self.asked += 1
        if self.tasks is None:
            return None
        return [Slot(is_processing=True, model=model, id_task=task) for model, task in self.tasks]

    async def enter(self, name: str) -> Any:
        return await self.roster.admission.enter("a", Caller(id=name)).__aenter__()

    async def look(self, seconds: float = LASTING_SECONDS + LOOK_SECONDS) -> None:
        """Again and again for so long."""
        end = self.now + seconds
        while self.now <= end:
            await self.check.look("a")
            self.now += LOOK_SECONDS

    @property
    def alarms(self) -> dict[Any, str]:
        return self.roster.admission.gate("a").statistics().alarms


async def test_a_leave_that_is_lost_is_an_alarm_until_it_is_mended() -> None:
    house = House()
    lost, served = await house.enter("lost"), await house.enter("served")
    house.connections = 1
    await house.look(LASTING_SECONDS - LOOK_SECONDS)
    assert house.alarms == {}
    await house.look(2 * LOOK_SECONDS)
    assert house.alarms == {"drift": "drift: 1 slot taken by requests that have no connection to the server"}
    served.leave("completed")
    lost.leave("upstream_error")
    await house.check.look("a")
    assert house.alarms == {}
    kinds = [type(event) for event in house.events if isinstance(event, (AlarmRaised, AlarmCleared))]
    assert kinds == [AlarmRaised, AlarmCleared]


async def test_what_the_server_does_for_others_is_an_alarm() -> None:
    house = House()
    await house.enter("ours")
    house.connections, house.tasks = 1, frozenset({("m", 1), ("m", 2)})
    await house.look()
    assert "1 request that llmgate did not send" in house.alarms["drift"]


async def test_what_another_upstream_has_at_the_same_server_is_none() -> None:
    house = House()
    await house.enter("ours")
    account = house.roster.admission.gate("a").accounts()["a"]
    house.roster.sent_to = lambda _: {("a", 1): account, ("b", 1): account}  # type: ignore[method-assign]
    house.connections, house.tasks = 1, frozenset({("m", 1), ("m", 2)})
    await house.look()
    assert house.alarms == {}


async def test_nothing_is_kept_of_one_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    house, looked = House(), asyncio.Event()
    await house.enter("ours")
    await house.check.look("a")
    house.check._known["gone"] = house.check._known["a"]

    async def look(_: str) -> None:
        looked.set()

    monkeypatch.setattr("llmgate.selfcheck.LOOK_SECONDS", 0.001)
    house.check.look = look  # type: ignore[method-assign]
    running = asyncio.ensure_future(house.check.run())
    async with asyncio.timeout(30):
        await looked.wait()
    running.cancel()
    assert list(house.check._known) == ["a"]


async def test_in_order_there_is_none() -> None:
    house = House()
    house.tasks = frozenset()
    await house.look()
    place = await house.enter("ours")
    house.connections, house.tasks = 1, frozenset({("m", 1)})
    await house.look()
    place.drain("client_gone", None)
    house.connections = 0
    await house.look()
    assert house.alarms == {}
    house.tasks = frozenset()
    await house.look()
    assert "kept for requests that are over" in house.alarms["drift"]


async def test_an_upstream_that_a_reload_takes_away_meanwhile() -> None:
    house = House()
    ours = await house.enter("ours")

    async def busy(*, idle: bool) -> None:
        z = {"url": "http://127.0.0.1:2", "max_concurrent": 1}
        house.roster.apply(house.roster.prepare(Settings.model_validate({"upstreams": {"z": z}}), {}))
        ours.leave("completed")
        house.roster._drop("a")

    house.watch.busy_slots = busy  # type: ignore[method-assign, assignment]
    await house.check.look("a")
    assert list(house.roster.admission.upstreams()) == ["z"]


@pytest.mark.parametrize("change", ["other server", "renamed", "fewer"])
async def test_what_was_asked_before_a_reload_is_not_held_against_what_is_there_after_it(change: str) -> None:
    """The endpoint's name may be another server's by then."""
    urls = [f"http://127.0.0.1:{port}" for port in (1, 2, 3)]

    def several(*those: str) -> dict[str, Any]:
        return {"release_timeout": 0, "endpoints": [{"url": url, "max_concurrent": 1} for url in those]}

    house = House(url=None, max_concurrent="auto", **several(*urls[:2]))
    new = {
        "other server": {"a": several(urls[2], urls[1])},
        "renamed": {"b": several(*urls)},
        "fewer": {"a": several(urls[0])},
    }
    await house.enter("ours")
    asked = 0

    async def busy(*, idle: bool) -> list[Slot]:
        nonlocal asked
        asked += 1
        if asked == 1:
            house.roster.apply(house.roster.prepare(Settings.model_validate({"upstreams": new[change]}), {}))
        return [Slot(is_processing=True, model="m", id_task=task) for task in range(4)]

    for watch in house.roster.lookout.slot_watches.values():
        watch.busy_slots = busy  # type: ignore[method-assign]
    await house.check.look("a")
    assert not any(watch.has_strangers for watch in house.roster.lookout.slot_watches.values())
    await house.roster.aclose()


async def test_a_fault_in_one_look_is_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    house, looked = House(), asyncio.Event()
    count = 0

    async def look(_: str) -> None:
        nonlocal count
        count += 1
        if count == 1:
            raise ZeroDivisionError
        looked.set()

    monkeypatch.setattr("llmgate.selfcheck.LOOK_SECONDS", 0.001)
    house.check.look = look  # type: ignore[method-assign]
    running = asyncio.ensure_future(house.check.run())
    async with asyncio.timeout(30):
        await looked.wait()
    running.cancel()


async def test_one_that_a_reload_took_away_meanwhile_is_passed_over() -> None:
    house = House()
    house.roster.admission.remove("a")
    await house.check.look("a")
    assert house.events == []


# ---- while nothing of ours is there


async def test_a_connection_that_no_request_has_is_an_alarm_until_it_is_gone() -> None:
    house = House()
    house.connections, house.asides = 3, 2
    await house.look(LASTING_SECONDS - LOOK_SECONDS)
    assert house.alarms == {}
    await house.look(2 * LOOK_SECONDS)
    assert house.alarms == {"drift": "drift: 1 connection to the server in use that no request has"}
    house.connections = 2
    await house.check.look("a")
    assert house.alarms == {}


@pytest.mark.parametrize("told", [True, False], ids=["one task", "many short ones"])
async def test_who_uses_an_idle_gates_server_is_found_in_seconds(told: bool) -> None:
    house = House()
    house.tasks = frozenset()
    await house.look()
    for task in range(9):
        house.tasks = frozenset({("m", 0 if told else task)})
        await house.look(0)
        if house.alarms:
            break
    assert "1 request that llmgate did not send" in house.alarms["drift"]
    house.tasks = frozenset()
    await house.look(0)
    assert house.alarms == {}


async def test_an_idle_server_is_asked_ever_less_often_until_something_goes_on() -> None:
    house = House()
    house.tasks = frozenset()
    await house.look(24 * 3600)
    assert 24 * 6 <= house.asked <= 24 * 6 + 10, "every ten minutes in the end: it may go to sleep between"
    place = await house.enter("ours")
    house.asked = 0
    await house.look()
    assert house.asked >= LASTING_SECONDS / LOOK_SECONDS
    place.leave("completed")
    house.asked = 0
    await house.look(3 * LOOK_SECONDS)
    assert house.asked >= 2


async def test_one_that_is_down_is_not_asked() -> None:
    house = House()
    house.roster.admission.set_endpoint("a", "a", up=False, reason="gone")
    await house.look()
    assert house.asked == 0


async def test_a_stranger_is_noted_at_the_first_look_and_forgotten_when_he_is_gone() -> None:
    house = House()
    ours = await house.enter("ours")
    house.connections, house.tasks = 1, frozenset({("m", 1)})
    await house.check.look("a")
    assert not house.watch.has_strangers
    house.tasks = frozenset({("m", 1), ("m", 2)})
    await house.check.look("a")
    assert house.watch.has_strangers
    ours.leave("completed")
    house.tasks = frozenset({("m", 2)})
    await house.check.look("a")
    assert house.watch.has_strangers
    house.tasks = None
    await house.check.look("a")
    assert house.watch.has_strangers, "of a server that tells nothing this time nothing new is known"
    house.tasks, house.now = frozenset(), 2 * LOOK_SECONDS
    await house.check.look("a")
    assert not house.watch.has_strangers


async def test_who_waits_for_a_strangers_slot_does_not_hide_him() -> None:
    house = House()
    house.tasks = frozenset({("m", 1), ("m", 2)})
    await house.check.look("a")
    assert house.watch.has_strangers
    for name in ("one", "two"):
        await house.enter(name)
        house.watch.held_back += 1
    house.connections = 2  # else it is told of slots without a connection, as nobody waits for so long
    for _ in range(9):
        await house.look(0)
        assert house.watch.has_strangers, "the server is still full"
    assert "2 requests that llmgate did not send" in house.alarms["drift"]
    house.watch.held_back = 0
    await house.look(0)
    assert (house.alarms, house.watch.has_strangers) == ({}, False)


async def test_who_waits_at_another_upstream_with_the_same_server_does_not_hide_him_either() -> None:
    house = House()
    roster, accounts = house.roster, house.roster.admission.gate("a").accounts()
    roster.admission.add(Gate("b", Limits(1), accounts={"b": accounts["a"]}))
    other = roster.lookout.slot_watches["b"] = copy.copy(house.watch)
    await roster.admission.enter("b", Caller(id="waits")).__aenter__()
    other.held_back, house.tasks = 1, frozenset({("m", 1)})
    await house.look(2 * LOOK_SECONDS)
    assert house.watch.has_strangers


async def test_a_stranger_at_one_server_is_not_noted_at_the_others() -> None:
    servers = [{"url": f"http://127.0.0.1:{port}", "max_concurrent": 1} for port in (1, 2, 3)]
    house = House(url=None, max_concurrent=3, endpoints=servers)
    one, two, three = house.roster.lookout.slot_watches.values()
    busy: dict[SlotWatch, int | None] = {one: 0, two: 1, three: None}

    def tell(watch: SlotWatch) -> Any:
        async def busy_slots(*, idle: bool) -> list[Slot] | None:
            count = busy[watch]
            return None if count is None else [Slot(is_processing=True)] * count

        return busy_slots

    for watch in busy:
        watch.busy_slots = tell(watch)  # type: ignore[method-assign]
    await house.look(0)
    assert [watch.has_strangers for watch in busy] == [False, True, False], "one that tells nothing hides no other"
    await house.enter("ours")
    await house.look(0)
    assert [watch.has_strangers for watch in busy] == [False, True, False], "ours is at another server"


async def test_what_ended_while_the_server_was_asked_is_no_stranger() -> None:
    house = House()
    place = await house.enter("ours")

    async def busy(*, idle: bool) -> list[Slot]:
        nonlocal place
        place.leave("completed")
        place = await house.enter("next")
        return [Slot(is_processing=True), Slot(is_processing=True)]

    house.watch.busy_slots = busy  # type: ignore[method-assign]
    house.connections = 1
    await house.look()
    assert (house.alarms, house.watch.has_strangers) == ({}, False)
