"""What keeps a connection alive while its request waits or is worked at: on a translated stream comments, in front of
an answer that is none blanks, where `nonstream_keepalive = "whitespace"` is set."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from anthropic_check import text_of, without_queue
from chatserver import ChatServer
from gateprocess import CHAT, MESSAGES, GateProcess
from hands import CHAT_WHOLE, WHOLE, hold_port
from rawclient import Client

from tests.protocols.translate.openai_streams import chunk, end, say, sse

WORKING = b": working\n\n"
KNOWS = ("/v1/messages", "/v1/chat/completions", "/api/chat", "/v1/embeddings")
NO_BLANKS = {"llmgate-queue-events": "off"}


@pytest.fixture(scope="module")
def listening() -> Iterator[socket.socket]:
    """Where the server is; it listens all along, so that nobody finds it down between two tests."""
    with hold_port() as holder:
        holder.listen(1024)
        yield holder


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory, listening: socket.socket) -> Iterator[GateProcess]:
    """A daemon whose heart beats every 50 ms; of `translated` it knows that it speaks no Messages."""
    own = {"url": f"http://127.0.0.1:{listening.getsockname()[1]}", "max_concurrent": 1, "release_timeout": 0}
    upstreams = {
        "direct": {**own, "models": ["direct"], "force_stream": False},
        "translated": {**own, "models": ["translated"], "kind": "openai"},
        "hasty": {**own, "models": ["hasty"], "queue_timeout": "300ms"},
    }
    settings = {"waiting": {"heartbeat": "50ms", "nonstream_keepalive": "whitespace"}, "upstreams": upstreams}
    with GateProcess(tmp_path_factory.mktemp("blanks"), settings) as gate:
        yield gate


@pytest.fixture
async def server(listening: socket.socket) -> AsyncIterator[ChatServer]:
    async with ChatServer(listening, knows=KNOWS) as server:
        yield server


async def blanks(client: Client, count: int) -> None:
    """So many more, one by one."""
    for _ in range(count):
        assert await client.chunk() == b" "


async def read_json(client: Client) -> Any:
    """What stands behind the blanks, which are all that is in front of it."""
    body = await client.body()
    assert body.startswith(b" ")
    assert body.lstrip(b" ")[:1] == b"{"
    return json.loads(body)


@pytest.mark.parametrize(
    ("model", "path", "told"),
    [
        ("direct", MESSAGES, json.loads(WHOLE)),
        ("direct", CHAT, json.loads(CHAT_WHOLE)),
        ("translated", CHAT, json.loads(CHAT_WHOLE)),
        ("translated", MESSAGES, None),
        ("direct", "/llm/api/chat", None),
        ("direct", "/llm/v1/embeddings", None),
    ],
)
async def test_while_it_waits_and_while_the_server_works(
    gate: GateProcess, server: ChatServer, model: str, path: str, told: Any
) -> None:
    await gate.ask(model)
    first = await server.turn()
    client = await gate.ask(model, path=path, stream=False)
    head = await client.head()
    assert (head.status, head.headers["content-type"]) == (200, "application/json")
    assert (head.headers["llmgate-position"], "content-length" in head.headers) == ("1", False)
    await blanks(client, 2)
    await first.complete()
    turn = await server.turn()
    await blanks(client, 2)
    await turn.complete()
    answer = await read_json(client)
    assert "error" not in answer
    assert told is None or answer == told
    assert model != "translated" or path != MESSAGES or answer["content"] == [{"type": "text", "text": "Hello"}]


async def test_streams_have_none(gate: GateProcess, server: ChatServer) -> None:
    client = await gate.ask("direct")
    turn = await server.turn()
    assert await client.frame() == b": working\n\n"
    await turn.complete()
    assert b"\n " not in await client.body()


@pytest.mark.parametrize("model", ["direct", "translated"])
async def test_an_error_of_the_server_is_told_in_the_body(gate: GateProcess, server: ChatServer, model: str) -> None:
    client = await gate.ask(model, stream=False)
    turn = await server.turn()
    await blanks(client, 1)
    await turn.answer(503, b'{"error":{"message":"Busy"}}')
    assert (await client.head()).status == 200
    told = await read_json(client)
    assert (told["type"], told["error"]["type"], told["error"]["message"]) == ("error", "overloaded_error", "Busy")
    assert gate.requests("done")[0]["outcome"] == "upstream_error"


@pytest.mark.parametrize("path", [MESSAGES, CHAT, "/llm/api/chat"])
async def test_so_is_a_wait_that_took_too_long(gate: GateProcess, server: ChatServer, path: str) -> None:
    await gate.ask("hasty")
    first = await server.turn()
    client = await gate.ask("hasty", path=path, stream=False)
    await blanks(client, 1)
    assert "(QUEUE_TIMEOUT)" in str((await read_json(client))["error"])
    await first.complete()


async def test_a_client_that_wants_none_gets_none(gate: GateProcess, server: ChatServer) -> None:
    await gate.ask("direct")
    first = await server.turn()
    client = await gate.ask("direct", stream=False, headers=NO_BLANKS)
    other = await gate.ask("direct", stream=False)
    await blanks(other, 4)
    await first.complete()
    await (await server.turn()).answer(529, WHOLE)
    assert ((await client.head()).status, (await client.body())[:1]) == (529, b"{")
    await (await server.turn()).complete()
    await read_json(other)


async def test_a_client_that_leaves_in_the_middle_of_them(gate: GateProcess, server: ChatServer) -> None:
    await gate.ask("direct")
    first = await server.turn()
    client = await gate.ask("direct", stream=False)
    await blanks(client, 2)
    client.reset()
    await gate.wait_waiting("direct", 0)
    assert gate.requests("done")[0]["outcome"] == "abandoned"
    await first.complete()
    await gate.wait(gate.is_idle)
    assert server.asked == ["/v1/messages"]


# ---- translated streams


@pytest.mark.parametrize(("wish", "told"), [("comment", b": queue 1/1\n\n"), ("off", None)])
async def test_what_a_client_wants_to_hear(
    gate: GateProcess, server: ChatServer, wish: str, told: bytes | None
) -> None:
    await gate.ask("translated")
    turn = await server.turn()
    client = await gate.ask("translated", headers={"llmgate-queue-events": wish})
    await gate.wait_waiting("translated", 1)
    if told is not None:
        assert await client.frame() == told
    await turn.complete()
    second = await server.turn()
    if told is None:
        await asyncio.sleep(0.25)  # five heartbeats
    await second.complete()
    frames = await client.frames()
    assert b"event: queue" not in client.received
    assert any(frame.startswith(b":") for frame in frames) <= (told is not None)
    assert text_of(without_queue(client.received)) == "Hello"


async def test_signs_of_life_until_the_first_content(gate: GateProcess, server: ChatServer) -> None:
    """While the server reads a long prompt, and after the empty chunk with which many servers begin; never later."""
    client = await gate.ask("translated")
    turn = await server.turn()
    assert await client.frame() == WORKING
    await turn.begin(sse(chunk({"role": "assistant", "content": ""})))
    assert [await client.frame() for _ in range(3)] == [WORKING] * 3
    await turn.say(sse(say("a")))
    while (await client.frame()) == WORKING:
        pass
    await asyncio.sleep(0.25)
    await turn.end(sse(*end()))
    assert not [frame for frame in await client.frames() if frame.startswith(b":")]
    assert text_of(without_queue(client.received)) == "a"
