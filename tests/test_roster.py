"""The upstreams through every reload: who is the same server, who leaves, and which limits stay."""

import asyncio
import gc
import weakref
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from llmgate import roster
from llmgate.config.load import Loaded
from llmgate.config.settings import Settings
from llmgate.core.caller import Caller
from llmgate.core.events import Event, Mode
from llmgate.errors import GateError, QueueError
from llmgate.roster import Roster, same_servers
from llmgate.telemetry.feed import outcome_of

if TYPE_CHECKING:
    from llmgate.admission.place import LocalPlace

A, B, C = (f"http://127.0.0.1:{port}" for port in (1, 2, 3))


def of(**upstreams: dict[str, Any]) -> Settings:
    plain = {
        name: {"release_timeout": 0, **({} if "endpoints" in one else {"url": A, "max_concurrent": 1}), **one}
        for name, one in upstreams.items()
    }
    return Settings.model_validate({"upstreams": plain})


def several(*urls: str, cap: Any = 1) -> dict[str, Any]:
    return {"endpoints": [{"url": url, "max_concurrent": cap} for url in urls]}


class House:
    """A roster whose servers nobody asks, and the requests that are there."""

    def __init__(self, start: Settings) -> None:
        self.events: list[Event] = []
        self.outcomes: dict[str, list[str]] = {}
        self.places: dict[str, LocalPlace] = {}
        self.owner: dict[str, str] = {}
        self.roster = Roster(Loaded(start, None), self.on_event, lambda _: None)
        self.count = 0

    def on_event(self, event: Event) -> None:
        self.events.append(event)
        self.roster.note(event)
        if (outcome := outcome_of(event)) is not None:
            self.outcomes.setdefault(event.caller.id, []).append(outcome)  # type: ignore[attr-defined]

    def reload(self, new: Settings, **keys: Any) -> None:
        self.roster.apply(self.roster.prepare(new, keys))

    async def enter(self, upstream: str) -> str:
        self.count += 1
        name = f"r{self.count:04}"
        try:
            place = self.roster.admission.enter(upstream, Caller(id=name))
            await place.__aenter__()
        except QueueError:
            pass
        else:
            self.places[name], self.owner[name] = place, upstream
        return name

    async def turns(self) -> None:
        """What one upstream gives back reaches the others in the next turn of the loop."""
        for _ in range(3):
            await asyncio.sleep(0)

    async def wait_dropped(self, name: str) -> None:
        async with asyncio.timeout(30):
            while name in self.roster.admission.upstreams():  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    def state(self, name: str) -> str:
        return self.places[name]._taken().state.value

    def those(self, state: str) -> list[str]:
        return [name for name in self.places if self.state(name) == state]


@pytest.fixture(autouse=True)
def _no_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roster, "LAST_WORD_SECONDS", 0.001)


# ---- which server is the same


def test_a_server_is_the_same_where_its_url_is() -> None:
    old = of(a=several(A, B)).upstreams["a"]
    assert same_servers("a", of(a=several(B, C)).upstreams["a"], "a", old) == {"a": "a#2"}
    assert same_servers("a", of(a={"url": B}).upstreams["a"], "a", old) == {"a": "a#2"}
    assert same_servers("b", of(b={"url": A}).upstreams["b"], "a", old) == {"b": "a"}
    assert same_servers("a", of(a={"url": C}).upstreams["a"], "a", old) == {}


LIMITS_ONLY = [{"max_concurrent": 4}, {"max_queued": 2}, {"on_down": "fail"}, {"models": ["x"]}, {"stall_alarm": 5}]


@pytest.mark.parametrize("changed", LIMITS_ONLY)
async def test_other_limits_leave_the_servers_alone(changed: dict[str, Any]) -> None:
    house = House(of(a={}))
    before = house.roster.servers["a"]
    house.reload(of(a=changed))
    assert house.roster.servers["a"] is before


@pytest.mark.parametrize(
    "changed",
    [{"connect_timeout": 9}, {"headers": {"x": "y"}}, {"transport": "httpx"}, {"forward_auth": True}, {"kind": "vllm"}],
)
async def test_other_ways_to_ask_make_a_new_one_that_knows_what_was_known(changed: dict[str, Any]) -> None:
    house = House(of(a={}))
    before = house.roster.servers["a"]
    before.speech.messages = True
    house.reload(of(a=changed))
    after = house.roster.servers["a"]
    assert after is not before
    assert after.traffic is before.traffic
    assert after.speech.messages is (None if "kind" in changed else True)


async def test_servers_that_were_replaced_are_forgotten() -> None:
    house = House(of(a={}))
    replaced = []
    for number in range(5):
        replaced.append(weakref.ref(house.roster.servers["a"]))
        house.reload(of(a={"url": (A, B)[number % 2], "first_byte_timeout": number}))
    gc.collect()
    assert [server() is None for server in replaced[:-1]] == [True] * 4


async def test_every_setting_of_an_upstream_is_either_the_gates_or_the_servers() -> None:
    """A new key that nobody thought of makes a new server: the safe side."""
    samples = {"url": B, "total_timeout": 7, "idle_timeout": 7, "first_byte_timeout": 7, "reasoning_history": "drop"}
    for key, value in samples.items():
        house = House(of(a={}))
        before = house.roster.servers["a"]
        house.reload(of(a={key: value}))
        assert (house.roster.servers["a"] is before) == (key == "reasoning_history"), key


async def test_a_server_keeps_its_count_under_another_name() -> None:
    house = House(of(a=several(A, B)))
    for _ in range(2):
        await house.enter("a")
    waiting = await house.enter("a")
    house.roster.admission.set_endpoint("a", "a#2", up=False, reason="gone")
    house.reload(of(a=several(B, A)))
    now = house.roster.admission.gate("a").endpoints()
    assert [(it.in_flight, it.up) for it in now.values()] == [(1, False), (1, True)]
    assert house.state(waiting) == "waiting", "I1: neither has room"


async def test_who_runs_at_a_server_that_is_gone_counts_against_the_cap_of_all() -> None:
    house = House(of(a={"url": A, "max_concurrent": 2}))
    first, second = await house.enter("a"), await house.enter("a")
    third = await house.enter("a")
    house.reload(of(a={"url": B, "max_concurrent": 2}))
    assert house.state(third) == "waiting"
    house.places[first].leave("completed")
    assert house.state(third) == "running"
    assert house.places[third].endpoint == "a"
    assert house.places[second].endpoint == ""
    house.places[second].note_up()
    assert house.places[second].requeue("it takes no connection")
    assert house.roster.admission.gate("a").endpoints()["a"].up, "what the old one did says nothing of the new one"


async def test_auto_stays_what_it_was_until_the_server_tells() -> None:
    house = House(of(a={"max_concurrent": "auto"}))
    house.roster.discovery._note_slots(house.roster.discovery._servers["a"], 4)
    for changed in ({"max_queued": 3}, {"connect_timeout": 2}):
        house.reload(of(a={"max_concurrent": "auto", **changed}))
        assert house.roster.admission.gate("a").limits.max_concurrent == 4
    house.reload(of(a={"max_concurrent": 2}))
    assert house.roster.admission.gate("a").limits.max_concurrent == 2
    house.reload(of(a={"max_concurrent": "auto"}))
    assert house.roster.admission.gate("a").limits.max_concurrent == 2
    house.roster.discovery._note_slots(house.roster.discovery._servers["a"], 4)
    assert house.roster.admission.gate("a").limits.max_concurrent == 4


async def test_a_mismatch_is_forgotten_with_its_cap() -> None:
    house = House(of(a={"max_concurrent": 4}))
    server = house.roster.discovery._servers["a"]
    house.roster.discovery._note_mismatch(server, 1)
    assert "mismatch" in house.roster.admission.gate("a").statistics().alarms
    house.reload(of(a={"max_concurrent": "auto"}))
    assert house.roster.admission.gate("a").statistics().alarms == {}


# ---- who leaves


async def test_a_removed_one_serves_who_waits_and_goes_when_the_last_is_gone() -> None:
    house = House(of(a={"models": ["m"]}, b={"url": B, "models": ["n"]}))
    running, waiting = await house.enter("b"), await house.enter("b")
    house.reload(of(a={"models": ["m"]}))
    assert house.roster.leaving == {"b"}
    with pytest.raises(GateError):
        house.roster.routes.find("n")
    house.places[running].leave("completed")
    await asyncio.sleep(0)
    assert house.state(waiting) == "running"
    house.places[waiting].leave("completed")
    await house.wait_dropped("b")
    assert (house.roster.leaving, list(house.roster.admission.upstreams())) == (frozenset(), ["a"])
    assert list(house.roster.servers) == list(house.roster.lookout.slot_watches) == ["a"]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_where_no_server_is_up_who_waits_is_sent_away(when: str) -> None:
    house = House(of(a={}, b={"url": B}))
    running, waiting = await house.enter("b"), await house.enter("b")
    for moment in ("before", "after"):
        if moment == when:
            house.roster.admission.set_endpoint("b", "b", up=False, reason="gone")
        if moment == "before":
            house.reload(of(a={}))
    await asyncio.sleep(0)
    assert house.outcomes == {waiting: ["refused"]}
    house.places[running].leave("completed")
    await house.wait_dropped("b")


async def test_a_paused_one_that_is_removed_sends_them_away_too() -> None:
    house = House(of(a={}, b={"url": B}))
    house.roster.admission.pause("b")
    waiting = await house.enter("b")
    house.reload(of(a={}))
    assert house.outcomes == {waiting: ["refused"]}


async def test_named_again_it_comes_back_with_everybody() -> None:
    house = House(of(a={}, b={"url": B}))
    running, waiting = await house.enter("b"), await house.enter("b")
    house.reload(of(a={}))
    house.reload(of(a={}, b={"url": B, "max_concurrent": 2}))
    assert house.roster.admission.gate("b").mode is Mode.OPEN
    assert [house.state(name) for name in (running, waiting)] == ["running", "running"]


@pytest.mark.parametrize("how", [("pause",), ("resume",), ("drain",), ("drain", "resume"), ("pause", "resume")])
async def test_no_operator_brings_back_one_that_is_leaving(how: tuple[str, ...]) -> None:
    """Its server is for another one now."""
    house = House(of(a={}, b={"url": B}))
    running, waiting = await house.enter("a"), await house.enter("a")
    house.reload(of(b={}))
    for call in how:
        getattr(house.roster.admission, call)("a")
    late, other = await house.enter("a"), await house.enter("b")
    await house.turns()
    assert house.outcomes == {late: ["refused"]}
    assert [house.state(name) for name in (running, waiting, other)] == ["running", "waiting", "waiting"], "I1"
    house.places[running].leave("completed")
    await house.turns()
    assert [house.state(name) for name in (waiting, other)] == ["running", "waiting"]
    house.places[waiting].leave("completed")
    await house.turns()
    assert house.state(other) == "running"
    await house.wait_dropped("a")


async def test_one_that_nobody_uses_goes_at_once() -> None:
    house = House(of(a={}, b={"url": B}))
    house.reload(of(a={}))
    await house.wait_dropped("b")
    gc.collect()
    assert [account.owners for account in house.roster._accounts._by_server.values()] == [1]


# ---- limits that an operator set


async def test_what_an_operator_set_stays_until_the_settings_say_something_else() -> None:
    house = House(of(a={"max_queued": 5}))
    gate = house.roster.admission.gate("a")
    house.roster.admission.set_limits("a", msgspec.structs.replace(gate.limits, max_concurrent=4, max_queued=9))
    house.reload(of(a={"max_queued": 5, "connect_timeout": 3}, b={"url": B}))
    assert (gate.limits.max_concurrent, gate.limits.max_queued) == (4, 9)
    assert house.roster.overridden == [("a", "max_concurrent", 4, 1), ("a", "max_queued", 9, 5)]
    house.reload(of(a={"max_queued": 6, "queue_timeout": 7}))
    assert (gate.limits.max_concurrent, gate.limits.max_queued, gate.limits.queue_timeout) == (4, 6, 7.0)
    house.reload(of(z={"max_queued": 6, "queue_timeout": 7}))
    assert house.roster.overridden == [("z", "max_concurrent", 4, 1)]
    assert house.roster.renamed == {"a": "z"}
    house.reload(of(z={"max_concurrent": 2, "max_queued": 6, "queue_timeout": 7}))
    assert (gate.limits.max_concurrent, house.roster.overridden) == (2, [])


async def test_of_auto_it_is_told_once_the_server_has_said_its_own() -> None:
    house = House(of(a={"max_concurrent": "auto"}))
    house.roster.discovery.pin("a")
    house.roster.admission.set_limits(
        "a", msgspec.structs.replace(house.roster.admission.gate("a").limits, max_concurrent=4)
    )
    assert house.roster.overridden == []
    house.roster.discovery._note_slots(house.roster.discovery._servers["a"], 2)
    assert house.roster.overridden == [("a", "max_concurrent", 4, 2)]
    house.roster.discovery._note_slots(house.roster.discovery._servers["a"], 4)
    assert house.roster.overridden == [("a", "max_concurrent", 4, 4)], "it stays when theirs changes"


async def test_one_that_leaves_and_comes_back_is_asked_anew_what_it_is() -> None:
    """It may have been started as something else meanwhile."""
    house = House(of(a={}, b={"url": B}))
    await house.enter("a")
    house.roster.discovery._servers["a"].asked = True
    house.reload(of(b={"url": B}))
    house.roster.discovery.ask_again("a")
    house.reload(of(a={}, b={"url": B}))
    assert not house.roster.discovery._servers["a"].asked


async def test_one_server_becomes_several_and_one_again() -> None:
    house = House(of(a={"max_concurrent": "auto"}))
    house.reload(of(a=several(A, B, cap="auto")))
    assert house.roster.admission.gate("a").limits.max_concurrent == 0
    house.reload(of(a={"max_concurrent": "auto"}))
    assert house.roster.admission.gate("a").limits.max_concurrent == 1
