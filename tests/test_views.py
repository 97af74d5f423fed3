"""What an operator sees: order, positions and estimates of those who wait, and what is wrong with a server."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from virtual_loop import run, this_loop

from llmgate.adminapi import UpstreamView
from llmgate.config.load import Loaded
from llmgate.config.settings import Settings
from llmgate.core.caller import Caller
from llmgate.core.eta import ENOUGH
from llmgate.core.events import Event
from llmgate.roster import LAST_WORD_SECONDS, Roster
from llmgate.telemetry.ledger import Ledger
from llmgate.views import Views

if TYPE_CHECKING:
    from llmgate.admission.place import LocalPlace

UPSTREAM = {"url": "http://127.0.0.1:1", "max_concurrent": 1, "release_timeout": 0}


class House:
    """A roster of upstreams a and b, with one slot each, and its views."""

    def __init__(self) -> None:
        settings = Settings.model_validate({"upstreams": {"b": UPSTREAM, "a": UPSTREAM}})
        self.ledger = Ledger(100)
        self.roster = Roster(Loaded(settings, None), self.on_event, lambda _: None)
        self.views = Views(self.roster, self.ledger)
        self.watch: Callable[[Event], None] = lambda _: None

    def on_event(self, event: Event) -> None:
        self.watch(event)
        self.roster.note(event)
        self.ledger.apply(event)

    async def enter(self, name: str, upstream: str = "a") -> "LocalPlace":
        return await self.roster.admission.enter(upstream, Caller(id=name)).__aenter__()

    async def live_a_little(self) -> None:
        """Some requests have had the slot of a for 10 s each."""
        for number in range(ENOUGH):
            place = await self.enter(f"past {number}")
            await asyncio.sleep(10)
            place.leave("completed")


@pytest.fixture
def in_house(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[House], Any]], None]:
    """Runs a test in a virtual loop, whose time is everybody's."""

    def play(main: Callable[[House], Any]) -> None:
        async def inside() -> None:
            monkeypatch.setattr("time.monotonic", this_loop().time)
            house = House()
            for desk in house.roster.admission._desks.values():
                desk.clock = this_loop().time
            await main(house)
            house.roster.admission.stop()

        run(inside())

    return play


def test_requests_come_in_dispatch_order_with_their_estimates(in_house: Any) -> None:
    async def main(house: House) -> None:
        await house.live_a_little()
        await house.enter("b runs", "b")
        await house.enter("a runs")
        for name in ("first", "second"):
            await house.enter(name)
        await house.enter("b waits", "b")
        await asyncio.sleep(4)
        live = house.views.requests(False)
        assert [view.id for view in live] == ["first", "second", "b waits", "a runs", "b runs"]
        assert [view.eta_ms for view in live] == [6000, 16000, None, None, None]
        everybody = house.views.requests(True)
        assert [view.id for view in everybody][5:7] == [f"past {ENOUGH - 1}", f"past {ENOUGH - 2}"]

    in_house(main)


def test_upstreams_come_in_the_order_of_the_settings_and_tell_the_starts(in_house: Any) -> None:
    async def main(house: House) -> None:
        await house.live_a_little()
        await house.enter("runs")
        assert house.views.upstream("a").starts_ms == []
        for name in ("first", "second"):
            await house.enter(name)
        await asyncio.sleep(4)
        b, a = house.views.upstreams()
        assert (b.name, b.starts_ms, b.eta_ms(1, 0)) == ("b", [], None)
        now_ms = round(this_loop().time() * 1000)
        assert [start - now_ms for start in a.starts_ms] == [6000, 16000]
        assert [a.eta_ms(position, now_ms) for position in (1, 2, 3)] == [6000, 16000, 26000]
        assert a.eta_ms(1, now_ms + 9000) == 0
        assert a.oldest_arrived_ms == now_ms - 4000

    in_house(main)


def test_the_view_tells_the_starts_it_has_and_the_pace_behind_them() -> None:
    view = UpstreamView(name="a", state="full", url="u", max_concurrent=2, starts_ms=[100, 300], pace_us=150_500)
    assert [view.eta_ms(position, 50) for position in (1, 2, 3, 4)] == [50, 250, 400, 551]


def test_one_that_comes_back_is_looked_for_while_a_reload_is_put_in_force(in_house: Any) -> None:
    """Another one is renamed by the same reload, before its gate is there again."""

    def of(**ports: int) -> Settings:
        upstreams = {name: {**UPSTREAM, "url": f"http://127.0.0.1:{port}"} for name, port in ports.items()}
        return Settings.model_validate({"upstreams": upstreams})

    async def main(house: House) -> None:
        found: list[tuple[str, bool]] = []

        def on_event(event: Event) -> None:
            found.append((type(event).__name__, house.views.find_upstream("a") is not None))

        house.roster.apply(house.roster.prepare(of(b=2), {}))
        await asyncio.sleep(10 * LAST_WORD_SECONDS)
        assert list(house.roster.admission.upstreams()) == ["b"]
        house.watch = on_event
        house.roster.apply(house.roster.prepare(of(a=3, c=2), {}))
        assert found[0] == ("UpstreamRenamed", False)
        assert house.views.find_upstream("a") is not None

    in_house(main)


def test_one_that_a_reload_took_away_is_shown_as_leaving(in_house: Any) -> None:
    async def main(house: House) -> None:
        await house.enter("runs")
        assert not house.views.upstream("a").leaving
        settings = Settings.model_validate({"upstreams": {"b": UPSTREAM}})
        house.roster.apply(house.roster.prepare(settings, {}))
        assert [(view.name, view.leaving) for view in house.views.upstreams()] == [("b", False), ("a", True)]
        house.roster.admission.set_endpoint("a", "a", up=False, reason="it takes no connection")
        assert house.views.upstream("a").detail.startswith("it takes no connection")

    in_house(main)


def test_why_a_server_is_down_is_told(in_house: Any) -> None:
    async def main(house: House) -> None:
        house.roster.admission.set_endpoint("a", "a", up=False, reason="it takes no connection")
        view = house.views.upstream("a")
        assert (view.state, view.detail.partition(",")[0]) == ("down", "it takes no connection")

    in_house(main)


def test_whether_its_queue_is_kept_is_told(in_house: Any) -> None:
    async def main(house: House) -> None:
        assert house.views.upstream("a").holds
        strict = Settings.model_validate({"upstreams": {"b": UPSTREAM, "a": {**UPSTREAM, "on_down": "fail"}}})
        house.roster.apply(house.roster.prepare(strict, {}))
        assert [(view.name, view.holds) for view in house.views.upstreams()] == [("b", True), ("a", False)]

    in_house(main)
