"""Who is served when, by the order in which the server saw them; who is told, and how often (F18, F25, F28, F30)."""

import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateprocess import GateProcess
from hands import ANSWER, Hands, Turn, free_port
from rawclient import Client, names_of, positions_of


def name_of_turn(turn: Turn) -> str:
    return str(turn.fields["metadata"]["user_id"])


async def line_up(gate: GateProcess, model: str, names: list[str]) -> list[Client]:
    """One after the other: each is told its position before the next one comes."""
    clients = []
    for name in names:
        clients.append(await gate.ask(model, metadata={"user_id": name}))
        assert len(positions_of([await clients[-1].frame()])) == 1
    return clients


async def occupy(gate: GateProcess, hands: Hands, model: str, slots: int) -> list[tuple[Client, Turn]]:
    return [(await gate.ask(model, metadata={"user_id": "first"}), await hands.turn()) for _ in range(slots)]


@pytest.mark.parametrize("cap", [1, 8])
async def test_f18_two_hundred_waiters_reach_the_server_in_the_order_in_which_they_came(folder: Path, cap: int) -> None:
    async with Hands() as hands:
        upstream = {"url": hands.url, "models": ["m"], "max_concurrent": cap, "kind": "anthropic"}
        with GateProcess(folder, {"upstreams": {"a": upstream}}) as gate:
            running = await occupy(gate, hands, "m", cap)
            names = [str(number) for number in range(200)]
            clients = await line_up(gate, "m", names)
            assert [request["session"] for request in gate.requests("waiting")] == names
            turns = [turn for _, turn in running]
            came = []
            for _ in names:
                await turns.pop(0).complete()
                turns.append(await hands.turn())
                came.append(name_of_turn(turns[-1]))
                assert len(turns) == cap
            assert came == names
            for turn in turns:
                await turn.complete()
            for client in clients:
                frames = await client.frames()
                positions = [position for position, _ in positions_of(frames)]
                assert positions == sorted(set(positions), reverse=True)
                assert b"".join(frames).endswith(ANSWER)


async def test_f25_a_freed_slot_tells_each_of_fifty_waiters_once(gate: GateProcess, hands: Hands) -> None:
    """Who is told its position twice would be told the same again at the next slot."""
    (_, turn), *_ = await occupy(gate, hands, "one", 1)
    waiting = await line_up(gate, "one", [str(number) for number in range(50)])
    for freed in range(1, 4):
        await turn.complete()
        turn = await hands.turn()
        assert (name_of_turn(turn), hands.untaken) == (str(freed - 1), 0)
        for number, client in enumerate(waiting[freed:], 1):
            assert positions_of([await client.frame()]) == [(number, len(waiting) - freed)]
    for client in waiting[3:]:
        client.fin()
    await gate.wait_waiting("one", 0)
    await turn.complete()
    await gate.wait(gate.is_idle)
    assert len(hands.requests) == 4


@pytest.mark.parametrize("before", [0, 40, 100])
async def test_f30_one_beside_a_flood_is_served_in_its_turn(gate: GateProcess, hands: Hands, before: int) -> None:
    """First come, first served: whoever sends one waits for those who came before it, and for nobody else."""
    (_, turn), *_ = await occupy(gate, hands, "one", 1)
    flood = [await gate.ask("one", stream=False, metadata={"user_id": "flood"}) for _ in range(before)]
    await gate.wait_waiting("one", before)
    (lone,) = await line_up(gate, "one", ["lone"])
    flood += [await gate.ask("one", stream=False, metadata={"user_id": "flood"}) for _ in range(100 - before)]
    await gate.wait_waiting("one", 101)
    for _ in range(before + 1):
        await turn.complete()
        turn = await hands.turn()
    assert name_of_turn(turn) == "lone"
    await turn.complete()
    assert names_of(await lone.frames())[-1] == "message_stop"
    for client in flood:
        client.reset()
    await gate.wait_waiting("one", 0)


# ---- a server that stands still, and another one


class Stopped:
    """A simulated server in a process of its own, which can be made to stand still."""

    def __init__(self) -> None:
        self.port = free_port()
        command = [sys.executable, "-m", "llmgate", "simulate", "--port", str(self.port), "--slots", "9"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stand_still(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def stopped() -> Iterator[Stopped]:
    server = Stopped()
    yield server
    server.end()


async def seconds_of_one(gate: GateProcess, hands: Hands) -> float:
    """Seconds that a request without waiting takes."""
    began = time.monotonic()
    client = await gate.ask("b")
    await (await hands.turn()).complete()
    assert await client.body() == ANSWER
    return time.monotonic() - began


async def medians_of(gates: list[GateProcess], hands: Hands, rounds: int = 60) -> list[float]:
    """Seconds that a request without waiting takes at each, in turns: what else the machine does weighs on all."""
    took = [[await seconds_of_one(gate, hands) for gate in gates] for _ in range(rounds)]
    return [statistics.median(times) for times in zip(*took, strict=True)]


async def test_f28_a_server_that_stands_still_holds_up_its_own_queue_only(folder: Path, stopped: Stopped) -> None:
    """Two models share its one cap; the other upstream is as quick as at a daemon that has no such server."""
    (folder / "free").mkdir()
    async with Hands() as hands:
        upstreams: dict[str, Any] = {
            "a": {"url": stopped.url, "models": ["a1", "a2"], "max_concurrent": 2, "max_queued": 30, "kind": "openai"},
            "b": {"url": hands.url, "models": ["b"], "max_concurrent": 1, "kind": "anthropic"},
        }
        only_b = {"upstreams": {"b": upstreams["b"]}}
        with GateProcess(folder, {"upstreams": upstreams}) as gate, GateProcess(folder / "free", only_b) as free:
            await gate.wait(gate.has_found_its_servers)
            first = await gate.ask("a1")
            assert names_of(await first.frames())[-1] == "message_stop"
            stopped.stand_still()
            running = [await gate.ask(model) for model in ("a1", "a2")]
            await gate.wait(lambda: gate.upstream("a")["running"] == 2)
            waiting = [await gate.ask(("a1", "a2")[number % 2]) for number in range(30)]
            await gate.wait_waiting("a", 30)
            assert (await (await gate.ask("a2")).head()).status == 503
            beside, alone = await medians_of([gate, free], hands)
            assert gate.upstream("a")["waiting"] == 30
            assert beside < 5 * alone + 0.02
            for client in [*running, *waiting]:
                client.reset()
            await gate.wait(lambda: gate.upstream("a")["waiting"] == 0)
            stopped.end()
