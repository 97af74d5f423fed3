"""F23 over the wire: a slot falls free just as the wait for it ends; what the client saw is what the server saw."""

import asyncio
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from gateprocess import GateProcess
from hands import ANSWER, START, Hands, Turn
from rawclient import Client, CutOff, name_of

WAIT_SECONDS = 0.006
NEARER_SECONDS = 0.0005


async def free_about_then(turn: Turn, at: float, dice: random.Random) -> None:
    """The running one ends within a millisecond of that moment."""
    await asyncio.sleep(at + dice.uniform(-0.001, 0.001) - time.monotonic())
    await turn.complete()


async def outcome_of(client: Client, hands: Hands, *, stream: bool) -> str:
    """Of one that waits: "served" when it came to the server, where it is answered."""
    came = asyncio.ensure_future(hands.turn())
    told = asyncio.ensure_future(client.body())
    await asyncio.wait([came, told], return_when=asyncio.FIRST_COMPLETED)
    if not came.done():
        came.cancel()
        assert b"(QUEUE_TIMEOUT)" in await told
        return "queue_timeout"
    await (await came).complete()
    body = await told
    assert b"QUEUE_TIMEOUT" not in body
    assert body.endswith(ANSWER) if stream else (await client.head()).status == 200
    return "served"


@pytest.mark.parametrize("rounds", [150, pytest.param(2000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
async def test_f23_a_wait_that_ends_as_a_slot_falls_free_is_one_of_both(
    gate: GateProcess, hands: Hands, rounds: int
) -> None:
    dice = random.Random(rounds)
    ends: Counter[str] = Counter()
    later = 0.001
    before = Counter(request["outcome"] for request in gate.requests("done") if request["session"] == f"23-{rounds}")
    for _ in range(rounds):
        holder = await gate.ask("one")
        turn = await hands.turn()
        stream = dice.random() < 0.7
        headers = {"llmgate-max-wait": f"{WAIT_SECONDS:g}", "llmgate-session": f"23-{rounds}"}
        asked = time.monotonic()
        waiter = await gate.ask("one", stream=stream, headers=headers)
        freeing = asyncio.ensure_future(free_about_then(turn, asked + WAIT_SECONDS + later, dice))
        outcome = await outcome_of(waiter, hands, stream=stream)
        ends[outcome] += 1
        later += NEARER_SECONDS if outcome == "served" else -NEARER_SECONDS  # however slow the machine is
        await freeing
        assert await holder.body() == ANSWER
        for client in (holder, waiter):
            client.fin()
    await gate.wait(gate.is_idle)
    assert not before
    told = Counter(request["outcome"] for request in gate.requests("done") if request["session"] == f"23-{rounds}")
    assert told == {"queue_timeout": ends["queue_timeout"], "completed": ends["served"]}
    assert len(hands.requests) == rounds + ends["served"]
    assert min(ends.values()) > rounds // 20, "it does not come near the moment"


@pytest.mark.parametrize("seed", range(4))
async def test_f13_f23_a_stop_as_the_wait_ends_and_the_slot_falls_free(folder: Path, seed: int) -> None:
    """SIGTERM, the end of the wait, the free slot and clients that leave, within two milliseconds."""
    dice = random.Random(seed)
    async with Hands() as hands:
        upstream = {"url": hands.url, "models": ["m"], "max_concurrent": 1, "queue_timeout": "300ms"}
        gate = GateProcess(folder, {"upstreams": {"a": upstream}}).start()
        running = await gate.ask("m")
        turn = await hands.turn()
        await turn.begin(START)
        asked = time.monotonic()
        waiting = [await gate.ask("m", stream=number % 2 == 0) for number in range(8)]
        await gate.wait(lambda: have_come(gate) == 8)
        await asyncio.sleep(asked + 0.3 + dice.uniform(-0.002, 0.01) - time.monotonic())
        deeds = [
            lambda: gate.signal(signal.SIGTERM),
            lambda: turn.connection.transport.abort(),
            waiting[0].reset,
            waiting[1].fin,
        ]
        dice.shuffle(deeds)
        for deed in deeds:
            deed()
            if dice.random() < 0.5:
                await asyncio.sleep(0.001)
        for client in waiting[2:]:
            await assert_dismissed_or_timed_out(client)
        assert name_of((await running.frames())[-1]) == "error"
        assert await gate.wait_exit() == 0
        assert hands.untaken <= 6
        gate.assert_no_traceback()


def have_come(gate: GateProcess) -> int:
    """Who waits, and who did until its time was over: a slow machine takes longer than that to look."""
    view = gate.upstream("a")
    return int(view["waiting"] + view["queue_timeout"])


async def assert_dismissed_or_timed_out(client: Client) -> None:
    """One error, and nothing that looks like an answer; who got the slot is cut by the upstream or by the stop."""
    try:
        body = await client.body()
    except CutOff:
        return
    assert any(code in body for code in (b"REFUSED", b"QUEUE_TIMEOUT", b"UPSTREAM_")), body
    assert b"message_stop" not in body
