"""A thousand waiters on one slot, of whom many leave: order, cap and outcomes, as the server itself saw them."""

import asyncio
import json
import random
from pathlib import Path

from gateprocess import GateProcess, allow_many_files
from hands import ANSWER, STREAM_HEAD, WHOLE, answer_to_question, chunk, is_question
from puppet import Connection, Puppet
from rawclient import Client, CutOff, names_of, positions_of

CROWD = 1000


class CountingServer(Puppet):
    """Answers each request at once when `opened` is set; counts how many it has at one time, keeps who came."""

    def __init__(self) -> None:
        super().__init__(self._serve)
        self.opened = asyncio.Event()
        self.came: list[str] = []
        self.running = 0
        self.highest = 0

    async def _serve(self, connection: Connection) -> None:
        while True:
            request = await connection.read_request()
            if is_question(request):
                await connection.send(answer_to_question(request))
                continue
            fields = json.loads(request.body)
            self.came.append(fields["metadata"]["user_id"])
            self.running += 1
            self.highest = max(self.highest, self.running)
            try:
                await self.opened.wait()
                await asyncio.sleep(0)
            finally:
                self.running -= 1
            if fields["stream"]:
                await connection.send(STREAM_HEAD + chunk(ANSWER) + chunk(b""))
            else:
                await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(WHOLE), WHOLE))


async def test_a_thousand_waiters_of_whom_many_leave(folder: Path) -> None:
    allow_many_files()
    dice = random.Random(3)
    async with CountingServer() as server:
        upstream = {"url": server.url, "models": ["m"], "max_concurrent": 1, "release_timeout": 0}
        with GateProcess(folder, {"admin": {"history": 5000}, "upstreams": {"a": upstream}}) as gate:
            first = await gate.ask("m", metadata={"user_id": "first"})
            await server.wait(lambda: server.running == 1)
            clients = await line_up(gate, dice)
            arrived = [request["session"] for request in gate.requests("waiting")]
            assert sorted(arrived, key=int) == [str(number) for number in range(CROWD)]
            streaming = [name for name in arrived if clients[name][1]]
            assert streaming == sorted(streaming, key=int)

            early = set(dice.sample(arrived, 250))
            for name in early:
                leave(clients[name][0], dice)
            await gate.wait_waiting("a", CROWD - 250)
            assert server.came == ["first"]

            late = set(dice.sample([name for name in arrived if name not in early], 100))
            server.opened.set()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(leave_now_and_then([clients[name][0] for name in sorted(late)], dice))
                readers = {
                    name: tasks.create_task(read_all(client, stream))
                    for name, (client, stream) in clients.items()
                    if name not in early | late
                }
            assert {name for name, task in readers.items() if not task.result()} == set()
            assert (await first.body()) == ANSWER
            await gate.wait(gate.is_idle)
            outcomes = outcomes_of(gate)
            assert gate.upstream("a")["served"] >= 1 + CROWD - 350

    assert server.highest == 1
    assert len(outcomes) == CROWD + 1
    assert {outcomes[name] for name in early} == {"abandoned"}
    assert {outcomes[name] for name in readers} == {"completed"}
    assert {outcomes[name] for name in late} <= {"abandoned", "client_gone", "completed"}
    reached = [name for name in ["first", *arrived] if outcomes[name] != "abandoned"]
    assert server.came == reached


async def line_up(gate: GateProcess, dice: random.Random) -> dict[str, tuple[Client, bool]]:
    """One after the other; two of three with a stream, which tells them their position."""
    clients: dict[str, tuple[Client, bool]] = {}
    for number in range(CROWD):
        stream = dice.random() < 0.67
        client = await gate.ask("m", stream=stream, metadata={"user_id": str(number)})
        clients[str(number)] = client, stream
        if stream:
            ((position, depth),) = positions_of([await client.frame()])
            assert position == depth <= number + 1
    await gate.wait_waiting("a", CROWD)
    return clients


def leave(client: Client, dice: random.Random) -> None:
    dice.choice([Client.fin, Client.reset, Client.half_close])(client)


async def leave_now_and_then(clients: list[Client], dice: random.Random) -> None:
    dice.shuffle(clients)
    for client in clients:
        leave(client, dice)
        await asyncio.sleep(dice.random() / 100)


async def read_all(client: Client, stream: bool) -> bool:
    """Whether the whole answer came, and positions only fell."""
    try:
        if not stream:
            answer = json.loads(await client.body())
            return bool(answer["content"] == [{"type": "text", "text": "Hello there"}])
        frames = await client.frames()
    except CutOff:
        return False
    positions = [position for position, _ in positions_of(frames)]
    return positions == sorted(positions, reverse=True) and names_of(frames)[-1] == "message_stop"


def outcomes_of(gate: GateProcess) -> dict[str, str]:
    done = gate.requests("done")
    outcomes = {request["session"]: request["outcome"] for request in done}
    assert len(done) == len(outcomes)
    return outcomes
