"""The demo's visitors: enough to see, never so many that the busy upstream stays full."""

import asyncio
import itertools

from llmgate.simulator import Simulator
from llmgate.simulator.stage import BUSY_SECONDS, BUSY_SLOTS
from llmgate.simulator.traffic import BEAT_SECONDS, BUSY, IDLE, ROUND, run_traffic, visits


def test_the_busy_upstream_is_full_for_half_of_the_time_at_most() -> None:
    one_round = [visit for present in itertools.islice(visits(), ROUND) for visit in present]
    busy = sum(visit.model == BUSY for visit in one_round)
    assert busy > BUSY_SLOTS, "somebody must wait, or there is nothing to see"
    turns = -(-busy // BUSY_SLOTS)
    assert turns * BUSY_SECONDS <= ROUND * BEAT_SECONDS / 2
    assert any(visit.model == IDLE for visit in one_round)


def test_the_rounds_repeat() -> None:
    two = list(itertools.islice(visits(), 2 * ROUND))
    assert two[:ROUND] == two[ROUND:]


async def test_visitors_come_again_and_again_by_both_surfaces() -> None:
    paths: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        paths.append(head.split()[1].decode())
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        task = asyncio.ensure_future(run_traffic(f"http://127.0.0.1:{port}", beat_seconds=0.002))
        async with asyncio.timeout(60):
            while len(paths) < 12:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert set(paths) == {"/llm/v1/messages", "/llm/v1/chat/completions"}


async def test_a_front_door_that_is_shut_ends_nothing() -> None:
    async with Simulator() as server:
        url = server.url
    task = asyncio.ensure_future(run_traffic(url, beat_seconds=0.001))
    await asyncio.sleep(0.05)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
