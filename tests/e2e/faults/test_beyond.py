"""Scenarios of the same kinds as the fault matrix, which have no number of their own."""

import asyncio
import contextlib
import random
import resource
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from gateprocess import MESSAGES, GateProcess, allow_many_files, request_body
from hands import ANSWER, STOP, STREAM_HEAD, Hands, Turn, chunk, delta
from rawclient import Client, CutOff, post

WAYS = {"FIN": Client.fin, "RST": Client.reset, "half-close": Client.half_close}
EXPECTING = post(MESSAGES, b"x" * 500, {"expect": "100-continue"}).partition(b"\r\n\r\n")[0] + b"\r\n\r\n"


# ---- clients


@pytest.mark.parametrize("way", WAYS)
async def test_leaving_between_100_continue_and_the_body(gate: GateProcess, hands: Hands, way: str) -> None:
    """It has no place, no slot and no line in the log: it was no request yet."""
    for _ in range(20):
        client = await Client.connect(gate.port)
        client.send(EXPECTING)
        assert (await client.head()).status == 100
        WAYS[way](client)
        if way == "half-close":
            assert await client.wait_closed() == b""
    assert gate.requests() == []
    after = await gate.ask("one")
    await (await hands.turn()).complete()
    assert await after.body() == ANSWER
    assert (len(hands.requests), gate.new_log) == (1, [])


JUNK = {
    "zeros": b"\0" * 100_000,
    "half a request line": b"POST /llm/v1/mess",
    "no method of HTTP": b"GARBAGE\r\n\r\n",
    "blank lines": b"\r\n" * 1000,
    "a space": b" ",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x55" * 500,
    "another request": post(MESSAGES, request_body("one")),
}


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK.keys())
@pytest.mark.parametrize("waits", [False, True], ids=["streaming", "waiting"])
async def test_what_a_client_sends_behind_its_request_never_shows_in_its_answer(
    gate: GateProcess, hands: Hands, junk: bytes, waits: bool
) -> None:
    """The answer comes whole, or the connection breaks off; nothing of ours is written into the middle of it."""
    holder = await gate.ask("one") if waits else None
    first = await hands.turn() if waits else None
    client = await gate.ask("one")
    turn = first or await hands.turn()
    if not waits:
        await turn.begin()
    await client.frame()
    client.send(junk)
    await asyncio.sleep(0.05)
    if first is not None:
        await first.complete()
        assert holder is not None
        assert await holder.body() == ANSWER
        turn = await hands.turn() if gate.upstream("one")["running"] else turn
    body = await read_on(client, turn if turn is not first else None)
    assert b"HTTP/1.1" not in body
    assert b"Invalid" not in body
    await gate.wait(gate.is_idle)
    assert len(hands.requests) <= 1 + waits


async def read_on(client: Client, turn: Turn | None) -> bytes:
    """What the client has by the end, be it regular or not; `turn` is its own, if it came to the server."""
    with contextlib.suppress(ConnectionError):
        if turn is not None:
            await turn.say(delta("x"))
            await turn.end(STOP)
    with contextlib.suppress(CutOff, ConnectionError, ValueError):
        await client.frames()
    return client.received + bytes(client._reader._buffer)  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", ["FIN", "half-close"])
async def test_clients_of_a_unix_socket_leave_as_others_do(folder: Path, way: str) -> None:
    """While they wait and while they stream; and one that reads nothing is cut."""
    async with Hands() as hands:
        upstream = {"url": hands.url, "models": ["m"], "max_concurrent": 1, "release_timeout": 0, "kind": "anthropic"}
        path = folder / "clients.sock"
        server = {"listen": ["127.0.0.1:0", f"unix:{path}"], "client_stall_timeout": "700ms"}
        with GateProcess(folder, {"server": server, "upstreams": {"a": upstream}}) as gate:
            streaming, waiting, deaf = [await ask_on(path, gate, number) for number in range(3)]
            turn = await hands.turn()
            await turn.begin()
            WAYS[way](waiting)
            await gate.wait_waiting("a", 1)
            WAYS[way](streaming)
            await turn.wait_closed()
            turn = await hands.turn()
            assert turn.fields["number"] == 2
            await turn.begin()
            with contextlib.suppress(ConnectionError):
                for _ in range(400):
                    await turn.say(delta("x" * 60_000))
            await turn.wait_closed()
            await gate.wait(gate.is_idle)
            assert not deaf.received
            outcomes = sorted(request["outcome"] for request in gate.requests("done"))
            assert outcomes == ["abandoned", "client_gone", "client_stalled"]


async def ask_on(path: Path, gate: GateProcess, number: int) -> Client:
    """One more that runs or waits."""
    client = await Client.connect(str(path))
    client.post(MESSAGES, request_body("m", number=number))
    await gate.wait(lambda: len(gate.requests()) == number + 1)
    return client


def most_clients() -> int:
    """As many connections as this process may open, and the daemon."""
    allow_many_files()
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200


@pytest.mark.parametrize("crowd", [1500, pytest.param(9000, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
async def test_a_crowd_of_waiters_that_leaves_at_once(folder: Path, crowd: int) -> None:
    """All gone, nobody else is kept waiting for long, nobody of them reached the server."""
    assert most_clients() >= crowd
    async with Hands() as hands:
        upstreams = {
            name: {"url": hands.url, "models": [name], "max_concurrent": 1, "kind": "anthropic"} for name in ("a", "b")
        }
        with GateProcess(folder, {"admin": {"history": 100}, "upstreams": upstreams}) as gate:
            running = await gate.ask("a")
            turn = await hands.turn()
            waiting = [await gate.ask("a", stream=number % 3 > 0) for number in range(crowd)]
            await gate.wait_waiting("a", crowd)
            random.Random(crowd).shuffle(waiting)
            for client in waiting:
                client.reset()
            other = await gate.ask("b")
            await (await hands.turn()).complete()
            assert (await other.body()).endswith(ANSWER)
            await gate.wait_waiting("a", 0)
            await turn.complete()
            assert (await running.body()).endswith(ANSWER)
            await gate.wait(gate.is_idle)
            assert len(hands.requests) == 2


async def test_told_to_stop_while_a_crowd_comes_and_goes(folder: Path) -> None:
    """It ends by itself, with nothing said of it in the log but what it always says."""
    dice = random.Random(15)
    async with Hands() as hands:
        upstream = {"url": hands.url, "models": ["m"], "max_concurrent": 2, "release_timeout": "50ms"}
        gate = GateProcess(folder, {"server": {"drain_timeout": "200ms"}, "upstreams": {"a": upstream}}).start()
        clients: list[Client] = []
        for number in range(120):
            if number == 80:
                gate.signal(signal.SIGTERM)
            try:
                clients.append(await gate.ask("m", stream=dice.random() < 0.5))
            except OSError:
                assert number >= 80
            if dice.random() < 0.5 and clients:
                with contextlib.suppress(OSError):  # it was dismissed and is closed already
                    dice.choice([Client.fin, Client.reset])(clients.pop(dice.randrange(len(clients))))
        assert await gate.wait_exit() == 0
        await hands.wait_all_closed()
        gate.assert_no_traceback()


# ---- servers


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_a_server_that_answers_before_it_has_read_the_request(folder: Path, stream: bool) -> None:
    """8 MB of a request go out slowly; its refusal comes first, and is what the client is told. The slot comes back."""

    async with Hands() as hands:
        refusal = b'{"type":"error","error":{"type":"request_too_large","message":"too large"}}'
        early = b"HTTP/1.1 413 X\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
        server = await asyncio.start_server(
            lambda reader, writer: refuse_early(reader, writer, early % (len(refusal), refusal)), "127.0.0.1", 0
        )
        port = server.sockets[0].getsockname()[1]
        upstream = {"url": f"http://127.0.0.1:{port}", "models": ["m"], "max_concurrent": 1, "kind": "anthropic"}
        with GateProcess(folder, {"server": {"max_body": "16MiB"}, "upstreams": {"a": upstream}}) as gate:
            for _ in range(3):
                client = await gate.ask("m", stream=stream, padding="x" * 8_000_000)
                assert (await client.head()).status in (413, 502)
                assert b"error" in await client.body()
                await gate.wait(gate.is_idle)
        server.close()
        assert hands.requests == []


async def refuse_early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: bytes) -> None:
    """Reads the head only, answers and closes."""
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"POST"):
        writer.write(b"HTTP/1.1 404 X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    else:
        writer.write(answer)
    await writer.drain()
    writer.close()


async def test_a_server_that_only_ever_announces_its_answer(folder: Path) -> None:
    """100 Continue without end is no first byte: the clock of the first byte runs."""
    async with Hands() as hands:
        upstream = {"url": hands.url, "models": ["m"], "max_concurrent": 1, "first_byte_timeout": "1s"}
        with GateProcess(folder, {"upstreams": {"a": upstream | {"release_timeout": 0}}}) as gate:
            client = await gate.ask("m")
            turn = await hands.turn()
            announcing = asyncio.ensure_future(announce(turn.connection.send))
            assert (await client.head()).status == 504
            await turn.wait_closed()
            await gate.wait(gate.is_idle)
            announcing.cancel()


async def announce(send: Callable[[bytes], Awaitable[None]]) -> None:
    with contextlib.suppress(ConnectionError):
        while True:
            await send(b"HTTP/1.1 100 Continue\r\n\r\n")
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("segments", [1, 2])
async def test_a_server_that_says_more_behind_the_end_of_its_stream(
    gate: GateProcess, hands: Hands, segments: int
) -> None:
    """Nobody gets it, neither this client nor the next."""
    pieces = [STREAM_HEAD + chunk(ANSWER) + chunk(b""), b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nMORE"]
    for _ in range(5):
        client = await gate.ask("one")
        turn = await hands.turn()
        with contextlib.suppress(ConnectionError):
            await turn.connection.send(*([b"".join(pieces)] if segments == 1 else pieces))
        assert await client.body() == ANSWER
        after = await gate.ask("one")
        await (await hands.turn()).complete()
        assert (await after.body()).endswith(ANSWER)
        assert b"MORE" not in client.received + after.received
