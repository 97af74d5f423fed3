"""Bytes that come while a request waits: they hide nothing of its client, and none of them runs."""

import asyncio
import os
from collections.abc import Callable

import pytest
from gateprocess import MESSAGES, GateProcess, request_body
from hands import ANSWER, Hands
from rawclient import Client, post

from tests.e2e.front.memory import resident

SECOND = post(MESSAGES, request_body("one", metadata={"user_id": "second"}))
WAYS: dict[str, Callable[[Client], None]] = {"FIN": Client.fin, "RST": Client.reset}
RUNS = 20


@pytest.mark.parametrize("leave", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("segments", [1, 2])
async def test_f05_a_client_that_pipelined_is_noticed_when_it_leaves(
    gate: GateProcess, hands: Hands, segments: int, leave: Callable[[Client], None]
) -> None:
    running = await gate.ask("one")
    turn = await hands.turn()
    first = post(MESSAGES, request_body("one", metadata={"user_id": "first"}))
    for _ in range(RUNS):
        client = await Client.connect(gate.port)
        client.send(first + (SECOND if segments == 1 else b""))
        await client.frame()  # it waits, and is told so
        if segments == 2:
            client.send(SECOND)
        leave(client)
        await gate.wait_waiting("one", 0)
    await turn.complete()
    assert await running.body() == ANSWER
    assert hands.untaken == 0
    assert {request["outcome"] for request in gate.requests("done")[1 : RUNS + 1]} == {"abandoned"}


@pytest.mark.parametrize("segments", [1, 2])
async def test_f05_the_connection_closes_after_the_first_answer(gate: GateProcess, hands: Hands, segments: int) -> None:
    first = post(MESSAGES, request_body("one"))
    client = await Client.connect(gate.port)
    client.send(first + (SECOND if segments == 1 else b""))
    turn = await hands.turn()
    if segments == 2:
        client.send(SECOND)
    await turn.begin()
    await client.frame()
    await turn.end()
    await client.frames()
    assert await client.wait_closed() == b""
    assert hands.untaken == 0


GARBAGE = {
    "a megabyte of anything": os.urandom(1 << 20),
    "a megabyte of one line": b"x" * (1 << 20),
    "a megabyte of requests": SECOND * ((1 << 20) // len(SECOND)),
    "half a request line": b"POST /llm/v1/mess",
    "half a request": SECOND[:-10],
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
async def test_f06_garbage_hides_nothing_and_is_not_kept(gate: GateProcess, hands: Hands, garbage: bytes) -> None:
    running = await gate.ask("one")
    turn = await hands.turn()
    for _ in range(5):  # whatever the first ones make the process keep for good
        await send_garbage(gate, garbage)
    before = resident(gate.pid)
    for _ in range(RUNS):
        await send_garbage(gate, garbage)
    assert resident(gate.pid) - before < 1 << 20
    await turn.complete()
    assert await running.body() == ANSWER
    assert hands.untaken == 0


async def send_garbage(gate: GateProcess, garbage: bytes) -> None:
    client = await gate.ask("one")
    await client.frame()
    client.send(garbage)
    async with asyncio.timeout(30):
        await client._writer.drain()
    client.fin()
    await gate.wait_waiting("one", 0)


@pytest.mark.parametrize("stream", [True, False])
async def test_f03_a_client_that_closes_its_side_only_is_gone(gate: GateProcess, hands: Hands, stream: bool) -> None:
    """It waits no longer, reads no half answer, and its connection is closed."""
    running = await gate.ask("one")
    turn = await hands.turn()
    client = await gate.ask("one", stream=stream)
    await gate.wait_waiting("one", 1)
    client.half_close()
    await gate.wait_waiting("one", 0)
    rest = await client.wait_closed()
    assert b"message_start" not in rest
    assert b"0\r\n\r\n" not in rest
    await turn.complete()
    assert await running.body() == ANSWER
    assert hands.untaken == 0
