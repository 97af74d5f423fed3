"""Random reloads, orders of operators and answers of servers, at any moment: in the end each max_concurrent is what the
last of them says.
"""

import asyncio
from typing import Any

import msgspec
import virtual_loop
from hypothesis import example, given, settings
from hypothesis import strategies as st

from llmgate import discovery as discovery_module
from llmgate.config.load import Loaded
from llmgate.config.settings import Settings, UpstreamSettings
from llmgate.errors import UpstreamDown
from llmgate.fleet import endpoint_names
from llmgate.roster import Roster
from llmgate.server.admin_route import Conflict
from llmgate.upstreams.upstream import Upstream

URLS = [f"http://127.0.0.1:{port}" for port in (1, 2, 3)]
NAMES = ["a", "b", "c"]
CAP = st.sampled_from([1, 4, "auto", "auto"])
ONE = st.fixed_dictionaries({"url": st.sampled_from(URLS), "max_concurrent": CAP}, optional={"max_queued": st.just(5)})
SEVERAL = st.lists(st.sampled_from(URLS), min_size=1, max_size=2, unique=True).flatmap(
    lambda urls: st.tuples(*[CAP for _ in urls]).map(
        lambda caps: {
            "endpoints": [{"url": url, "max_concurrent": cap} for url, cap in zip(urls, caps, strict=True)],
        }
    )
)
SETTINGS = st.dictionaries(st.sampled_from(NAMES), st.one_of(ONE, ONE, SEVERAL), min_size=1, max_size=2)
SLOTS = st.sampled_from([None, 2, 3, 6, "down"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("tell"), st.tuples(st.sampled_from(URLS), SLOTS, st.sampled_from([0.0, 0.3, 1.0, 5.0]))),
        st.tuples(st.just("set"), st.tuples(st.sampled_from(NAMES), st.sampled_from([2, 5, "auto", "auto"]))),
        st.tuples(st.just("reload"), SETTINGS),
        st.tuples(st.just("wait"), st.sampled_from([0.1, 0.5, 3.0, 100.0])),
    ),
    min_size=2,
    max_size=20,
)


class Machine:
    """A llama-server as it is now; `slots` "down": it takes no connection. It answers after `seconds`."""

    def __init__(self) -> None:
        self.slots: Any = 3
        self.seconds = 0.0

    @property
    def cap(self) -> int:
        return self.slots or 1


class Questions:
    """In place of Probe."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    async def slots(self) -> int | None:
        told = self.machine.slots
        await asyncio.sleep(self.machine.seconds)
        if told == "down":
            raise UpstreamDown("llmgate: no connection (UPSTREAM_DOWN)")
        return told  # type: ignore[no-any-return]

    async def kind(self) -> str:
        return "llama-server"

    async def messages(self) -> bool:
        return True

    async def models(self, *, needed: bool) -> tuple[()]:
        return ()

    async def cards(self, kind: str, known: Any) -> dict[str, Any]:
        return {}


class Story:
    """Does what is drawn, and knows what must come of it."""

    def __init__(self, start: dict[str, Any]) -> None:
        self.machines = {url: Machine() for url in URLS}
        self.url_of: dict[Upstream, str] = {}
        first = Settings.model_validate({"upstreams": start})
        self.roster = Roster(Loaded(first, None), lambda event: self.roster.note(event), lambda _: None)
        self.orders: dict[str, Any] = {name: it.max_concurrent for name, it in first.upstreams.items()}
        """What max_concurrent is to be, as was said last."""
        self.setting: set[asyncio.Task[None]] = set()
        self.note_servers()

    def note_servers(self) -> None:
        for name, it in self.roster.settings.upstreams.items():
            for endpoint, where in zip(endpoint_names(name, it), it.all_endpoints, strict=True):
                self.url_of[self.roster.servers[endpoint]] = where.url

    def ask(self, upstream: Upstream) -> Questions:
        return Questions(self.machines[self.url_of[upstream]])

    async def step(self, what: str, which: Any) -> None:
        if what == "tell":
            url, slots, seconds = which
            self.machines[url].slots, self.machines[url].seconds = slots, seconds
        elif what == "wait":
            await asyncio.sleep(which)
        elif what == "reload":
            self.reload(Settings.model_validate({"upstreams": which}))
        elif self.is_named(which[0]):
            self.setting.add(asyncio.get_running_loop().create_task(self.order(*which)))
        await asyncio.sleep(0)

    def is_named(self, name: str) -> bool:
        return name in self.roster.settings.upstreams and name not in self.roster.leaving

    def reload(self, new: Settings) -> None:
        before, plan = self.roster.settings.upstreams, self.roster.prepare(new, {})
        orders = self.orders
        self.orders = {name: orders[name] for name in plan.settings.upstreams if name in orders}
        for name, it in new.upstreams.items():
            was = plan.renamed.get(name, name)
            is_as_before = was in before and written(before[was]) == written(it) is not None
            self.orders[name] = orders[was] if is_as_before else it.max_concurrent
        self.roster.apply(plan)
        self.note_servers()

    async def order(self, name: str, cap: Any) -> None:
        """As Operator.set_limits does it."""
        number = cap
        if cap == "auto":
            try:
                number = await self.roster.discovery.follow_slots(name)
            except Conflict:
                return
            assert self.is_named(name)
        else:
            self.roster.discovery.pin(name)
        limits = self.roster.admission.gate(name).limits
        self.roster.admission.set_limits(name, msgspec.structs.replace(limits, max_concurrent=number))
        self.orders[name] = cap

    async def bring_to_an_end(self) -> None:
        for machine in self.machines.values():
            machine.seconds = 0.0
            if machine.slots == "down":
                machine.slots = 2
        await asyncio.sleep(3 * discovery_module.REFRESH_SECONDS)
        for order in self.setting:
            order.result()
        for name, it in self.roster.settings.upstreams.items():
            self.check(name, it)

    def check(self, name: str, upstream: UpstreamSettings) -> None:
        gate = self.roster.admission.gate(name)
        caps = {
            it.url: self.machines[it.url].cap if it.max_concurrent == "auto" else it.max_concurrent
            for it in upstream.all_endpoints
        }
        if upstream.endpoints is None:
            order, url = self.orders[name], upstream.all_endpoints[0].url
            caps = {url: self.machines[url].cap if order == "auto" else order}
            assert (gate.limits.max_concurrent, self.roster.discovery.follows(name)) == (caps[url], order == "auto")
        else:
            there = [it.max_concurrent for it in gate.endpoints().values()]
            assert there == list(caps.values())
        has_fewer = any(self.machines[url].cap < cap for url, cap in caps.items() if self.machines[url].slots)
        assert ("mismatch" in gate.statistics().alarms) is has_fewer


def written(upstream: UpstreamSettings) -> Any:
    """What an operator's order takes the place of; None: each of several has its own."""
    return upstream.max_concurrent if upstream.endpoints is None else None


def one(cap: Any, url: str = URLS[0]) -> dict[str, Any]:
    return {"url": url, "max_concurrent": cap}


def tell(url: str, slots: Any, seconds: float = 0.0) -> tuple[str, Any]:
    return "tell", (url, slots, seconds)


AUTO = "set", ("a", "auto")
DOWN = tell(URLS[0], "down")
DROPPED = ("reload", {"a": one(1), "b": one(1)}), ("wait", 3.0)


@settings(max_examples=150, deadline=None)
@given(SETTINGS, STEPS)
@example({"a": {"endpoints": [one("auto"), one(1, URLS[1])]}}, [("reload", {"a": {"endpoints": [one(4)]}})])
@example({"a": {"endpoints": [one(4)]}}, [("reload", {"a": {"endpoints": [one("auto")]}})])
@example({"a": one(4)}, [DOWN, AUTO, ("reload", {"a": one(4)}), ("wait", 3.0)])
@example({"a": one(4)}, [DOWN, AUTO, ("reload", {"a": one("auto")}), ("wait", 3.0)])
@example({"a": one(4)}, [tell(URLS[0], 6, 1.0), AUTO, ("wait", 0.5), ("reload", {"b": one(4)}), ("wait", 3.0)])
@example({"a": one(4)}, [AUTO, ("wait", 0.1), ("reload", {"a": one(4, URLS[1])}), tell(URLS[1], 2)])
@example({"a": one(4)}, [("wait", 0.1), DOWN, AUTO, ("wait", 3.0)])
@example({"a": one("auto")}, [("wait", 0.1), ("reload", {"a": one(1)})])
@example({"c": one(4)}, [("set", ("c", "auto")), *DROPPED, ("reload", {"c": one(4)})])
def test_in_the_end_it_is_what_was_said_last(start: dict[str, Any], steps: list[tuple[str, Any]]) -> None:
    async def play() -> None:
        story = Story(start)
        discovery_module.Probe = story.ask  # type: ignore[assignment, misc]
        asking = asyncio.get_running_loop().create_task(story.roster.discovery.run())
        for step in steps:
            await story.step(*step)
        await story.bring_to_an_end()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await story.roster.aclose()

    true = discovery_module.Probe
    try:
        virtual_loop.run(play())
    finally:
        discovery_module.Probe = true  # type: ignore[misc]
