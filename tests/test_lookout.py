"""Who is down is asked until it is back, who has nothing to do now and then, and the alarms of servers are raised."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest
from virtual_loop import this_loop, turns

from llmgate.admission.base import LOADING_MODEL, NO_CONNECTION
from llmgate.admission.local import LocalAdmission
from llmgate.admission.place import LocalPlace
from llmgate.core.caller import Caller
from llmgate.core.events import AlarmCleared, AlarmRaised, EndpointChanged, Event, Limits, Mode
from llmgate.core.gate import Gate
from llmgate.errors import UpstreamDown, UpstreamFailed, UpstreamTimeout
from llmgate.lookout import FIRST_PAUSE_SECONDS, IDLE_SECONDS, LAST_PAUSE_SECONDS, NO_ANSWER, Lookout
from llmgate.upstreams.answer import Done, OnDone, Timeouts
from llmgate.upstreams.upstream import Upstream
from tests.server.stage import pass_time, play

REFUSED = UpstreamDown("llmgate: no (UPSTREAM_DOWN)")
HANGS = UpstreamTimeout("llmgate: late (UPSTREAM_TIMEOUT)")
LOADING = 503, b'{"error":{"message":"Loading model","code":503}}'
WELL = 200, b'{"status":"ok"}'

Reply = tuple[int, bytes] | Exception | Callable[[], Awaitable[tuple[int, bytes]]]


class Told:
    """The whole answer of a server."""

    headers: list[tuple[bytes, bytes]] = []  # noqa: RUF012
    ended = True

    def __init__(self, status: int, body: bytes) -> None:
        self.status, self.body = status, body

    async def read(self, limit: int) -> bytes:
        assert len(self.body) <= limit
        return self.body

    def close(self, error: Any = None) -> None: ...
    def start(self, sink: Any) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


class Server:
    """A transport to a server that is as the test says."""

    def __init__(self) -> None:
        self.health: Reply = WELL
        self.busy = 0
        self.page: tuple[int, bytes] | None = None
        """What a proxy in front of it says in its place."""
        self.asked: list[float] = []
        """When, since the test began, its health was asked for."""
        self._begun = this_loop().time()

    async def open(
        self, method: bytes, target: bytes, headers: Any, body: bytes, timeouts: Timeouts, on_done: OnDone
    ) -> Told:
        assert method == b"GET"
        assert None not in (timeouts.connect, timeouts.first_byte, timeouts.total)
        if self.page is not None:
            return Told(*self.page)
        if target == b"/slots":
            return Told(200, json.dumps([{"is_processing": number < self.busy} for number in range(2)]).encode())
        assert target == b"/health"
        self.asked.append(round(this_loop().time() - self._begun, 3))
        reply = self.health
        if isinstance(reply, Exception):
            raise reply
        status, body = reply if isinstance(reply, tuple) else await reply()
        on_done(Done.ENDED, None)
        return Told(status, body)

    async def aclose(self) -> None:
        """Nothing is open."""


class Tower:
    """The lookout over "u", which has two servers, and "v", which has one; every event is told to it."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.back: list[tuple[str, bool]] = []
        """Who came back, and whether the gate knew already."""
        gates = [Gate("u", Limits(0), {"u": 1, "u#2": 1}), Gate("v", Limits(1))]
        self.admission = LocalAdmission(gates, self.on_event, this_loop().time)
        self.servers = {name: Server() for name in ("u", "u#2", "v")}
        upstreams = {name: Upstream(name, server, kind="llama-server") for name, server in self.servers.items()}
        owners = {"u": "u", "u#2": "u", "v": "v"}
        self.lookout = Lookout(upstreams, owners, self.admission, self.on_back)
        for watch in self.lookout.slot_watches.values():
            watch._clock = watch._source._clock = this_loop().time

    def on_event(self, event: Event) -> None:
        self.events.append(event)
        self.lookout.apply(event)

    def on_back(self, name: str) -> None:
        self.back.append((name, self.is_up(name)))

    def is_up(self, name: str) -> bool:
        return self.admission.gate(name[0]).is_up(name)

    def changes(self) -> list[tuple[str, bool, str]]:
        return [(event.endpoint, event.up, event.reason) for event in self.events if isinstance(event, EndpointChanged)]

    def alarms(self) -> list[tuple[str, str, bool]]:
        return [
            (event.upstream, event.alarm, isinstance(event, AlarmRaised))
            for event in self.events
            if isinstance(event, (AlarmRaised, AlarmCleared))
        ]

    async def take(self, upstream: str = "v") -> LocalPlace:
        return await self.admission.enter(upstream, Caller(id="a")).__aenter__()


def on_a_tower(story: Callable[[Tower], Awaitable[None]]) -> Callable[[], None]:
    """A test in virtual time, with a lookout that runs until it is over."""

    async def main() -> None:
        tower = Tower()
        running = asyncio.get_running_loop().create_task(tower.lookout.run())
        await story(tower)
        assert not running.done()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    def test() -> None:
        play(main())

    test.__name__, test.__doc__ = story.__name__, story.__doc__
    return test


# ---- those that are up


@on_a_tower
async def test_one_with_nothing_to_do_is_asked_now_and_then(tower: Tower) -> None:
    await pass_time(IDLE_SECONDS * 2 + 1)
    assert {tuple(server.asked) for server in tower.servers.values()} == {(0, IDLE_SECONDS, IDLE_SECONDS * 2)}
    assert (tower.changes(), tower.back, tower.lookout.detail("u"), tower.lookout.detail("v")) == ([], [], "", "")


@on_a_tower
async def test_one_that_works_is_not_asked(tower: Tower) -> None:
    place = await tower.take()
    tower.servers["v"].health = REFUSED
    await pass_time(100)
    assert (tower.servers["v"].asked, tower.changes()) == ([], [])
    place.leave("completed")
    await pass_time(IDLE_SECONDS)
    assert tower.changes() == [("v", False, NO_CONNECTION)]


@on_a_tower
async def test_what_a_question_says_counts_only_while_nobody_works_there(tower: Tower) -> None:
    """The request will tell: it may be the first one that is taken."""

    async def refuse_late() -> tuple[int, bytes]:
        await pass_time(5)
        raise HANGS

    tower.servers["v"].health = refuse_late
    await turns()
    place = await tower.take()
    await pass_time(10)
    assert tower.changes() == []
    place.leave("completed")


@pytest.mark.parametrize(
    ("health", "away"),
    [
        (WELL, ""),
        ((404, b"File Not Found"), ""),
        ((401, b"no key"), ""),
        ((500, b"oops"), ""),
        ((200, b"loading"), ""),
        (REFUSED, NO_CONNECTION),
        (HANGS, NO_ANSWER),
        (UpstreamFailed("llmgate: broken"), NO_ANSWER),
        (LOADING, LOADING_MODEL),
        ((502, b"the model is loading"), LOADING_MODEL),
        ((502, b"Bad Gateway"), "it says that it is not available"),
        ((503, b""), "it says that it is not available"),
        ((504, b""), "it says that it is not available"),
    ],
)
def test_which_answers_mean_that_it_is_not_there(health: Reply, away: str) -> None:
    @on_a_tower
    async def test(tower: Tower) -> None:
        await turns(20)
        tower.servers["v"].health = health
        await pass_time(IDLE_SECONDS)
        await turns(20)
        if away == NO_ANSWER:
            assert tower.changes() == [], "once is no death"
            await pass_time(FIRST_PAUSE_SECONDS)
            await turns(20)
        assert tower.changes() == ([("v", False, away)] if away else [])
        assert tower.lookout.detail("v").startswith(away)
        assert (tower.admission.gate("v").mode is Mode.HELD) == bool(away)

    test()


def test_a_question_that_goes_wrong_inside_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    @on_a_tower
    async def test(tower: Tower) -> None:
        tower.servers["v"].health = ZeroDivisionError()
        await pass_time(IDLE_SECONDS + 1)
        assert tower.servers["v"].asked == [0, *(LAST_PAUSE_SECONDS * number for number in (1, 2, 3))]
        assert tower.changes() == []
        tower.servers["v"].health = REFUSED
        await pass_time(LAST_PAUSE_SECONDS)
        assert len(tower.changes()) == 1

    test()
    assert {record.getMessage() for record in caplog.records} == {"v could not be looked after"}


@on_a_tower
async def test_one_that_hangs_keeps_nobody_else(tower: Tower) -> None:
    async def hang() -> tuple[int, bytes]:
        await pass_time(1000)
        return WELL

    tower.servers["u"].health = hang
    tower.servers["v"].health = REFUSED
    await pass_time(1)
    tower.servers["v"].health = WELL
    await pass_time(5)
    assert tower.back == [("v", False)]


# ---- those that are down


@on_a_tower
async def test_one_that_is_down_is_asked_soon_then_less_and_less_often(tower: Tower) -> None:
    tower.servers["v"].health = REFUSED
    await pass_time(30)
    asked = tower.servers["v"].asked
    pauses = [round(after - before, 3) for before, after in pairwise(asked)]
    assert pauses[:5] == [FIRST_PAUSE_SECONDS, 1, 2, 4, LAST_PAUSE_SECONDS]
    assert set(pauses[5:]) == {LAST_PAUSE_SECONDS}
    assert tower.changes() == [("v", False, NO_CONNECTION)]


@on_a_tower
async def test_when_it_answers_it_is_back_and_who_waits_goes_on(tower: Tower) -> None:
    tower.servers["v"].health = REFUSED
    await pass_time(1)
    place = await tower.take()
    waiting = asyncio.get_running_loop().create_task(place.wait_admitted())
    await pass_time(10)
    assert not waiting.done()
    tower.servers["v"].health = WELL
    await pass_time(LAST_PAUSE_SECONDS + 1)
    assert waiting.done()
    assert tower.changes() == [("v", False, NO_CONNECTION), ("v", True, "")]
    assert tower.back == [("v", False)], "that it may be another version is known before anybody is sent there"
    place.leave("completed")
    asked = len(tower.servers["v"].asked)
    await pass_time(IDLE_SECONDS - 1)
    assert len(tower.servers["v"].asked) <= asked + 1


@on_a_tower
async def test_one_that_loads_is_down_until_it_has_loaded(tower: Tower) -> None:
    tower.servers["v"].health = REFUSED
    await pass_time(2)
    assert tower.lookout.detail("v").startswith(f"{NO_CONNECTION}, next probe in ")
    tower.servers["v"].health = LOADING
    await pass_time(10)
    assert tower.lookout.detail("v").startswith(f"{LOADING_MODEL}, next probe in ")
    tower.servers["v"].health = WELL
    await pass_time(5.1)
    assert (tower.lookout.detail("v"), tower.is_up("v")) == ("", True)


@on_a_tower
async def test_the_next_question_is_told_in_seconds(tower: Tower) -> None:
    tower.servers["v"].health = REFUSED
    await pass_time(7.6)
    told = []
    for _ in range(5):
        told.append(tower.lookout.detail("v"))
        await pass_time(1)
    assert told == [f"{NO_CONNECTION}, next probe in {seconds}s" for seconds in (5, 4, 3, 2, 1)]


@on_a_tower
async def test_a_request_that_is_refused_begins_the_questions(tower: Tower) -> None:
    place = await tower.take()
    await pass_time(3)
    place.requeue(NO_CONNECTION)
    await pass_time(FIRST_PAUSE_SECONDS * 0.9)
    assert (tower.servers["v"].asked, place.position() is None) == ([], False)
    await pass_time(FIRST_PAUSE_SECONDS * 0.2)
    assert tower.servers["v"].asked == [3 + FIRST_PAUSE_SECONDS]
    assert (tower.back, place.position()) == ([("v", False)], None)
    place.leave("completed")


@on_a_tower
async def test_each_time_it_begins_anew(tower: Tower) -> None:
    place = await tower.take()
    for number in range(1, 4):
        place.requeue(LOADING_MODEL)
        await pass_time(FIRST_PAUSE_SECONDS + 0.01)
        assert len(tower.servers["v"].asked) == number
        assert place.position() is None
    place.leave("completed")


@on_a_tower
async def test_a_request_that_is_answered_ends_them(tower: Tower) -> None:
    first, second = await tower.take("u"), await tower.take("u")
    tower.servers["u"].health = tower.servers["u#2"].health = REFUSED
    first.requeue(NO_CONNECTION)
    await pass_time(2)
    tower.admission.set_endpoint("u", first.endpoint, up=True)
    await pass_time(20)
    assert (tower.back, first.position()) == ([], None)
    asked = len(tower.servers["u"].asked)
    await pass_time(20)
    assert len(tower.servers["u"].asked) == asked
    for place in (first, second):
        place.leave("completed")


@on_a_tower
async def test_of_several_servers_the_soonest_question_is_told(tower: Tower) -> None:
    tower.servers["u"].health = REFUSED
    await pass_time(8)
    assert tower.lookout.detail("u").startswith(NO_CONNECTION)
    assert tower.admission.gate("u").mode is Mode.OPEN
    tower.servers["u#2"].health = LOADING
    await pass_time(IDLE_SECONDS - 8 + 0.2)
    assert tower.lookout.detail("u") == f"{LOADING_MODEL}, next probe in 0s"
    assert tower.admission.gate("u").mode is Mode.HELD
    assert tower.lookout.detail("v") == ""


# ---- alarms


@on_a_tower
async def test_alarms_of_a_server_are_its_upstreams(tower: Tower) -> None:
    tower.servers["v"].busy = 1
    place = await tower.take()
    place.drain("client_gone", None)
    tower.lookout.slot_watches["v"].follow(lambda: place.leave("client_gone"), 1.0)
    await pass_time(3)
    assert tower.alarms() == [("v", "draining", True)]
    assert "release_timeout" in tower.admission.gate("v").statistics().alarms["draining"]
    tower.servers["v"].busy = 0
    await pass_time(1)
    assert tower.alarms() == [("v", "draining", True), ("v", "draining", False)]
    assert tower.admission.gate("v").statistics().draining == 0


@on_a_tower
async def test_a_hidden_wait_is_told(tower: Tower) -> None:
    tower.servers["v"].busy = 2
    place = await tower.take()
    traffic = tower.lookout._endpoints["v"].traffic
    traffic.sent("a", this_loop().time())
    await pass_time(3)
    assert tower.alarms() == [("v", "hidden_wait", True)]
    traffic.over("a")
    place.leave("completed")
    await pass_time(3)
    assert tower.alarms() == [("v", "hidden_wait", True), ("v", "hidden_wait", False)]


@on_a_tower
async def test_an_alarm_lasts_while_one_of_the_servers_has_it(tower: Tower) -> None:
    watches = tower.lookout.slot_watches
    for name, overdue in (("u", True), ("u#2", True), ("v", True), ("u", False), ("v", False)):
        watches[name]._note_overdue(overdue)
    assert tower.alarms() == [("u", "draining", True), ("v", "draining", True), ("v", "draining", False)]
    watches["u#2"]._note_overdue(False)
    assert tower.alarms()[3:] == [("u", "draining", False)]


@on_a_tower
async def test_a_server_that_takes_no_connection_while_one_drains_is_down_before_its_slot_is_free(
    tower: Tower,
) -> None:
    await turns(20)
    place = await tower.take()
    next_one = await tower.take()
    tower.servers["v"].health = REFUSED
    tower.lookout._endpoints["v"].speech.kind = "vllm"
    place.drain("upstream_error", 60.0)
    tower.lookout.slot_watches["v"].knock(lambda: place.leave("upstream_error"))
    await pass_time(0.1)
    assert tower.changes() == [("v", False, NO_CONNECTION)]
    position = next_one.position()
    assert position is not None
    assert position.state == "upstream_down"
    next_one.leave("abandoned")


@on_a_tower
async def test_one_behind_a_proxy_that_dies_while_one_drains_is_down_before_its_slot_is_free(tower: Tower) -> None:
    """Else every waiter would be sent to the proxy, to be told that there is nobody."""
    await turns(20)
    place = await tower.take()
    next_one = await tower.take()
    tower.servers["v"].page = 502, b"<html>Bad Gateway</html>"
    place.drain("upstream_error", None)
    tower.lookout.slot_watches["v"].follow(lambda: place.leave("upstream_error"), 60.0)
    await pass_time(0.1)
    assert tower.changes() == [("v", False, NO_CONNECTION)]
    position = next_one.position()
    assert position is not None
    assert position.state == "upstream_down"
    next_one.leave("abandoned")


@on_a_tower
async def test_one_that_is_back_is_asked_for_its_slots_again(tower: Tower) -> None:
    watch = tower.lookout.slot_watches["v"]
    watch._source._refused_until = this_loop().time() + 1000
    tower.servers["v"].health = REFUSED
    await pass_time(1)
    assert not watch.is_source
    tower.servers["v"].health = WELL
    await pass_time(5)
    assert watch.is_source


# ---- after a reload


@on_a_tower
async def test_other_servers_are_looked_after_and_those_that_stay_as_before(tower: Tower) -> None:
    watch = tower.lookout.slot_watches["v"]
    await pass_time(1)
    fresh = Server()
    endpoints = {"v": tower.lookout._endpoints["v"], "u": Upstream("u", fresh)}
    tower.admission.set_endpoints("u", {"u": 1}, kept={}, holds=True)
    tower.lookout.replace(endpoints, {"u": "u", "v": "v"}, {"v": "v"})
    assert tower.lookout.slot_watches.keys() == {"u", "v"}
    assert tower.lookout.slot_watches["v"] is watch
    before = [len(server.asked) for server in tower.servers.values()]
    await pass_time(IDLE_SECONDS + 1)
    assert len(fresh.asked) == 2
    assert [len(server.asked) - was for server, was in zip(tower.servers.values(), before, strict=True)] == [0, 0, 1]


@on_a_tower
async def test_a_slot_that_drains_at_a_server_that_is_gone_comes_back_by_its_word(tower: Tower) -> None:
    place, server = await tower.take(), tower.servers["v"]
    server.busy = 1
    place.drain("client_gone", None)
    tower.lookout.slot_watches["v"].follow(lambda: place.leave("client_gone"), 60.0)
    await pass_time(1)
    fresh = Server()
    tower.admission.set_endpoints("v", {"v": 0}, kept={}, holds=True)
    endpoints = {**tower.lookout._endpoints, "v": Upstream("v", fresh)}
    tower.lookout.replace(endpoints, {"u": "u", "u#2": "u", "v": "v"}, {"u": "u", "u#2": "u"})
    await pass_time(1)
    assert tower.admission.gate("v").statistics().draining == 1
    server.busy = 0
    await pass_time(1)
    assert tower.admission.gate("v").statistics().draining == 0
    server.busy = 2
    asked = tower.lookout._tasks.keys()
    assert asked == {"u", "u#2", "v"}


@on_a_tower
async def test_one_that_is_down_is_waited_for_with_its_new_settings(tower: Tower) -> None:
    tower.admission.set_endpoint("v", "v", up=False, reason="gone")
    fresh = Server()
    endpoints = {**tower.lookout._endpoints, "v": Upstream("v", fresh)}
    tower.lookout.replace(endpoints, {"u": "u", "u#2": "u", "v": "v"}, {"u": "u", "u#2": "u", "v": "v"})
    assert tower.lookout.detail("v").startswith("gone, next probe in")
    await pass_time(FIRST_PAUSE_SECONDS + 0.1)
    assert tower.is_up("v")
    assert tower.back == [("v", False)]


@on_a_tower
async def test_one_that_was_well_is_still_one_whose_silence_is_held_against_it(tower: Tower) -> None:
    await pass_time(1)
    silent, stranger = Server(), Server()
    silent.health = stranger.health = HANGS
    endpoints = {"u": Upstream("u", stranger), "v": Upstream("v", silent)}
    tower.admission.set_endpoints("u", {"u": 1}, kept={}, holds=True)
    tower.lookout.replace(endpoints, {"u": "u", "v": "v"}, {"v": "v"})
    await pass_time(2)
    assert (tower.is_up("v"), tower.is_up("u")) == (False, True)
    assert tower.lookout.detail("v").startswith(NO_ANSWER)


@on_a_tower
async def test_an_alarm_of_a_slot_that_drains_goes_with_an_upstream_that_is_called_otherwise(tower: Tower) -> None:
    place, server = await tower.take(), tower.servers["v"]
    server.busy = 1
    place.drain("client_gone", None)
    tower.lookout.slot_watches["v"].follow(lambda: place.leave("client_gone"), 0.5)
    await pass_time(1)
    assert "draining" in tower.admission.gate("v").statistics().alarms
    tower.admission.rename("v", "w")
    tower.lookout.rename({"v": "w"})
    endpoints = {"u": tower.lookout._endpoints["u"], "w": Upstream("w", Server())}
    tower.lookout.replace(endpoints, {"u": "u", "w": "w"}, {"u": "u", "w": "v"})
    tower.admission.rename("w", "x")
    tower.lookout.rename({"w": "x"})
    await pass_time(1)
    assert "draining" in tower.admission.gate("x").statistics().alarms
    server.busy = 0
    await pass_time(1)
    assert tower.admission.gate("x").statistics().alarms == {}
    assert not tower.lookout._gone
