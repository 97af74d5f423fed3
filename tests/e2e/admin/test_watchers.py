"""Those who follow the feed and do not keep up cost the daemon nothing, and the others miss nothing."""

import asyncio
from pathlib import Path

import pytest
from adminsocket import curl
from gateprocess import GateProcess
from rawclient import Client, CutOff, data_of

CHANGES = 20_000
"""So many that a mailbox of one who reads nothing is full."""
WATCH = b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n"


def resident(pid: int) -> int:
    """Bytes of memory of a process."""
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * 4096


class Viewer:
    """Reads all the time, and keeps the numbers of the events that came."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    async def run(self, socket: Path) -> None:
        reader, writer = await asyncio.open_unix_connection(str(socket), limit=1 << 24)
        try:
            writer.write(WATCH)
            number = 0
            while line := await reader.readline():
                if line.startswith(b"id: "):
                    number = int(line.rpartition(b"-")[2])
                elif line.startswith(b'data: {"schema":1,"type":"event"'):
                    self.numbers.append(number)
        finally:
            writer.transport.abort()


async def change(socket: Path, times: int) -> None:
    """So many events: each change of a limit is one, over one connection."""
    client = await Client.connect(str(socket))
    for number in range(times):
        body = b'{"max_queued":%d}' % (number % 2 + 1)
        client.send(b"PATCH /v1/upstreams/a HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        assert (await client.head()).status == 200
        await client.json()
        client.next_answer()


@pytest.mark.timeout(600)
async def test_f73_a_viewer_that_is_stopped_costs_no_memory_and_the_others_go_on(folder: Path) -> None:
    """It reads nothing at all, as one that got SIGSTOP; five others read everything."""
    upstream = {"url": "http://127.0.0.1:9", "models": ["m"], "max_concurrent": 1}
    settings = {"admin": {"history": 500}, "log": {"level": "error"}, "upstreams": {"a": upstream}}
    with GateProcess(folder, settings) as gate:
        stopped = await Client.connect(str(gate.socket), receive_buffer=4096)
        stopped.send(WATCH)
        viewers = [Viewer() for _ in range(5)]
        tasks = [asyncio.ensure_future(viewer.run(gate.socket)) for viewer in viewers]
        await change(gate.socket, CHANGES // 2)
        half = resident(gate.pid)
        await change(gate.socket, CHANGES // 2)
        assert resident(gate.pid) < half + (8 << 20)
        newest = data_of(await snapshot(gate))["number"]
        assert newest >= CHANGES - 2
        await gate.wait(lambda: all(viewer.numbers and viewer.numbers[-1] >= newest for viewer in viewers))
        for viewer in viewers:
            first = viewer.numbers[0]
            assert viewer.numbers == list(range(first, first + len(viewer.numbers))), "without a gap"
        with pytest.raises(CutOff):
            await stopped.body()
        assert len(stopped.received) < (16 << 20)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (await curl(gate.socket, "GET", "/healthz")) == {"status": "ok"}


async def snapshot(gate: GateProcess) -> bytes:
    client = await Client.connect(str(gate.socket))
    client.send(WATCH)
    return await client.frame()
