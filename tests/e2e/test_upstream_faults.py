"""Upstreams that fail: refused, silent, broken off, or with an error of their own; what the client gets."""

import asyncio
import json
import random
import socket
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import anthropic
import openai
import pytest
from anthropic_check import read_events
from gateprocess import CHAT, MESSAGES, GateProcess, request_body
from hands import ANSWER, CHAT_ANSWER, CHAT_START, START, STREAM_HEAD, Hands, Turn, chunk, delta, hold_port
from puppet import Connection
from rawclient import Client, data_of, name_of, names_of
from spoken import AFTER_ERROR, NDJSON, SPOKEN

KEY = "sk-ant-api03-AAAABBBBCCCCDDDDEEEEFFFF"
RATE_LIMITED = json.dumps({"type": "error", "error": {"type": "rate_limit_error", "message": "a busy model"}}).encode()


async def outcome_of(gate: GateProcess) -> str:
    """Of the newest request that ended."""
    await gate.wait(gate.is_idle)
    outcome: str = gate.requests("done")[0]["outcome"]
    return outcome


@pytest.fixture(scope="module")
def nobodys_port() -> Iterator[int]:
    with hold_port() as holder:
        yield int(holder.getsockname()[1])


@pytest.fixture(scope="module")
def gate_to_nobody(tmp_path_factory: pytest.TempPathFactory, nobodys_port: int) -> Iterator[GateProcess]:
    """A daemon whose only upstream refuses, until a test listens there; and whose upstream clocks are short."""
    upstream = {
        "url": f"http://127.0.0.1:{nobodys_port}",
        "models": ["m"],
        "max_concurrent": 1,
        "first_byte_timeout": "1500ms",
        "idle_timeout": "1500ms",
        "release_timeout": 0,
        "on_down": "fail",
    }
    with GateProcess(tmp_path_factory.mktemp("nobody"), {"upstreams": {"a": upstream}}) as gate:
        yield gate


async def test_f39_an_answer_that_ends_before_its_body_is_a_502_or_an_error_event(
    gate: GateProcess, hands: Hands
) -> None:
    client = await gate.ask("one")
    turn = await hands.turn()
    await turn.connection.send(STREAM_HEAD)
    turn.connection.close()
    assert names_of(await client.frames()) == ["error"]
    assert await outcome_of(gate) == "upstream_error"

    client = await gate.ask("one", stream=False)
    turn = await hands.turn()
    await turn.connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n")
    turn.connection.close()
    assert (await client.head()).status == 502
    assert (await client.json())["error"]["type"] == "api_error"
    assert await outcome_of(gate) == "upstream_error"


@pytest.mark.parametrize("stream", [True, False])
async def test_f39_the_official_clients_raise(gate: GateProcess, hands: Hands, stream: bool) -> None:
    """None takes an answer that has a head only for a success."""
    head = STREAM_HEAD if stream else b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n"
    for ask, error in ((ask_anthropic, anthropic.APIError), (ask_openai, openai.APIError)):
        asking = asyncio.ensure_future(ask(gate.url, stream))
        turn = await hands.turn()
        await turn.connection.send(head)
        turn.connection.close()
        with pytest.raises(error):
            await asking


MESSAGES_ASKED: Any = [{"role": "user", "content": "hi"}]


async def ask_anthropic(url: str, stream: bool) -> None:
    async with anthropic.AsyncAnthropic(api_key="x", base_url=f"{url}/llm", max_retries=0) as client:
        answer = await client.messages.create(model="one", max_tokens=9, messages=MESSAGES_ASKED, stream=stream)
        if isinstance(answer, anthropic.AsyncStream):
            [event async for event in answer]


async def ask_openai(url: str, stream: bool) -> None:
    async with openai.AsyncOpenAI(api_key="x", base_url=f"{url}/llm/v1", max_retries=0) as client:
        answer = await client.chat.completions.create(model="one", messages=MESSAGES_ASKED, stream=stream)
        if isinstance(answer, openai.AsyncStream):
            [chunk async for chunk in answer]


async def test_a_stream_that_ends_well_without_an_event_is_an_error_event(gate: GateProcess, hands: Hands) -> None:
    client = await gate.ask("one")
    turn = await hands.turn()
    await turn.begin(b"")
    await client.head()
    await turn.end(b"")
    assert names_of(await client.frames()) == ["error"]
    assert await outcome_of(gate) == "upstream_error"


async def test_a_stream_that_ends_well_without_its_last_event_is_an_error_event(
    gate: GateProcess, hands: Hands
) -> None:
    for path, begin in ((MESSAGES, START), (CHAT, CHAT_START)):
        client = await gate.ask("one", path=path)
        turn = await hands.turn()
        await turn.begin(begin)
        await client.frame()
        await turn.end(b"")
        frames = await client.frames()
        assert any("UPSTREAM_ERROR" in frame.decode() for frame in frames)
        assert b"message_stop" not in client.received
        assert await outcome_of(gate) == "upstream_error"


async def test_a_connection_that_closes_before_the_headers_is_a_502(gate: GateProcess, hands: Hands) -> None:
    for path in (MESSAGES, CHAT):
        client = await gate.ask("one", path=path)
        turn = await hands.turn()
        turn.connection.reset()
        head = await client.head()
        assert (head.status, head.headers["llmgate-code"]) == (502, "UPSTREAM_ERROR")
        assert "(UPSTREAM_ERROR)" in (await client.json())["error"]["message"]
        assert await outcome_of(gate) == "upstream_error"
    assert len(hands.requests) == 2, "a request that was written is never sent twice"


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 502, 503, 504, 529])
async def test_f38_an_upstreams_error_keeps_its_status_while_nothing_was_sent(
    gate: GateProcess, hands: Hands, status: int
) -> None:
    client = await gate.ask("one")
    turn = await hands.turn()
    await turn.answer(status, RATE_LIMITED, b"retry-after: 7\r\nset-cookie: a=b\r\naccess-control-allow-origin: *\r\n")
    head = await client.head()
    assert head.status == status
    assert head.headers["retry-after"] == "7"
    assert not {"set-cookie", "access-control-allow-origin"} & head.headers.keys()
    assert await client.body() == RATE_LIMITED
    expected = "completed" if status < 500 and status != 429 else "upstream_error"
    assert await outcome_of(gate) == expected


@pytest.mark.parametrize("path", [MESSAGES, CHAT])
async def test_f38_an_upstreams_error_after_queue_frames_is_an_error_event_with_its_message(
    gate: GateProcess, hands: Hands, path: str
) -> None:
    await gate.ask("one")
    running = await hands.turn()
    client = await gate.ask("one", path=path)
    await client.frame()
    await running.complete()
    body = json.dumps({"error": {"message": f"no, not with {KEY}", "type": "x", "code": 7}}).encode()
    await (await hands.turn()).answer(429, body)
    error, *rest = await client.frames()
    fault = data_of(error)["error"]
    assert fault["message"].startswith("no, not with ")
    assert KEY not in error.decode()
    if path == MESSAGES:
        assert (name_of(error), fault["type"], rest) == ("error", "rate_limit_error", [])
    else:
        assert rest == [b"data: [DONE]\n\n"]


async def test_an_error_of_another_shape_is_put_into_the_surfaces_shape(gate: GateProcess, hands: Hands) -> None:
    client = await gate.ask("one")
    body = json.dumps({"error": {"code": 500, "message": "'messages' is required", "type": "server_error"}}).encode()
    await (await hands.turn()).answer(500, body)
    assert (await client.head()).status == 400
    document = await client.json()
    assert (document["type"], document["error"]["type"]) == ("error", "invalid_request_error")
    assert document["error"]["message"] == "'messages' is required"


async def test_an_error_event_of_the_upstream_is_passed_on_and_counted(gate: GateProcess, hands: Hands) -> None:
    client = await gate.ask("one")
    turn = await hands.turn()
    await turn.begin(START + b"event: error\ndata: " + RATE_LIMITED + b"\n\n")
    await client.until("error")
    await turn.end(b"")
    assert await client.frames() == []
    assert client.received.endswith(RATE_LIMITED + b"\n\n")
    assert await outcome_of(gate) == "upstream_error"


@pytest.mark.parametrize("path", [MESSAGES, CHAT])
@pytest.mark.parametrize("way", ["close", "reset", "two segments"])
@pytest.mark.timeout(600)
async def test_f40_a_stream_cut_at_each_byte_gives_whole_events_and_an_error(
    gate: GateProcess, hands: Hands, path: str, way: str
) -> None:
    whole = (ANSWER if path == MESSAGES else CHAT_ANSWER)[: -len(b"data: [DONE]\n\n")]
    for offset in range(len(whole) + 1):
        await assert_cut_well(gate, hands, path, whole, offset, way)


async def assert_cut_well(
    gate: GateProcess, hands: Hands, path: str, whole: bytes, offset: int, way: str = "close"
) -> None:
    await gate.wait(gate.is_idle)
    client = await gate.ask("one", path=path)
    turn = await hands.turn()
    await send_cut(turn, whole[:offset], way)
    frames = await client.frames()
    ends = 1 if path == MESSAGES else 2
    passed, error = b"".join(frames[:-ends]), frames[-ends]
    assert whole.startswith(passed), offset
    if way != "reset":
        assert passed == whole[: whole[:offset].rfind(b"\n\n") + 2 if b"\n\n" in whole[:offset] else 0], offset
    assert "UPSTREAM_ERROR" in data_of(error)["error"]["message"]
    if path == MESSAGES:
        assert [name for name, _ in read_events(client.received)][-1] == "error"
    else:
        assert frames[-1] == b"data: [DONE]\n\n"


async def send_cut(turn: Turn, data: bytes, way: str) -> None:
    half = len(data) // 2 if way == "two segments" else 0
    pieces = [piece for piece in (data[:half], data[half:]) if piece]
    await turn.connection.send(STREAM_HEAD, *map(chunk, pieces))
    (turn.connection.reset if way == "reset" else turn.connection.close)()


@pytest.mark.parametrize("step", [29, pytest.param(3, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
@pytest.mark.parametrize("path", [path for path, spoken in SPOKEN.items() if spoken.stream])
async def test_f40_on_every_other_surface(gate: GateProcess, hands: Hands, path: str, step: int) -> None:
    spoken = SPOKEN[path]
    whole = spoken.stream.removesuffix(b"data: [DONE]\n\n")
    marks = [b"error", *([AFTER_ERROR[path]] if path in AFTER_ERROR else [])]
    end, read = (b"\n", Client.line) if spoken.content_type == NDJSON else (b"\n\n", Client.frame)
    for offset in range(0, len(whole), step):
        client = await gate.ask("one", path=path)
        turn = await hands.turn()
        await turn.begin(whole[:offset])
        turn.connection.close()
        told = []
        while piece := await read(client):
            told.append(piece)
        passed = whole[: whole.rfind(end, 0, offset) + len(end)] if end in whole[:offset] else b""
        first = next(number for number, piece in enumerate(told) if b"UPSTREAM_ERROR" in piece)
        assert b"".join(told[:first]) == passed, offset
        assert [mark in piece for mark, piece in zip(marks, told[first:], strict=True)] == [True] * len(marks)
        await gate.wait(gate.is_idle)


async def test_f46_broken_framing_is_never_reused(gate: GateProcess, hands: Hands) -> None:
    client = await gate.ask("one", stream=False)
    turn = await hands.turn()
    await turn.connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\nok")
    assert (await client.head()).status == 502
    await turn.wait_closed()
    await gate.wait(gate.is_idle)
    client = await gate.ask("one")
    await (await hands.turn()).complete()
    assert await client.body() == ANSWER


@pytest.mark.parametrize("rounds", [200, pytest.param(1000, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
async def test_f51_an_idle_connection_that_the_server_closes_as_it_is_used(
    gate: GateProcess, hands: Hands, rounds: int
) -> None:
    """The server reads on after its FIN, so that it sees whatever came too late: that is an error, and not sent again.

    What comes on a new connection is answered as ever."""
    dice = random.Random(rounds)
    closed: set[Connection] = set()
    ends: Counter[int] = Counter()
    idle: Connection | None = None
    for number in range(rounds):
        steps = [partial(gate.ask, "one", stream=False, number=number), partial(close_half, idle, closed)]
        if dice.random() < 0.7:
            steps.reverse()
        came = [await step() for step in steps]
        (client,) = [one for one in came if one is not None]
        turn = await hands.turn()
        assert turn.fields["number"] == number
        if turn.connection in closed:
            turn.connection.close()
        else:
            await turn.complete()
        status = (await client.head()).status
        assert status == (502 if turn.connection in closed else 200)
        ends[status] += 1
        client.fin()
        idle = turn.connection if status == 200 else None
    assert [json.loads(request.body)["number"] for request in hands.requests] == list(range(rounds))
    assert ends[200] > rounds // 2


async def close_half(connection: Connection | None, closed: set[Connection]) -> None:
    """FIN, and it goes on reading."""
    if connection is not None and connection.is_open:
        closed.add(connection)
        connection.transport.get_extra_info("socket").shutdown(socket.SHUT_WR)


async def test_a_server_that_closes_after_each_answer_is_served(gate: GateProcess, hands: Hands) -> None:
    for _ in range(5):
        client = await gate.ask("one", stream=False)
        turn = await hands.turn()
        await turn.connection.send(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{}")
        turn.connection.close()
        assert await client.body() == b"{}"
        assert await outcome_of(gate) == "completed"


async def test_f53_headers_of_the_connection_and_of_its_origin_stay_behind(gate: GateProcess, hands: Hands) -> None:
    client = await gate.ask("one", stream=False)
    turn = await hands.turn()
    await turn.answer(
        200,
        b"{}",
        b"connection: x-foo\r\nx-foo: 1\r\nkeep-alive: timeout=5\r\nset-cookie: a=b\r\nserver: llama.cpp\r\n"
        b"access-control-allow-origin: http://evil\r\nrequest-id: req_9\r\nanthropic-ratelimit-requests-limit: 3\r\n",
    )
    headers = (await client.head()).headers
    assert await client.body() == b"{}"
    assert headers.keys() == {
        "content-type",
        "content-length",
        "request-id",
        "anthropic-ratelimit-requests-limit",
        "llmgate-request-id",
        "llmgate-upstream",
    }


async def test_a_streaming_request_may_be_answered_whole_while_nothing_was_sent(
    gate: GateProcess, hands: Hands
) -> None:
    client = await gate.ask("one")
    await (await hands.turn()).answer(200, b'{"type":"message"}')
    head = await client.head()
    assert (head.status, head.headers["content-type"]) == (200, "application/json")
    assert await client.body() == b'{"type":"message"}'


async def test_a_streaming_request_answered_whole_after_queue_frames_is_an_error(
    gate: GateProcess, hands: Hands
) -> None:
    await gate.ask("one")
    running = await hands.turn()
    client = await gate.ask("one")
    await client.frame()
    await running.complete()
    await (await hands.turn()).answer(200, b'{"type":"message"}')
    assert names_of(await client.frames()) == ["error"]


async def test_refused_connections_are_told_in_each_shape(gate_to_nobody: GateProcess) -> None:
    """Twenty at once on one slot, streaming and not: each gets its 503 or its error event."""
    gate = gate_to_nobody
    bodies = [(path, stream) for path in (MESSAGES, CHAT) for stream in (True, False)] * 5
    clients = [(await gate.ask("m", path=path, stream=stream), path) for path, stream in bodies]
    for client, path in clients:
        head = await client.head()
        if head.status == 200:
            frames = await client.frames()
            error = frames[-1] if path == MESSAGES else frames[-2]
            assert "UPSTREAM_DOWN" in data_of(error)["error"]["message"]
            continue
        assert (head.status, head.headers["llmgate-code"]) == (503, "UPSTREAM_DOWN")
        fault = (await client.json())["error"]
        assert fault["type" if path == MESSAGES else "code"] in ("overloaded_error", "UPSTREAM_DOWN")
    await gate.wait(gate.is_idle)
    assert {request["outcome"] for request in gate.requests("done")} == {"upstream_down"}
    assert gate.upstream("a")["failed"] == 20


async def test_a_server_that_comes_up_later_is_used(gate_to_nobody: GateProcess, nobodys_port: int) -> None:
    client = await gate_to_nobody.ask("m")
    assert (await client.head()).status == 503
    async with Hands(nobodys_port) as hands:
        client = await gate_to_nobody.ask("m")
        await (await hands.turn()).complete()
        assert await client.body() == ANSWER


async def test_upstream_clocks_run_from_dispatch_on(gate_to_nobody: GateProcess, nobodys_port: int) -> None:
    """first_byte_timeout and idle_timeout are 1.5 s here; waiting longer than that in the queue costs nothing."""
    gate = gate_to_nobody
    async with Hands(nobodys_port) as hands:
        silent = await gate.ask("m")
        turn = await hands.turn()
        waiting = await gate.ask("m")
        head = await silent.head()
        assert (head.status, (await silent.json())["error"]["type"]) == (504, "timeout_error")
        await turn.wait_closed()
        turn = await hands.turn()
        await turn.begin(START)
        assert names_of(await waiting.frames())[-1] == "error"
        await turn.wait_closed()
        await gate.wait(gate.is_idle)
        assert [request["outcome"] for request in gate.requests("done")[:2]] == ["upstream_timeout"] * 2


async def test_large_answers_come_through_whole(gate: GateProcess, hands: Hands) -> None:
    pieces = [delta(str(number) * 50_000) for number in range(10)] * 4
    client = await gate.ask("one")
    turn = await hands.turn()
    await turn.begin(START)
    reading = asyncio.ensure_future(client.body())
    for piece in pieces:
        await turn.connection.send(*(chunk(piece)[start : start + 7001] for start in range(0, len(piece) + 12, 7001)))
    await turn.end()
    body = await reading
    assert body.startswith(START + b"".join(pieces))
    assert await outcome_of(gate) == "completed"


async def test_a_request_of_a_megabyte_reaches_the_server_whole(gate: GateProcess, hands: Hands) -> None:
    body = request_body("one", padding="x" * 1_000_000)
    client = await Client.connect(gate.port)
    client.post(MESSAGES, body)
    turn = await hands.turn()
    assert turn.request.body == body
    await turn.complete()
    assert await client.body() == ANSWER
