"""Signs of life on a stream while nothing else is sent: while waiting, and before the upstream's first event."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator

import pytest
from anthropic_check import faults_of, without_queue
from gateprocess import CHAT, MESSAGES, GateProcess
from hands import ANSWER, CHAT_ANSWER, CHAT_START, START, STOP, STREAM_HEAD, Hands, delta
from rawclient import Client, data_of, name_of, names_of

WORKING = b": working\n\n"


@pytest.fixture(scope="module")
def lively(tmp_path_factory: pytest.TempPathFactory, listening: socket.socket) -> Iterator[GateProcess]:
    """A daemon whose heart beats every 50 ms."""
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    upstream = {"url": url, "models": ["m"], "max_concurrent": 1, "release_timeout": 0}
    settings = {"waiting": {"heartbeat": "50ms"}, "upstreams": {"a": upstream}}
    with GateProcess(tmp_path_factory.mktemp("lively"), settings) as gate:
        yield gate


@pytest.fixture
async def server(listening: socket.socket) -> AsyncIterator[Hands]:
    async with Hands(listening=listening) as hands:
        yield hands


async def test_who_waits_hears_its_place_again_and_again(lively: GateProcess, server: Hands) -> None:
    await lively.ask("m")
    running = await server.turn()
    for path in (MESSAGES, CHAT):
        client = await lively.ask("m", path=path)
        assert name_of(await client.frame()) == ("queue" if path == MESSAGES else ":")
        for _ in range(3):
            assert await client.frame() == b": queue 1/1\n\n"
        client.reset()
        await lively.wait_waiting("a", 0)
    await running.complete()


@pytest.mark.parametrize("path", [MESSAGES, CHAT])
async def test_it_works_is_said_until_the_first_event_and_not_after_it(
    lively: GateProcess, server: Hands, path: str
) -> None:
    """Before the headers of the upstream and, as in prompt processing, after them."""
    client = await lively.ask("m", path=path)
    turn = await server.turn()
    assert await client.frame() == WORKING
    assert await client.frame() == WORKING
    await turn.connection.send(STREAM_HEAD)
    assert await client.frame() == WORKING
    assert await client.frame() == WORKING
    begin, rest = (START, delta("x") + STOP) if path == MESSAGES else (CHAT_START, CHAT_ANSWER)
    await turn.say(begin)
    await skip_working(client)
    with pytest.raises(TimeoutError):
        await heartbeat_within(client, 0.4)
    await turn.end(rest)
    frames = await client.frames()
    assert b": " not in {frame[:2] for frame in frames}
    assert client.received.replace(WORKING, b"") == begin + rest
    if path == MESSAGES:
        assert faults_of(without_queue(client.received)) == []


async def skip_working(client: Client) -> bytes:
    frame = await client.frame()
    while frame == WORKING:
        frame = await client.frame()
    return frame


async def heartbeat_within(client: Client, seconds: float) -> None:
    """TimeoutError when nothing but the events that are here already comes in time."""
    async with asyncio.timeout(seconds):
        while not (await client.frame()).startswith(b":"):
            pass


async def test_after_the_wait_it_works_until_the_first_event(lively: GateProcess, server: Hands) -> None:
    await lively.ask("m")
    running = await server.turn()
    client = await lively.ask("m")
    await client.frame()
    await running.complete()
    turn = await server.turn()
    assert await skip_comments_of_the_queue(client) == WORKING
    await turn.complete()
    assert without_queue(b"".join(await client.frames())) == ANSWER


async def skip_comments_of_the_queue(client: Client) -> bytes:
    frame = await client.frame()
    while frame.startswith(b": queue"):
        frame = await client.frame()
    return frame


async def test_comments_of_the_upstream_stop_nothing(lively: GateProcess, server: Hands) -> None:
    client = await lively.ask("m")
    turn = await server.turn()
    await turn.begin(b": ping\n\n")
    frames = [await client.frame() for _ in range(4)]
    assert frames.count(WORKING) >= 3
    await turn.end(ANSWER)
    assert names_of(await client.frames())[-1] == "message_stop"


async def test_after_a_heartbeat_an_upstreams_error_is_an_event(lively: GateProcess, server: Hands) -> None:
    client = await lively.ask("m")
    turn = await server.turn()
    assert (await client.head()).status == 200
    assert await client.frame() == WORKING
    await turn.answer(529, b'{"type":"error","error":{"type":"overloaded_error","message":"busy"}}')
    error = await skip_working(client)
    assert (name_of(error), data_of(error)["error"]["message"]) == ("error", "busy")
    assert await client.frames() == []


async def test_with_events_off_nothing_of_ours_is_sent(lively: GateProcess, server: Hands) -> None:
    await lively.ask("m")
    running = await server.turn()
    client = await lively.ask("m", headers={"llmgate-queue-events": "off"})
    await lively.wait_waiting("a", 1)
    await asyncio.sleep(0.3)
    await running.complete()
    turn = await server.turn()
    await asyncio.sleep(0.3)
    await turn.complete()
    assert await client.body() == ANSWER


async def test_without_a_stream_there_is_silence(lively: GateProcess, server: Hands) -> None:
    client = await lively.ask("m", stream=False)
    turn = await server.turn()
    await asyncio.sleep(0.3)
    await turn.answer(418, b'{"type":"error","error":{"type":"api_error","message":"teapot"}}')
    assert (await client.head()).status == 418
