"""The self-check sees a lost `leave`, and a stranger at the server; it asks nobody while nothing runs."""

import asyncio
from typing import Any

import pytest

from llmgate.config.load import Loaded
from llmgate.config.settings import Settings
from llmgate.core.caller import Caller
from llmgate.core.drift import LASTING_SECONDS
from llmgate.core.events import AlarmCleared, AlarmRaised, Event
from llmgate.roster import Roster
from llmgate.selfcheck import LOOK_SECONDS, SelfCheck


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
        self.connections = 0
        self.roster.in_use = lambda _: self.connections  # type: ignore[method-assign]
        for watch in self.roster.lookout.slot_watches.values():
            watch.busy_tasks = self.busy_tasks  # type: ignore[method-assign]
        self.check = SelfCheck(self.roster, lambda: self.now)

    def on_event(self, event: Event) -> None:
        self.events.append(event)
        self.roster.note(event)

    async def busy_tasks(self) -> frozenset[tuple[str, int]] | None:
        self.asked += 1
        return self.tasks

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


async def test_in_order_there_is_none_and_nobody_is_asked_while_nothing_runs() -> None:
    house = House()
    await house.look()
    assert house.asked == 0
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
    await house.enter("ours")

    async def busy() -> None:
        house.roster.admission.remove("a")

    house.roster.lookout.slot_watches["a"].busy_tasks = busy  # type: ignore[method-assign]
    await house.check.look("a")


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
