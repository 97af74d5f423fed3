"""Clients that go away, in every way and at every moment: nothing of them reaches the server, and no slot is lost."""

import asyncio
import contextlib
import json
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from gateprocess import CHAT, MESSAGES, GateProcess, request_body
from hands import ANSWER, START, STOP, Hands, delta
from rawclient import Client, names_of, positions_of, post

WAYS: dict[str, Callable[[Client], None]] = {"FIN": Client.fin, "RST": Client.reset, "half-close": Client.half_close}


@pytest.mark.parametrize("leave", WAYS.values(), ids=WAYS.keys())
async def test_f01_f02_f03_a_streaming_client_that_leaves_the_queue_is_gone_at_once(
    gate: GateProcess, hands: Hands, leave: Callable[[Client], None]
) -> None:
    first = await gate.ask("one", metadata={"user_id": "1"})
    running = await hands.turn()
    second = await gate.ask("one", metadata={"user_id": "2"})
    await second.frame()
    third = await gate.ask("one", metadata={"user_id": "3"})
    assert positions_of([await third.frame()]) == [(2, 2)]

    leave(second)
    assert positions_of([await third.frame()]) == [(1, 1)]
    assert [request["session"] for request in gate.requests("waiting")] == ["3"]

    await running.complete()
    turn = await hands.turn()
    assert turn.fields["metadata"]["user_id"] == "3"
    await turn.complete()
    assert await first.body() == ANSWER
    assert b"".join(await third.frames()) == ANSWER
    assert hands.untaken == 0
    outcomes = {request["session"]: request["outcome"] for request in gate.requests("done")[:3]}
    assert outcomes == {"1": "completed", "2": "abandoned", "3": "completed"}


async def test_f03_a_half_closed_connection_is_closed_without_half_an_answer(gate: GateProcess, hands: Hands) -> None:
    await gate.ask("one")
    running = await hands.turn()
    waiting = await gate.ask("one", stream=False)
    await gate.wait_waiting("one", 1)
    waiting.half_close()
    assert await waiting.wait_closed() == b""
    await running.complete()


@pytest.mark.parametrize("leave", WAYS.values(), ids=WAYS.keys())
async def test_f04_a_client_without_a_stream_that_leaves_the_queue_is_gone_at_once(
    gate: GateProcess, hands: Hands, leave: Callable[[Client], None]
) -> None:
    await gate.ask("one")
    running = await hands.turn()
    waiting = await gate.ask("one", stream=False)
    await gate.wait_waiting("one", 1)
    leave(waiting)
    await gate.wait_waiting("one", 0)
    await running.complete()
    await gate.wait(gate.is_idle)
    assert hands.untaken == 0
    assert len(hands.requests) == 1


@pytest.mark.parametrize("segments", [1, 2])
@pytest.mark.parametrize("leave", [Client.fin, Client.reset], ids=["FIN", "RST"])
async def test_f05_a_client_that_pipelined_a_second_request_is_seen_to_leave(
    gate: GateProcess, hands: Hands, leave: Callable[[Client], None], segments: int
) -> None:
    await gate.ask("one")
    running = await hands.turn()
    for _ in range(5):
        client = await Client.connect(gate.port)
        requests = [post(MESSAGES, request_body("one")), post(MESSAGES, request_body("two"))]
        for data in [b"".join(requests)] if segments == 1 else requests:
            client.send(data)
            await gate.wait_waiting("one", 1)
        leave(client)
        await gate.wait_waiting("one", 0)
    await running.complete()
    await gate.wait(gate.is_idle)
    assert len(hands.requests) == 1


async def test_a_pipelined_request_never_runs_and_the_connection_closes(gate: GateProcess, hands: Hands) -> None:
    await gate.ask("one")
    running = await hands.turn()
    client = await Client.connect(gate.port)
    client.send(post(MESSAGES, request_body("one")) + post(MESSAGES, request_body("two")))
    await client.frame()
    await running.complete()
    await (await hands.turn()).complete()
    assert b"".join(await client.frames()) == ANSWER
    assert await client.wait_closed() == b""
    assert len(hands.requests) == 2


async def test_a_client_that_leaves_mid_stream_frees_its_slot(gate: GateProcess, hands: Hands) -> None:
    for leave in WAYS.values():
        client = await gate.ask("one")
        turn = await hands.turn()
        await turn.begin()
        await client.frame()
        waiting = await gate.ask("one")
        await waiting.frame()
        leave(client)
        await turn.wait_closed()
        await (await hands.turn()).complete()
        assert b"".join(await waiting.frames()) == ANSWER
    assert [request["outcome"] for request in gate.requests("done")[:2]].count("client_gone") == 1


async def test_a_client_that_leaves_before_the_headers_frees_its_slot(gate: GateProcess, hands: Hands) -> None:
    for stream in (True, False):
        client = await gate.ask("one", stream=stream)
        turn = await hands.turn()
        waiting = await gate.ask("one")
        await waiting.frame()
        client.reset()
        await turn.wait_closed()
        await (await hands.turn()).complete()
        assert b"".join(await waiting.frames()) == ANSWER


@pytest.mark.parametrize("rounds", [400, pytest.param(2000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
async def test_f07_clients_that_leave_just_as_their_slot_falls_free_lose_none(
    gate: GateProcess, hands: Hands, rounds: int
) -> None:
    """One leaves within a millisecond of its turn; the next one must have its own."""
    dice = random.Random(rounds)
    leavers = f"leaver-{rounds}"
    current = await gate.ask("one")
    turn = await hands.turn()
    for number in range(rounds):
        leaver = await gate.ask("one", metadata={"user_id": leavers})
        await leaver.frame()
        survivor = await gate.ask("one", metadata={"user_id": str(number)})
        await survivor.frame()
        await turn.begin(ANSWER)
        await turn.end(b"")
        if dice.random() < 0.7:
            await asyncio.sleep(dice.random() / 1000)
        (leaver.reset if dice.random() < 0.5 else leaver.fin)()
        turn = await hands.turn()
        while turn.fields["metadata"]["user_id"] == leavers:
            turn = await hands.turn()
        assert turn.fields["metadata"]["user_id"] == str(number)
        await current.frames()
        current.fin()
        current = survivor
    await turn.complete()
    await current.frames()
    await gate.wait(gate.is_idle)
    ended = [request for request in gate.requests("done") if request["session"] == leavers]
    assert len(ended) == rounds
    assert {request["outcome"] for request in ended} <= {"abandoned", "client_gone"}


async def test_f07_after_such_a_storm_the_cap_is_what_it_was(gate: GateProcess, hands: Hands) -> None:
    dice = random.Random(8)
    for _ in range(60):
        clients = [await gate.ask("three") for _ in range(5)]
        turns = [await hands.turn() for _ in range(3)]
        leavers = dice.sample(clients, 5)
        for turn in turns[:2]:
            await turn.begin(ANSWER)
            await turn.end(b"")
        for client in leavers:
            client.reset()
        await gate.wait(gate.is_idle)
        while hands.untaken:
            await hands.turn()
    running = [await gate.ask("three") for _ in range(3)]
    turns = [await hands.turn() for _ in running]
    waiting = await gate.ask("three")
    assert positions_of([await waiting.frame()]) == [(1, 1)]
    for turn in turns:
        await turn.complete()
    await (await hands.turn()).complete()
    assert b"".join(await waiting.frames()) == ANSWER


@pytest.mark.parametrize("path", [MESSAGES, CHAT])
@pytest.mark.parametrize("rounds", [150, pytest.param(1000, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
async def test_f12_clients_that_leave_after_the_last_event_cost_nothing(
    gate: GateProcess, hands: Hands, path: str, rounds: int
) -> None:
    """Gone between message_stop, or [DONE], and the end of the body: no connection to the server is left open."""
    for _ in range(rounds // SLOTS):
        clients = [await gate.ask("three", path=path) for _ in range(SLOTS)]
        turns = [await hands.turn() for _ in clients]
        for turn in turns:
            await turn.begin(turn.spoken.stream)
        for client, turn in zip(clients, turns, strict=True):
            await read_to_the_last_event(client)
            client.reset()
            await turn.end(b"")
    await gate.wait(gate.is_idle)
    clients = [await gate.ask("free") for _ in range(50)]
    for _ in clients:
        await (await hands.turn()).complete()
    for client in clients:
        assert await client.body() == ANSWER
    await hands.wait_all_closed()


SLOTS = 3
"""Of the upstream `three`."""


async def read_to_the_last_event(client: Client) -> None:
    while not (await client.frame()).startswith((b"event: message_stop", b"data: [DONE]")):
        pass


@pytest.fixture
def flood() -> bytes:
    return delta("x" * 60_000)


async def test_f14_a_client_that_reads_nothing_and_then_leaves_frees_its_slot(
    gate: GateProcess, hands: Hands, flood: bytes
) -> None:
    client = await Client.connect(gate.port, receive_buffer=4096)
    client.post(MESSAGES, request_body("one"))
    turn = await hands.turn()
    await turn.begin()
    sending = asyncio.ensure_future(send_until_blocked(turn.say, flood))
    sent = await sending
    assert sent < 400, "the server was never slowed down"
    waiting = await gate.ask("one")
    await waiting.frame()
    client.reset()
    await turn.wait_closed()
    await (await hands.turn()).complete()
    assert b"".join(await waiting.frames()) == ANSWER


async def send_until_blocked(say: Callable[..., object], piece: bytes) -> int:
    """How many pieces the server could send before nothing moved for half a second."""
    for number in range(400):
        try:
            async with asyncio.timeout(0.5):
                await say(piece)  # type: ignore[misc]
        except TimeoutError:
            return number
    return 400


STALL_SECONDS = 2.0
LATE_SECONDS = 10.0
"""The bound for a cut that is due; a second too late is what a busy machine may do."""


@pytest.mark.parametrize("way", ["reads nothing", "SIGSTOP"])
async def test_f15_a_client_that_stops_reading_is_cut_and_the_others_go_on(
    folder: Path, flood: bytes, way: str
) -> None:
    """Not before its time, and not long after it."""
    async with Hands() as hands, contextlib.AsyncExitStack() as stack:
        upstream = {"url": hands.url, "models": ["m"], "max_concurrent": 2, "release_timeout": 0}
        settings = {"server": {"client_stall_timeout": f"{STALL_SECONDS}s"}, "upstreams": {"a": upstream}}
        with GateProcess(folder, settings) as gate:
            await STALLED[way](gate, stack)
            turn = await hands.turn()
            await turn.begin()
            live = await gate.ask("m")
            other = await hands.turn()
            await other.begin(START)
            await live.until("content_block_start")
            waiting = await gate.ask("m")
            await waiting.frame()
            begun = time.monotonic()
            with contextlib.suppress(ConnectionError):  # on a slow machine it is cut while the buffers still fill
                assert await send_until_blocked(turn.say, flood) < 400
            blocked = time.monotonic()
            await other.say(delta("still here"))
            assert await live.frame() == delta("still here")
            await turn.wait_closed()
            assert time.monotonic() - begun >= STALL_SECONDS
            assert time.monotonic() - blocked < STALL_SECONDS + LATE_SECONDS
            await (await hands.turn()).complete()
            assert b"".join(await waiting.frames()).endswith(ANSWER)
            await other.end(STOP)
            assert names_of(await live.frames())[-1] == "message_stop"
            await gate.wait(gate.is_idle)
            outcomes = [request["outcome"] for request in reversed(gate.requests("done"))]
            assert outcomes == ["client_stalled", "completed", "completed"]


async def ask_and_read_nothing(gate: GateProcess, _: contextlib.AsyncExitStack) -> None:
    client = await Client.connect(gate.port, receive_buffer=4096)
    client.post(MESSAGES, request_body("m"))


async def ask_and_be_stopped(gate: GateProcess, stack: contextlib.AsyncExitStack) -> None:
    """A program, stopped as it waits for its answer."""
    command = ("curl", "-sN", "-d", request_body("m").decode(), f"{gate.url}{MESSAGES}")
    program = await asyncio.create_subprocess_exec(*command, stdout=subprocess.DEVNULL)
    stack.push_async_callback(program.wait)
    stack.callback(program.kill)
    await gate.wait(lambda: gate.upstream("a")["running"] == 1)
    program.send_signal(signal.SIGSTOP)


STALLED = {"reads nothing": ask_and_read_nothing, "SIGSTOP": ask_and_be_stopped}


async def test_f15_a_queued_client_that_reads_nothing_keeps_its_place(folder: Path) -> None:
    async with Hands() as hands:
        upstream = {"url": hands.url, "models": ["m"], "max_concurrent": 1}
        settings = {
            "server": {"client_stall_timeout": "200ms"},
            "waiting": {"heartbeat": "10ms"},
            "upstreams": {"a": upstream},
        }
        with GateProcess(folder, settings) as gate:
            await gate.ask("m")
            running = await hands.turn()
            deaf = await Client.connect(gate.port, receive_buffer=4096)
            deaf.post(MESSAGES, request_body("m"))
            await gate.wait_waiting("a", 1)
            await asyncio.sleep(1)
            assert gate.upstream("a")["waiting"] == 1
            await running.complete()
            await (await hands.turn()).complete()
            assert names_of(await deaf.frames())[-1] == "message_stop"


async def test_one_that_leaves_its_slot_is_shown_as_draining_until_the_server_had_time(folder: Path) -> None:
    async with Hands() as hands:
        upstream = {"url": hands.url, "models": ["m"], "max_concurrent": 1, "release_timeout": "4s"}
        with GateProcess(folder, {"waiting": {"heartbeat": "60s"}, "upstreams": {"a": upstream}}) as gate:
            client = await gate.ask("m")
            turn = await hands.turn()
            waiting = await gate.ask("m")
            await waiting.frame()
            client.reset()
            await turn.wait_closed()
            view = gate.upstream("a")
            assert (view["draining"], view["waiting"]) == (1, 1)
            await (await hands.turn()).complete()
            assert json.loads((await waiting.frame()).split(b"data: ")[1])["type"] == "message_start"
            await waiting.frames()
