"""Every surface but Messages and chat, which the other tests are about: waiting in the queue, passing, failing."""

import json
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from gateprocess import CHAT, GateProcess
from hands import CHAT_ANSWER, Hands
from rawclient import Client, CutOff, data_of, name_of
from spoken import AFTER_ERROR, NDJSON, SPOKEN

from llmgate.protocols.surfaces import SURFACES

GATED = [path for path in SPOKEN if path in SURFACES]
STREAMING = [path for path in GATED if SPOKEN[path].stream]
SILENT = [path for path in GATED if not SPOKEN[path].stream]
LINES = ("/api/chat", "/api/generate")
EVERY = pytest.mark.parametrize("path", GATED)
STREAMS = pytest.mark.parametrize("path", STREAMING)


def is_ollama(path: str) -> bool:
    return path.startswith("/api/")


async def frame(client: Client, path: str) -> bytes:
    """The next frame or line."""
    return await (client.line() if path in LINES else client.frame())


async def frames(client: Client, path: str) -> list[bytes]:
    """All that are left, without signs of life."""
    found = []
    while one := (await frame(client, path)).lstrip(b" "):
        if not one.startswith(b":"):
            found.append(one)
    return found


def error_in(document: Any, path: str) -> str:
    return str(document["error"] if is_ollama(path) else document["error"]["message"])


def check_told(told: bytes, path: str, model: str, position: int, depth: int) -> None:
    """Exactly the frame that tells a position here."""
    if path not in LINES:
        assert told == f": queue {position}/{depth}\n\n".encode()
        return
    part = json.loads(told)
    created = part.pop("created_at")
    assert created[10] + created[-1] == "TZ"
    empty = {"message": {"role": "assistant", "content": ""}} if path == "/api/chat" else {"response": ""}
    assert part == {"model": model, **empty, "done": False, "queue": {"position": position, "depth": depth}}
    assert told.endswith(b"}\n")


# ---- passing


@STREAMS
@pytest.mark.parametrize("prefix", ["", "/llm"])
async def test_a_free_slot_gives_the_upstreams_stream(gate: GateProcess, hands: Hands, path: str, prefix: str) -> None:
    client = await gate.ask("one", path=prefix + path)
    turn = await hands.turn()
    assert turn.path == path
    await turn.complete()
    head = await client.head()
    assert (head.status, head.headers["content-type"]) == (200, SPOKEN[path].content_type.decode())
    assert await client.body() == SPOKEN[path].stream
    assert gate.new_log == []


@EVERY
async def test_a_whole_answer(gate: GateProcess, hands: Hands, path: str) -> None:
    client = await gate.ask("one", path=path, stream=False)
    await (await hands.turn()).complete()
    assert (await client.head()).headers["content-type"] == "application/json"
    assert await client.body() == SPOKEN[path].whole


@STREAMS
async def test_what_the_daemon_shows(gate: GateProcess, hands: Hands, path: str) -> None:
    client = await gate.ask("one", path=path)
    await (await hands.turn()).complete()
    await client.body()
    await gate.wait(gate.is_idle)
    view = gate.requests("done")[0]
    assert (view["path"], view["outcome"], view["stream"]) == (path, "completed", True)
    assert view["output_tokens"] == 2


@pytest.mark.parametrize("path", LINES)
async def test_ollama_streams_unless_told_otherwise(gate: GateProcess, hands: Hands, path: str) -> None:
    client = await Client.connect(gate.port)
    client.post(path, b'{"model":"one"}')
    turn = await hands.turn()
    assert turn.request.body == b'{"model":"one"}'
    await turn.complete()
    assert await client.body() == SPOKEN[path].stream


@EVERY
async def test_an_alias(gate: GateProcess, hands: Hands, path: str) -> None:
    client = await gate.ask("nickname", path=path)
    turn = await hands.turn()
    assert turn.fields["model"] == "one-real"
    await turn.complete()
    await client.body()


# ---- waiting


@STREAMS
async def test_who_waits_is_told_and_then_served(gate: GateProcess, hands: Hands, path: str) -> None:
    await gate.ask("one")
    running = await hands.turn()
    first = await gate.ask("one", path=path)
    check_told(await frame(first, path), path, "one", 1, 1)
    second = await gate.ask("nickname", path=path)
    check_told(await frame(second, path), path, "nickname", 2, 2)
    head = await second.head()
    content_type = NDJSON.decode() if path in LINES else "text/event-stream; charset=utf-8"
    assert (head.status, head.headers["content-type"]) == (200, content_type)
    assert (head.headers["llmgate-position"], head.headers["llmgate-depth"]) == ("2", "2")
    await running.complete()
    turn = await hands.turn()
    check_told(await frame(second, path), path, "nickname", 1, 1)
    await turn.complete()
    await (await hands.turn()).complete()
    for client in (first, second):
        assert b"".join(await frames(client, path)) == SPOKEN[path].stream
    assert "llmgate: one queued (depth 1)" in gate.new_log


@EVERY
async def test_without_a_stream_it_waits_in_silence(gate: GateProcess, hands: Hands, path: str) -> None:
    await gate.ask("one")
    running = await hands.turn()
    client = await gate.ask("one", path=path, stream=False)
    await gate.wait_waiting("one", 1)
    await running.complete()
    await (await hands.turn()).complete()
    head = await client.head()
    assert (head.status, "llmgate-queued-ms" in head.headers) == (200, True)
    assert await client.body() == SPOKEN[path].whole


@pytest.mark.parametrize("path", SILENT)
async def test_what_never_streams_is_not_told_although_it_asks(gate: GateProcess, hands: Hands, path: str) -> None:
    await gate.ask("one")
    running = await hands.turn()
    client = await gate.ask("one", path=path, stream=True)
    await gate.wait_waiting("one", 1)
    assert [view["stream"] for view in gate.requests("waiting")] == [False]
    await running.complete()
    await (await hands.turn()).complete()
    assert await client.body() == SPOKEN[path].whole


@STREAMS
async def test_who_leaves_while_waiting_is_never_dispatched(gate: GateProcess, hands: Hands, path: str) -> None:
    await gate.ask("one")
    running = await hands.turn()
    client = await gate.ask("one", path=path)
    await frame(client, path)
    client.fin()
    await gate.wait_waiting("one", 0)
    await running.complete()
    await gate.wait(gate.is_idle)
    assert hands.untaken == 0


# ---- errors


@EVERY
async def test_a_full_queue(gate: GateProcess, hands: Hands, path: str) -> None:
    await gate.ask("none")
    running = await hands.turn()
    client = await gate.ask("none", path=path)
    head = await client.head()
    assert (head.status, head.headers["llmgate-code"], head.headers["x-should-retry"]) == (503, "QUEUE_FULL", "false")
    assert error_in(await client.json(), path) == "llmgate: the queue of upstream none is full (QUEUE_FULL)"
    await running.complete()


@STREAMS
async def test_a_wait_that_is_too_long_in_an_open_stream(gate: GateProcess, hands: Hands, path: str) -> None:
    await gate.ask("hasty")
    running = await hands.turn()
    client = await gate.ask("hasty", path=path)
    check_told(await frame(client, path), path, "hasty", 1, 1)
    error, *end = await frames(client, path)
    message = "llmgate: no slot of upstream hasty fell free in time (QUEUE_TIMEOUT)"
    if path in LINES:
        assert (error, end) == (json.dumps({"error": message}, separators=(",", ":")).encode() + b"\n", [])
    elif path == "/v1/responses":
        nested = {"type": "server_error", "code": "QUEUE_TIMEOUT", "message": message, "param": None}
        flat = {"type": "error", "sequence_number": 0, "code": "QUEUE_TIMEOUT", "message": message, "param": None}
        assert (name_of(error), data_of(error)) == ("error", {**flat, "error": nested})
        (failed,) = end
        assert name_of(failed) == "response.failed"
        assert data_of(failed)["response"]["error"] == {"code": "QUEUE_TIMEOUT", "message": message}
    else:
        assert data_of(error)["error"]["message"] == message
        assert end == [b"data: [DONE]\n\n"]
    await running.complete()


@EVERY
async def test_a_wait_that_is_too_long_without_a_stream(gate: GateProcess, hands: Hands, path: str) -> None:
    await gate.ask("silent")
    running = await hands.turn()
    client = await gate.ask("silent", path=path, stream=False)
    assert (await client.head()).status == 504
    assert error_in(await client.json(), path).endswith("(QUEUE_TIMEOUT)")
    await running.complete()


@EVERY
async def test_an_upstream_that_does_not_speak_it(gate: GateProcess, hands: Hands, path: str) -> None:
    """llama-server's answer on a path that it does not have."""
    client = await gate.ask("one", path=path)
    body = b'{"error":{"message":"File Not Found","type":"not_found_error","code":404}}'
    await (await hands.turn()).answer(404, body)
    assert (await client.head()).status == 404
    assert error_in(await client.json(), path) == "File Not Found"


@STREAMS
async def test_an_upstreams_error_after_the_wait(gate: GateProcess, hands: Hands, path: str) -> None:
    await gate.ask("one")
    running = await hands.turn()
    client = await gate.ask("one", path=path)
    await frame(client, path)
    await running.complete()
    await (await hands.turn()).answer(500, b'{"error":{"message":"out of memory","code":500}}')
    error = (await frames(client, path))[0]
    assert error_in(json.loads(error) if path in LINES else data_of(error), path) == "out of memory"


@STREAMS
async def test_an_upstream_that_breaks_off(gate: GateProcess, hands: Hands, path: str) -> None:
    """Whole events only, then the error, then the regular end."""
    client = await gate.ask("one", path=path)
    turn = await hands.turn()
    await turn.begin(SPOKEN[path].start + SPOKEN[path].rest[:20])
    turn.connection.close()
    told = await frames(client, path)
    error, *end = [one for one in told if b'"error"' in one or b"[DONE]" in one]
    assert "(UPSTREAM_ERROR)" in error_in(json.loads(error) if path in LINES else data_of(error), path)
    assert [one.partition(b"\n")[0] for one in end] == ([AFTER_ERROR[path]] if path in AFTER_ERROR else [])
    assert b"".join(told) == SPOKEN[path].start + b"".join([error, *end])


@pytest.mark.parametrize("path", LINES)
async def test_inside_a_line_too_long_nothing_of_ours_is_said(gate: GateProcess, hands: Hands, path: str) -> None:
    client = await gate.ask("one", path=path)
    turn = await hands.turn()
    await turn.begin(b'{"response":"' + b"x" * (1 << 20))
    turn.connection.close()
    with pytest.raises(CutOff):
        await client.body()


# ---- signs of life, and the setting for OpenAI's


def lively(folder: Any, listening: socket.socket, keepalive: str) -> GateProcess:
    """A daemon whose heart beats every 50 ms."""
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    upstream = {"url": url, "models": ["m"], "max_concurrent": 1, "release_timeout": 0}
    waiting = {"heartbeat": "50ms", "openai_keepalive": keepalive}
    return GateProcess(folder, {"waiting": waiting, "upstreams": {"a": upstream}})


@pytest.fixture(scope="module")
def chunking(tmp_path_factory: pytest.TempPathFactory, listening: socket.socket) -> Iterator[GateProcess]:
    with lively(tmp_path_factory.mktemp("chunking"), listening, "chunk") as gate:
        yield gate


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory, listening: socket.socket) -> Iterator[GateProcess]:
    with lively(tmp_path_factory.mktemp("quiet"), listening, "off") as gate:
        yield gate


@pytest.fixture
async def server(listening: socket.socket) -> AsyncIterator[Hands]:
    async with Hands(listening=listening) as hands:
        yield hands


@pytest.mark.parametrize("path", LINES)
async def test_a_sign_of_life_of_ollamas(chunking: GateProcess, server: Hands, path: str) -> None:
    """Blanks before a line, while it waits and while it works."""
    await chunking.ask("m")
    running = await server.turn()
    client = await chunking.ask("m", path=path)
    check_told(await client.line(), path, "m", 1, 1)
    assert [await client.chunk() for _ in range(3)] == [b" "] * 3
    await running.complete()
    turn = await server.turn()
    assert [await client.chunk() for _ in range(2)] == [b" "] * 2
    await turn.complete()
    await client.body()
    lines = client.received.splitlines(keepends=True)
    assert b"".join(lines[1:]).lstrip(b" ") == SPOKEN[path].stream
    assert all(json.loads(line) for line in lines)


@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
async def test_chunks_tell_the_position_where_the_settings_say_so(
    chunking: GateProcess, server: Hands, path: str
) -> None:
    await chunking.ask("m")
    running = await server.turn()
    client = await chunking.ask("m", path=path)
    for _ in range(3):
        told = data_of(await client.frame())
        assert (told["model"], told["queue"]) == ("m", {"position": 1, "depth": 1})
    choice = {"delta": {}} if path == CHAT else {"text": "", "logprobs": None}
    assert told["choices"] == [{"index": 0, **choice, "finish_reason": None}]
    assert told["id"].endswith((await client.head()).headers["llmgate-request-id"])
    await running.complete()
    turn = await server.turn()
    while "queue" in (told := data_of(await client.frame())):
        pass
    assert told["choices"] == [{"index": 0, **choice, "finish_reason": None}]
    await turn.complete()
    await client.body()
    assert client.received.endswith(CHAT_ANSWER if path == CHAT else SPOKEN[path].stream)


async def test_responses_have_comments_all_the_same(chunking: GateProcess, server: Hands) -> None:
    await chunking.ask("m")
    running = await server.turn()
    client = await chunking.ask("m", path="/v1/responses")
    assert [await client.frame() for _ in range(3)] == [b": queue 1/1\n\n"] * 3
    await running.complete()
    await (await server.turn()).complete()
    assert b"".join(await frames(client, "/v1/responses")) == SPOKEN["/v1/responses"].stream


@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/v1/responses"])
async def test_off_is_silence_on_openais_surfaces(quiet: GateProcess, server: Hands, path: str) -> None:
    await quiet.ask("m")
    running = await server.turn()
    client = await quiet.ask("m", path=path)
    heard = await quiet.ask("m", path=path, headers={"llmgate-queue-events": "on"})
    assert [await heard.frame() for _ in range(4)] == [b": queue 2/2\n\n"] * 4
    await running.complete()
    await (await server.turn()).complete()
    assert await client.body() == (CHAT_ANSWER if path == CHAT else SPOKEN[path].stream)
    await (await server.turn()).complete()
    await heard.body()


async def test_off_is_not_about_the_others(quiet: GateProcess, server: Hands) -> None:
    await quiet.ask("m")
    running = await server.turn()
    client = await quiet.ask("m", path="/api/chat")
    check_told(await client.line(), "/api/chat", "m", 1, 1)
    await running.complete()
    await (await server.turn()).complete()
    await client.body()
