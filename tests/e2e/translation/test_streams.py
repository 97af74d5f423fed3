"""What a client of Anthropic Messages gets as a stream from a server that speaks chat completions only."""

import json
import random
from collections.abc import Iterable

import pytest
from anthropic_check import faults_of, without_queue
from anthropic_message import Seen, seen_in
from chatserver import ChatServer, play
from gateprocess import GateProcess
from hands import CHAT_ANSWER, CHAT_START, CHAT_WHOLE, Turn
from rawclient import Client, data_of, name_of, names_of, positions_of

from tests.protocols.translate.openai_streams import CASES, Case, end, say, sse, think, tool
from tests.protocols.translate.openai_streams import call as call_chunk

SHORT = {name: case for name, case in CASES.items() if len(case.stream) < 100_000}
HELLO = [{"type": "text", "text": "Hello"}]


def seen_by(client: Client) -> Seen:
    """What came, without queue frames and signs of life."""
    return seen_in(without_queue(client.received))


def named(content: list[dict[str, object]]) -> list[dict[str, object]]:
    """Ids that llmgate made are made of the request's."""
    return [{**block, "id": "made"} if str(block.get("id")).startswith("toolu_") else block for block in content]


async def replay(gate: GateProcess, server: ChatServer, case: Case, ends: Iterable[int] = ()) -> Seen:
    client = await gate.ask("crowd", stop_sequences=list(case.asked))
    await play(await server.turn(), case.stream, ends)
    await client.frames()
    return seen_by(client)


def check_case(case: Case, seen: Seen) -> None:
    assert seen.faults == []
    assert named(seen.content) == named(case.content)
    assert (seen.stop_reason, seen.stop_sequence) == (case.stop, case.stop_sequence)
    if case.usage is not None and case.usage["input_tokens"] != 11:  # an estimate, of another request
        assert seen.usage == case.usage
    assert (seen.error is None) == (case.error is None)
    if seen.error is not None and case.error is not None:
        assert seen.error["type"] == case.error[0]
        assert case.error[1] in seen.error["message"]


async def test_every_stream_of_the_table(gate: GateProcess, server: ChatServer) -> None:
    """Each as the server's one piece, or cut at random places."""
    chance = random.Random(5)
    for name, case in SHORT.items():
        ends = [chance.randrange(len(case.stream) + 1) for _ in range(chance.choice([0, 0, 3, 20]))]
        try:
            check_case(case, await replay(gate, server, case, ends))
        except AssertionError as error:
            raise AssertionError(f"{name}, cut at {ends}") from error
    assert set(server.asked) == {"/v1/chat/completions"}


@pytest.mark.parametrize("name", ["reasoning, text, two tools", "an error in the middle"])
async def test_streams_byte_by_byte(gate: GateProcess, server: ChatServer, name: str) -> None:
    case = CASES[name]
    check_case(case, await replay(gate, server, case, range(len(case.stream))))


# ---- streams that break off

LONG = [
    think("hm"),
    say("Let me look."),
    call_chunk(tool(0, "f", '{"a":', id="call_a")),
    call_chunk(tool(0, None, '"Rüsselsheim"}')),
    *end("tool_calls"),
]
LONG_STREAM = sse(*LONG)


@pytest.mark.parametrize("how", ["close", "reset", "end"])
async def test_a_stream_that_breaks_off_ends_with_an_error_and_never_with_an_end(
    gate: GateProcess, server: ChatServer, how: str
) -> None:
    """Anywhere before its finish_reason; a reset may also lose what was not read yet."""
    told = LONG_STREAM.index(b'"finish_reason": "tool_calls"')
    places = range(0, told, told // 12)
    for place in places:
        client = await gate.ask("openai")
        turn = await server.turn()
        await turn.begin(LONG_STREAM[:place])
        if how == "end":
            await turn.end(b"")
        else:
            await client.head()
            getattr(turn.connection, how)()
        await client.frames()
        seen = seen_by(client)
        assert (seen.faults, seen.stop_reason) == ([], None)
        assert seen.error is not None
        assert "(UPSTREAM_ERROR)" in seen.error["message"]
        assert b"message_stop" not in client.received
    outcomes = [view["outcome"] for view in gate.requests("done")[: len(places)]]
    assert set(outcomes) == {"upstream_error"}


async def test_what_came_before_the_break_is_passed_on(gate: GateProcess, server: ChatServer) -> None:
    client = await gate.ask("openai")
    turn = await server.turn()
    await turn.begin(sse(*LONG[:3]))
    assert [name_of(frame) for frame in await client.until("message_start")] == ["message_start"]
    while b'"partial_json"' not in client.received:
        await client.frame()
    turn.connection.reset()
    assert names_of(await client.frames())[-1] == "error"
    seen = seen_by(client)
    assert [block["type"] for block in seen.content] == ["thinking", "text", "tool_use"]


async def test_a_client_that_leaves_ends_the_servers_work(gate: GateProcess, server: ChatServer) -> None:
    client = await gate.ask("openai")
    turn = await server.turn()
    await turn.begin()
    await client.until("content_block_delta")
    client.reset()
    await turn.wait_closed()
    await gate.wait(gate.is_idle)
    assert gate.requests("done")[0]["outcome"] == "client_gone"


# ---- the queue


async def test_who_waits_is_told_its_place_and_then_gets_its_message(gate: GateProcess, server: ChatServer) -> None:
    first = await gate.ask("openai")
    turn = await server.turn()
    await turn.begin()
    second, third = await gate.ask("openai"), await gate.ask("openai")
    assert positions_of([await second.frame()]) == [(1, 1)]
    assert positions_of([await third.frame()]) == [(2, 2)]
    assert len(server.asked) == 1
    await turn.end(CHAT_ANSWER.removeprefix(CHAT_START))
    await first.frames()
    for client in (second, third):
        await (await server.turn()).complete()
        await client.frames()
        names = names_of(client.received.split(b"\n\n")[:-1])
        assert names.index("message_start") == names.count("queue") >= 1
    for client in (first, second, third):
        assert (faults_of(without_queue(client.received)), seen_by(client).content) == ([], HELLO)


async def test_a_wait_that_takes_too_long_is_told_as_elsewhere(gate: GateProcess, server: ChatServer) -> None:
    await gate.ask("hasty")
    turn = await server.turn()
    client = await gate.ask("hasty")
    frames = await client.frames()
    assert names_of(frames) == ["queue", "error"]
    assert data_of(frames[-1])["error"]["type"] == "timeout_error"
    await turn.complete()


# ---- answers that are no stream


async def test_a_plain_answer_becomes_a_stream(gate: GateProcess, server: ChatServer) -> None:
    client = await gate.ask("openai")
    await (await server.turn()).answer(200, CHAT_WHOLE)
    head = await client.head()
    assert (head.status, head.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    await client.frames()
    assert (faults_of(client.received), seen_by(client).content) == ([], HELLO)


async def test_a_plain_answer_behind_queue_frames(gate: GateProcess, server: ChatServer) -> None:
    await gate.ask("openai")
    first = await server.turn()
    client = await gate.ask("openai")
    assert name_of(await client.frame()) == "queue"
    await first.complete()
    pretty = json.dumps(json.loads(CHAT_WHOLE), indent=2).replace("\n", "\r\n").encode()
    await (await server.turn()).answer(200, pretty)
    await client.frames()
    assert seen_by(client).content == HELLO
    assert gate.requests("done")[0]["outcome"] == "completed"


@pytest.mark.parametrize("body", [b"{}", b"<html>", b'{"choices":[]}'])
@pytest.mark.parametrize("waits", [False, True])
async def test_an_answer_that_is_none(gate: GateProcess, server: ChatServer, body: bytes, waits: bool) -> None:
    """With a status where nothing was sent yet."""
    turn: Turn | None = None
    if waits:
        await gate.ask("openai")
        turn = await server.turn()
    client = await gate.ask("openai")
    if turn is not None:
        await client.frame()
        await turn.complete()
    await (await server.turn()).answer(200, body)
    head = await client.head()
    told = data_of((await client.frames())[-1]) if waits else await client.json()
    assert (head.status, told["error"]["type"]) == (200 if waits else 502, "api_error")
    assert "(UPSTREAM_ERROR)" in told["error"]["message"]
