"""Whatever an operator does, in whatever order, against clients that come and go: the gate keeps its promises.

Counted from outside: by the server that the requests reach (I1, I5), by the daemon's own account (I2 to I4, I6) and by
the position frames that the clients got (I7).
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateprocess import GateProcess
from hands import Hands, Turn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rawclient import Client, CutOff, positions_of

from llmgate.adminclient import AsyncAdminClient
from llmgate.errors import AdminRefusal

MODEL = "m"
WHICH = st.integers(0, 7)
STEP = st.one_of(
    st.tuples(st.just("ask"), st.booleans()),
    st.tuples(st.just("ask"), st.booleans()),
    st.tuples(st.sampled_from(["answer", "leave", "cancel", "move"]), WHICH),
    st.tuples(st.just("limits"), st.fixed_dictionaries({"max_concurrent": st.integers(1, 3)})),
    st.tuples(st.just("limits"), st.fixed_dictionaries({"max_queued": st.none() | st.integers(0, 4)})),
    st.tuples(st.sampled_from(["pause", "resume", "resume", "drain"]), st.none()),
)


@pytest.fixture(scope="module")
def loop_runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, loop_runner: asyncio.Runner) -> Iterator["Stage"]:
    made = Stage(tmp_path_factory.mktemp("gate"))
    loop_runner.run(made.open())
    yield made
    loop_runner.run(made.close())


class Stage:
    """A daemon before one server that the test answers by hand, and what was seen of one schedule."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.cap = 1
        self.clients: list[Client] = []
        self.turns: list[Turn] = []
        self.seen = 0
        """Requests that reached the server."""

    async def open(self) -> None:
        self.hands = Hands()
        await self.hands.__aenter__()
        upstream = {"url": f"http://127.0.0.1:{self.hands.port}", "models": [MODEL], "max_concurrent": 1}
        settings = {"admin": {"history": 5000}, "upstreams": {"a": {**upstream, "release_timeout": "5ms"}}}
        self.gate = GateProcess(self._folder, settings)
        await asyncio.to_thread(self.gate.start)
        self.admin = AsyncAdminClient(self.gate.socket)

    async def close(self) -> None:
        await Client.close_all()
        await self.gate.wait(self.gate.is_idle)
        await asyncio.to_thread(self.gate.stop)
        await self.hands.__aexit__(None, None, None)

    async def do(self, what: str, how: Any) -> None:
        """One step; what cannot be done now is refused, and changes nothing."""
        try:
            match what:
                case "ask":
                    self.clients.append(await self.gate.ask(MODEL, stream=how))
                case "answer" if self.turns:
                    with contextlib.suppress(ConnectionError):
                        await self.turns.pop(how % len(self.turns)).complete()
                case "leave" if self.clients:
                    self.clients[how % len(self.clients)].fin()
                case "cancel" | "move":
                    await self._on_request(what, how)
                case "limits":
                    self.cap = max(self.cap, how.get("max_concurrent", 0))
                    await self.admin.set_limits("a", **how)
                case "pause" | "resume" | "drain":
                    await getattr(self.admin, what)("a")
                case _:
                    pass
        except AdminRefusal as error:
            if error.code not in ("CONFLICT", "UNKNOWN_REQUEST"):
                raise
        await self.look()

    async def _on_request(self, what: str, which: int) -> None:
        live = (await self.admin.requests()).requests
        if live:
            await getattr(self.admin, what)(live[which % len(live)].id)

    async def look(self) -> None:
        """After every step: caps by both counts, and nobody waits whom a free slot could have."""
        await self._take_turns()
        self.turns = [turn for turn in self.turns if turn.connection.is_open]
        view = (await self.admin.upstream("a")).upstream
        assert view.running + view.draining <= self.cap
        if view.state not in ("paused", "down") and view.running + view.draining < view.max_concurrent:
            assert view.waiting == 0, "I3"

    async def _take_turns(self) -> None:
        while self.hands.untaken:
            self.turns.append(await self.hands.turn())
            self.seen += 1

    async def settle(self) -> None:
        """Lets all go on, answers everybody, and waits until nobody is there."""
        await self.admin.resume("a")
        await self.admin.set_limits("a", max_concurrent=3, max_queued=None)
        self.cap = 3
        async with asyncio.timeout(60):
            while not await asyncio.to_thread(self.gate.is_idle):
                await self._take_turns()
                for turn in self.turns:
                    with contextlib.suppress(ConnectionError):
                        await turn.complete()
                self.turns.clear()
        for client in self.clients:
            try:
                whole = "content-length" in (await client.head()).headers
                frames = [] if whole else await client.frames()
            except (CutOff, KeyError, AssertionError):
                continue
            positions = [position for position, _ in positions_of(frames)]
            assert all(position >= 1 for position in positions)
        await Client.close_all()
        self.clients.clear()
        await self.admin.set_limits("a", max_concurrent=1)
        self.cap = 1
        await self.check_account()

    async def check_account(self) -> None:
        """I5 and I6: each request has one outcome, and the server saw none that had no slot."""
        done = (await self.admin.ended()).requests
        counts = Counter(view.id for view in done)
        assert set(counts.values()) <= {1}
        assert all(view.outcome for view in done)
        assert self.seen <= sum(view.dispatched_ms is not None for view in done)


@settings(max_examples=40, suppress_health_check=list(HealthCheck), deadline=None)
@given(schedule=st.lists(STEP, min_size=10, max_size=30))
def test_whatever_an_operator_does_the_gate_keeps_its_promises(
    stage: Stage, loop_runner: asyncio.Runner, schedule: list[tuple[str, Any]]
) -> None:
    async def main() -> None:
        for what, how in schedule:
            await stage.do(what, how)
        await stage.settle()

    loop_runner.run(main())
