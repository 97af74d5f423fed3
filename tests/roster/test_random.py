"""Random reloads with traffic: nobody is lost, nobody loses a place, and no server gets more than its cap."""

import asyncio
from collections import Counter
from typing import Any

import msgspec
import virtual_loop
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgate import roster
from llmgate.config.settings import Settings
from llmgate.core.events import Admitted, Event, Mode, Released, Requeued
from llmgate.fleet import endpoint_names
from tests.test_roster import A, B, C, House, of, several

ONE = st.one_of(
    st.fixed_dictionaries(
        {"url": st.sampled_from([A, B, C]), "max_concurrent": st.sampled_from([1, 1, 1, 2, 0, 3, "auto"])},
        optional={
            "max_queued": st.sampled_from([5, 5, 2, 0]),
            "on_down": st.just("fail"),
            "connect_timeout": st.sampled_from([1, 2]),
        },
    ),
    st.lists(st.sampled_from([A, B, C]), min_size=1, max_size=3, unique=True).flatmap(
        lambda urls: st.sampled_from([1, 2, "auto"]).map(lambda cap: several(*urls, cap=cap))
    ),
)
NAMES = ["a", "b", "c"]
SETTINGS = st.dictionaries(st.sampled_from(NAMES), ONE, min_size=1, max_size=2).map(lambda named: of(**named))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("enter"), st.sampled_from(NAMES)),
        st.tuples(st.just("crowd"), st.integers(1, 4)),
        st.tuples(st.sampled_from(["complete", "abandon", "drain", "free", "requeue"]), st.integers(0, 20)),
        st.tuples(st.just("reload"), SETTINGS),
        st.tuples(st.just("reload"), SETTINGS),
        st.tuples(st.sampled_from(["down", "up"]), st.integers(0, 5)),
        st.tuples(st.just("limit"), st.tuples(st.sampled_from(NAMES), st.integers(0, 3))),
        st.tuples(st.sampled_from(["pause", "resume", "close"]), st.sampled_from(NAMES)),
    ),
    min_size=4,
    max_size=40,
)


class Servers:
    """What is at each server, counted by the server itself: by its URL, whoever sent it."""

    def __init__(self) -> None:
        self.at: dict[str, str] = {}
        """Where each request is."""

    def count(self, url: str) -> int:
        return list(self.at.values()).count(url)


class Story(House):
    """Does what is drawn, and looks after each step whether all is as promised."""

    def __init__(self, start: Settings) -> None:
        self.servers = Servers()
        self.faults: list[str] = []
        super().__init__(start)
        self.named = set(start.upstreams)
        self.positions: dict[str, int] = {}

    def on_event(self, event: Event) -> None:
        super().on_event(event)
        if isinstance(event, Admitted):
            url = self.urls(event.upstream)[event.endpoint]
            self.servers.at[event.caller.id] = url
            most = self.most(url)
            if most and self.servers.count(url) > most:  # an error would only be logged
                self.faults.append(f"I1: {event.caller.id} is one too many at {url}")
        elif isinstance(event, (Released, Requeued)):
            del self.servers.at[event.caller.id]

    def urls(self, upstream: str) -> dict[str, str]:
        settings = self.roster.settings.upstreams[upstream]
        names = endpoint_names(upstream, settings)
        return dict(zip(names, [it.url for it in settings.all_endpoints], strict=True))

    def most(self, url: str) -> int:
        """What all whom the settings name may send there together, or who is left there; 0: no bound."""
        owners = [name for name in self.roster.admission.upstreams() if url in self.urls(name).values()]
        those = [name for name in owners if name not in self.roster.leaving] or owners
        shares = []
        for name in those:
            gate = self.roster.admission.gate(name)
            endpoint = next(it for it, where in self.urls(name).items() if where == url)
            shares.append(gate.endpoints()[endpoint].max_concurrent or gate.limits.max_concurrent)
        return sum(shares) if all(shares) else 0

    async def step(self, what: str, which: Any) -> None:
        if what == "enter":
            if which in self.named:
                await self.enter(which)
        elif what == "crowd":
            for name in [*self.named] * which:
                await self.enter(name)
        elif what == "reload":
            self.reload(which)
            self.named = set(which.upstreams)
        elif what in ("down", "up"):
            self.turn(what == "up", which)
        elif what == "limit":
            self.limit(*which)
        elif what in ("pause", "resume", "close"):
            self.operate(what, which)
        else:
            self.act(what, which)
        await self.turns()
        self.check(requeued=what == "requeue")

    def turn(self, up: bool, which: int) -> None:
        admission = self.roster.admission
        every = [(name, endpoint) for name in admission.upstreams() for endpoint in admission.gate(name).endpoints()]
        name, endpoint = every[which % len(every)]
        admission.set_endpoint(name, endpoint, up=up, reason="" if up else "gone")

    def limit(self, name: str, cap: int) -> None:
        if name in self.roster.admission.upstreams():
            limits = self.roster.admission.gate(name).limits
            self.roster.admission.set_limits(name, msgspec.structs.replace(limits, max_concurrent=cap))

    def operate(self, what: str, name: str) -> None:
        """On one that is leaving, too."""
        admission = self.roster.admission
        if name in admission.upstreams():
            {"pause": admission.pause, "resume": admission.resume, "close": admission.drain}[what](name)

    def act(self, what: str, which: int) -> None:
        state = {"abandon": "waiting", "free": "draining"}.get(what, "running")
        if not (those := self.those(state)):
            return
        place = self.places[those[which % len(those)]]
        if what == "drain":
            place.drain("client_gone", None)
        elif what == "requeue":
            place.requeue("it takes no connection") or place.leave("upstream_down")
        else:
            place.leave("abandoned" if what == "abandon" else "completed")

    def check(self, *, requeued: bool) -> None:
        assert self.faults == []
        for name in self.roster.admission.upstreams():
            gate = self.roster.admission.gate(name)
            line = [ticket.caller.id for ticket in gate.waiting()]
            assert line == sorted(line), "I2: whatever was reloaded, first come first served"
            for position, waiter in enumerate(line, 1):
                assert requeued or position <= self.positions.get(waiter, position), "I7, I9"
                self.positions[waiter] = position
            self.no_slot_is_free(name)
        for name, outcomes in self.outcomes.items():
            assert len(outcomes) == 1, f"I6: {name} ended as {outcomes}"
        live = [name for name in self.places if self.state(name) in ("waiting", "running")]
        assert all(name not in self.outcomes for name in live)
        assert self.named <= set(self.roster.admission.upstreams())

    def no_slot_is_free(self, name: str) -> None:
        gate = self.roster.admission.gate(name)
        now, cap = gate.statistics(), gate.limits.max_concurrent
        urls, first = self.urls(name), set()
        if name in self.named:  # who waits at one that is leaving comes first
            first = {
                url
                for it in self.roster.leaving
                if self.roster.admission.gate(it).depth
                for url in self.urls(it).values()
            }
        free = [
            endpoint
            for endpoint, it in gate.endpoints().items()
            if it.up and not 0 < it.max_concurrent <= it.in_flight and urls[endpoint] not in first
            if not 0 < self.most(urls[endpoint]) <= self.servers.count(urls[endpoint])
        ]
        busy = cap and now.running + now.draining >= cap
        assert not now.waiting or busy or not free or now.mode is Mode.PAUSED, "I3"

    async def bring_to_an_end(self) -> None:
        for name in self.roster.admission.upstreams():
            self.roster.admission.resume(name)
            for endpoint in self.roster.admission.gate(name).endpoints():
                self.roster.admission.set_endpoint(name, endpoint, up=True)
        while live := [*self.those("running"), *self.those("draining")]:
            self.places[live[0]].leave("completed")
            await self.turns()
        assert self.those("waiting") == [], "nobody is lost"
        assert (self.servers.at, self.faults) == ({}, []), "I4"
        await asyncio.sleep(2 * roster.LAST_WORD_SECONDS)
        assert Counter(map(len, self.outcomes.values())) == {1: self.count} or not self.count
        assert set(self.roster.admission.upstreams()) == self.named
        assert self.roster.leaving == frozenset()


@settings(max_examples=150, deadline=None)
@given(SETTINGS, STEPS)
def test_whatever_is_reloaded_nobody_is_lost(start: Settings, steps: list[tuple[str, Any]]) -> None:
    async def tell() -> None:
        story = Story(start)
        for step in steps:
            await story.step(*step)
        await story.bring_to_an_end()
        story.roster.admission.stop()

    virtual_loop.run(tell())
