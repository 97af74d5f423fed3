"""More clients than the process has files, or is allowed connections: those inside are served, the others are told."""

import asyncio
from pathlib import Path

import pytest
from gateprocess import GateProcess, allow_many_files
from hands import STOP, Hands, delta
from rawclient import Client, name_of

from llmgate.core.capacity import client_connections
from tests.e2e.front.memory import resident

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
IDLE_BYTES = 40_000
FILES = 64
CLIENTS = client_connections(20_000, FILES)


async def status_of(gate: GateProcess) -> int:
    client = await Client.connect(gate.port)
    client.send(HEALTH)
    status = (await client.head()).status
    client.fin()
    return status


async def wait_served(gate: GateProcess) -> None:
    """A new client is, soon."""
    async with asyncio.timeout(10):
        while await status_of(gate) != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def answered(clients: list[Client]) -> list[Client]:
    return [client for client in clients if client._reader._buffer]


async def test_f75_more_clients_than_files(folder: Path, hands: Hands) -> None:
    """Streams go on, each of the others is told, the log stays short, and the admin socket answers."""
    upstream = {"url": hands.url, "models": ["three"], "max_concurrent": 3}
    server = {"header_timeout": "60s"}
    with GateProcess(folder, {"server": server, "upstreams": {"three": upstream}}, files=FILES) as gate:
        assert "the limit on open files (64) allows no more" in gate.log
        streams = [await gate.ask("three") for _ in range(3)]
        turns = [await hands.turn() for _ in range(3)]
        for turn in turns:
            await turn.begin()
        for stream in streams:
            await stream.until("message_start")
        gate.mark_log()
        crowd = [await Client.connect(gate.port) for _ in range(200)]
        await gate.wait(lambda: len(answered(crowd)) == len(crowd) - (CLIENTS - len(streams)))
        for client in answered(crowd):
            await check_told(client)
        for turn, stream in zip(turns, streams, strict=True):
            await turn.say(delta("still here"))
            assert b"still here" in (await stream.until("content_block_delta"))[-1]
        assert gate.upstream("three")["running"] == 3
        assert await status_of(gate) == 503
        for client in crowd:
            client.fin()
        await wait_served(gate)
        for turn in turns:
            await turn.end(STOP)
        for stream in streams:
            assert name_of((await stream.frames())[-1]) == "message_stop"
        assert len(gate.new_log) <= 3, gate.new_log
        await Client.close_all()


async def check_told(client: Client) -> None:
    """It got a whole answer, which says when to come back."""
    head = await client.head()
    assert (head.status, head.headers["retry-after"], head.headers["connection"]) == (503, "1", "close")
    assert (await client.json())["error"]["code"] == "TOO_MANY_CONNECTIONS"
    assert await client.wait_closed() == b""


async def test_f75_requests_in_a_storm_of_clients_are_all_answered(folder: Path, hands: Hands) -> None:
    """Each of two hundred gets a whole answer, of whatever kind, though all come at once."""
    upstream = {"url": hands.url, "models": ["m"], "max_concurrent": 1}
    with GateProcess(folder, {"upstreams": {"m": upstream}}, files=FILES) as gate:
        for _ in range(3):
            statuses = await asyncio.gather(*(status_of(gate) for _ in range(200)))
            assert set(statuses) == {200, 503}
        assert gate.log.count("max_connections is reached") == 1
        assert "EMFILE" not in gate.log


@pytest.mark.parametrize("count", [500, pytest.param(5000, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
async def test_f82_idle_connections_cost_little_and_one_more_is_refused(folder: Path, count: int) -> None:
    allow_many_files()
    upstream = {"url": "http://127.0.0.1:9", "models": ["m"], "max_concurrent": 1}
    server = {"max_connections": count}
    with GateProcess(folder, {"server": server, "upstreams": {"m": upstream}}) as gate:
        warm = [await ask_once(gate) for _ in range(50)]
        before = resident(gate.pid)
        idle = [await ask_once(gate) for _ in range(count - len(warm))]
        assert (resident(gate.pid) - before) / len(idle) < IDLE_BYTES
        assert await status_of(gate) == 503
        idle[0].fin()
        await wait_served(gate)
        idle[1].next_answer()
        idle[1].send(HEALTH)
        assert await idle[1].json() == {"status": "ok"}
        await Client.close_all()


async def ask_once(gate: GateProcess) -> Client:
    client = await Client.connect(gate.port)
    client.send(HEALTH)
    assert await client.json() == {"status": "ok"}
    return client
