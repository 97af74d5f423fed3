"""What a client sees while it waits and when its turn comes: frames, order, headers, log."""

import asyncio
import json

from anthropic_check import faults_of, without_queue
from gateprocess import CHAT, MESSAGES, GateProcess, request_body
from hands import ANSWER, CHAT_ANSWER, START, STOP, STREAM_HEAD, Hands, chunk, delta
from rawclient import Client, data_of, name_of, names_of, positions_of


async def test_a_free_slot_gives_the_upstreams_stream_and_nothing_else(gate: GateProcess, hands: Hands) -> None:
    client = await gate.ask("one")
    await (await hands.turn()).complete()
    head = await client.head()
    assert head.status == 200
    assert head.headers["content-type"].startswith("text/event-stream")
    assert head.headers["llmgate-upstream"] == "one"
    assert head.headers["llmgate-request-id"].startswith("req_")
    assert not {"llmgate-position", "llmgate-depth", "llmgate-queued-ms"} & head.headers.keys()
    assert await client.body() == ANSWER
    assert gate.new_log == []


async def test_positions_fall_until_the_stream_begins(gate: GateProcess, hands: Hands) -> None:
    first = await gate.ask("one")
    running = await hands.turn()
    second = await gate.ask("one")
    assert positions_of([await second.frame()]) == [(1, 1)]
    third = await gate.ask("one")
    assert positions_of([await third.frame()]) == [(2, 2)]
    head = await third.head()
    assert (head.status, head.headers["llmgate-position"], head.headers["llmgate-depth"]) == (200, "2", "2")
    assert head.headers["content-type"].startswith("text/event-stream")

    await running.complete()
    running = await hands.turn()
    assert positions_of([await third.frame()]) == [(1, 1)]
    await running.complete()
    await (await hands.turn()).complete()

    assert await first.body() == ANSWER
    assert names_of(await second.frames())[:2] == ["message_start", "content_block_start"]
    assert names_of(await third.frames())[:2] == ["message_start", "content_block_start"]
    assert without_queue(third.received) == ANSWER
    assert faults_of(without_queue(third.received)) == []
    assert hands.untaken == 0


async def test_a_queue_frame_has_exactly_the_documented_form(gate: GateProcess, hands: Hands) -> None:
    await gate.ask("one")
    running = await hands.turn()
    waiting = await gate.ask("one")
    frame = await waiting.frame()
    data = data_of(frame)
    assert frame == b"event: queue\ndata: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"
    assert [key for key in data if key != "eta_ms"] == ["type", "position", "depth", "waited_ms"]
    assert data["type"] == "ping"
    assert data["waited_ms"] >= 0
    await running.complete()
    await (await hands.turn()).complete()
    await waiting.frames()


async def test_a_queue_frame_estimates_the_wait_once_some_requests_have_run(gate: GateProcess, hands: Hands) -> None:
    for _ in range(5):
        client = await gate.ask("one")
        await (await hands.turn()).complete()
        await client.frames()
    await gate.ask("one")
    running = await hands.turn()
    first, second = await gate.ask("one"), await gate.ask("one")
    told = [data_of(await client.frame()) for client in (first, second)]
    await running.complete()
    for _ in range(2):
        await (await hands.turn()).complete()
    for client in (first, second):
        await client.frames()
    assert all(data["eta_ms"] >= 0 for data in told)  # what it is: tests/admission/local/test_eta.py


async def test_the_middle_one_that_leaves_moves_the_last_one_up_once(gate: GateProcess, hands: Hands) -> None:
    await gate.ask("one")
    running = await hands.turn()
    waiting = [await gate.ask("one", metadata={"user_id": name}) for name in "abc"]
    for number, client in enumerate(waiting, 1):
        assert positions_of([await client.frame()]) == [(number, number)]
    waiting[1].fin()
    assert positions_of([await waiting[2].frame()]) == [(2, 2)]
    await running.complete()
    running = await hands.turn()
    assert running.fields["metadata"]["user_id"] == "a"
    assert positions_of([await waiting[2].frame()]) == [(1, 1)]
    await running.complete()
    running = await hands.turn()
    assert running.fields["metadata"]["user_id"] == "c"
    await running.complete()
    assert names_of(await waiting[0].frames())[0] == "message_start"
    assert names_of(await waiting[2].frames())[0] == "message_start"
    assert hands.untaken == 0


async def show_that_connections_are_kept(gate: GateProcess, hands: Hands) -> None:
    """Only from a server that was seen to keep one after a stream does the gate take it at once for the next."""
    first = await gate.ask("one")
    await (await hands.turn()).complete()
    await first.frames()
    await asyncio.sleep(0.2)


async def test_the_others_are_told_after_the_dispatch_of_the_next(gate: GateProcess, hands: Hands) -> None:
    """In nearly all of 20 rounds: what is sent first is read first, but for a turn of this process's own loop."""
    await show_that_connections_are_kept(gate, hands)
    await gate.ask("one")
    turn = await hands.turn()
    following = await gate.ask("one")
    await following.frame()
    upstream_first = 0
    for _ in range(20):
        behind = await gate.ask("one")
        assert positions_of([await behind.frame()]) == [(2, 2)]
        await turn.complete()
        turn = await hands.turn()
        assert positions_of([await behind.frame()]) == [(1, 1)]
        upstream_first += turn.read_at < behind.read_at
        following = behind
    await turn.complete()
    await (await hands.turn()).complete()
    await following.frames()
    assert upstream_first >= 16


async def test_the_next_request_is_sent_before_the_old_client_has_its_last_bytes(
    gate: GateProcess, hands: Hands
) -> None:
    """In nearly all of 20 rounds: what is sent first is read first, but for a turn of this process's own loop."""
    await show_that_connections_are_kept(gate, hands)
    old = await gate.ask("one")
    turn = await hands.turn()
    upstream_first = 0
    for _ in range(20):
        new = await gate.ask("one")
        await new.frame()
        await turn.begin()
        await old.until("content_block_start")
        await turn.end(delta("x") + STOP)
        turn = await hands.turn()
        assert names_of(await old.frames())[-1] == "message_stop"
        upstream_first += turn.read_at < old.read_at
        old = new
    await turn.complete()
    await old.frames()
    assert upstream_first >= 16


async def test_chat_completions_are_told_by_comments_only(gate: GateProcess, hands: Hands) -> None:
    await gate.ask("one", path=CHAT)
    running = await hands.turn()
    second = await gate.ask("one", path=CHAT)
    third = await gate.ask("one", path=CHAT)
    assert await second.frame() == b": queue 1/1\n\n"
    assert await third.frame() == b": queue 2/2\n\n"
    await running.complete()
    running = await hands.turn()
    assert await third.frame() == b": queue 1/1\n\n"
    await running.complete()
    await (await hands.turn()).complete()
    assert b"".join(await second.frames()) == CHAT_ANSWER
    assert b"".join(await third.frames()) == CHAT_ANSWER


async def test_without_a_stream_it_waits_in_silence_then_answers_whole(gate: GateProcess, hands: Hands) -> None:
    await gate.ask("one")
    running = await hands.turn()
    waiting = {path: await gate.ask("one", path=path, stream=False) for path in (MESSAGES, CHAT)}
    await gate.wait_waiting("one", 2)
    await running.complete()
    for client in waiting.values():
        await (await hands.turn()).answer(body=b'{"whole": [1, 2]}')
        head = await client.head()
        assert (head.status, head.headers["content-type"]) == (200, "application/json")
        assert int(head.headers["llmgate-queued-ms"]) > 0
        assert "llmgate-position" in head.headers
        assert await client.body() == b'{"whole": [1, 2]}'


async def test_only_who_waits_is_logged_with_session_and_purpose(gate: GateProcess, hands: Hands) -> None:
    at_once = await gate.ask("one", headers={"llmgate-session": "nobody-sees-this"})
    running = await hands.turn()
    waiting = await gate.ask(
        "one", headers={"llmgate-session": "a61e6e40-7d2c-4a55", "llmgate-purpose": "session-title"}
    )
    plain = await gate.ask("one")
    await plain.frame()
    for _ in range(2):
        await running.complete()
        running = await hands.turn()
    await running.complete()
    for client in (at_once, waiting, plain):
        await client.body()
    who = "llmgate: one session=a61e6e40 purpose=session-title"
    lines = gate.new_log
    assert lines[0] == f"{who} queued (depth 1)"
    assert lines[1] == "llmgate: one queued (depth 2)"
    assert lines[2].startswith(f"{who} dispatched after ")
    assert lines[2].endswith("ms")
    assert lines[3].startswith("llmgate: one dispatched after ")
    assert len(lines) == 4


async def test_a_client_may_ask_for_comments_or_for_nothing(gate: GateProcess, hands: Hands) -> None:
    await gate.ask("one")
    running = await hands.turn()
    on = await gate.ask("one", headers={"llmgate-queue-events": "on"})
    assert name_of(await on.frame()) == "queue"
    comment = await gate.ask("one", headers={"llmgate-queue-events": "comment"})
    assert await comment.frame() == b": queue 2/2\n\n"
    off = await gate.ask("one", headers={"llmgate-queue-events": "off"})
    await gate.wait_waiting("one", 3)
    await running.complete()
    running = await hands.turn()
    assert await comment.frame() == b": queue 1/2\n\n"
    for _ in range(2):
        await running.complete()
        running = await hands.turn()
    await running.complete()
    assert b"".join(await on.frames()) == ANSWER
    assert b"".join(await comment.frames()) == ANSWER
    assert await off.body() == ANSWER


async def test_an_unknown_wish_is_a_bad_request(gate: GateProcess) -> None:
    for name, value in (("llmgate-queue-events", "maybe"), ("llmgate-max-wait", "soon")):
        client = await gate.ask("one", headers={name: value})
        assert (await client.head()).status == 400
        assert (await client.json())["error"]["type"] == "invalid_request_error"


async def test_models_of_one_upstream_share_its_cap(gate: GateProcess, hands: Hands) -> None:
    await gate.ask("one")
    running = await hands.turn()
    other = await gate.ask("one-other")
    assert positions_of([await other.frame()]) == [(1, 1)]
    elsewhere = await gate.ask("two")
    await (await hands.turn()).complete()
    assert await elsewhere.body() == ANSWER
    await running.complete()
    turn = await hands.turn()
    assert turn.fields["model"] == "one-other"
    await turn.complete()
    assert b"".join(await other.frames()) == ANSWER


async def test_f29_an_upstream_that_is_not_gated_takes_a_hundred_at_once(gate: GateProcess, hands: Hands) -> None:
    clients = [await gate.ask("free") for _ in range(100)]
    turns = [await hands.turn() for _ in clients]
    assert gate.upstream("free")["running"] == 100
    for turn in turns:
        await turn.complete()
    for client in clients:
        assert await client.body() == ANSWER
        assert "llmgate-position" not in (await client.head()).headers
    assert gate.new_log == []


async def test_an_alias_changes_the_model_and_no_other_byte(gate: GateProcess, hands: Hands) -> None:
    body = b'{ "model" : "nickname" ,"stream":true,  "messages":[{"content":"h\\u00e9 \\ud83d\\ude00"}],"x":1.50}'
    aliased = await Client.connect(gate.port)
    aliased.post(MESSAGES, body)
    turn = await hands.turn()
    assert turn.request.body == body.replace(b'"nickname"', b'"one-real"')
    await turn.complete()
    assert await aliased.body() == ANSWER


async def test_a_body_without_an_alias_goes_on_byte_for_byte(gate: GateProcess, hands: Hands) -> None:
    body = b'{"a": 1.0e3,  "model":"one-of-a-glob","stream" :true,"messages":[ ], "b":"\\/"}'
    globbed = await Client.connect(gate.port)
    globbed.post(
        MESSAGES + "?beta=true", body, {"anthropic-beta": "x", "authorization": "Bearer secret", "cookie": "c"}
    )
    turn = await hands.turn()
    assert turn.request.body == body
    assert turn.request.line == b"POST /v1/messages?beta=true HTTP/1.1"
    assert turn.request.header(b"anthropic-beta") == b"x"
    assert b"Bearer secret" not in turn.request.head
    assert turn.request.header(b"cookie") is None
    assert turn.request.header(b"llmgate-request-id") is not None
    await turn.complete()
    assert await globbed.body() == ANSWER


async def test_the_httpx_transport_serves_the_same(gate: GateProcess, hands: Hands) -> None:
    first = await gate.ask("httpx")
    running = await hands.turn()
    second = await gate.ask("httpx")
    assert positions_of([await second.frame()]) == [(1, 1)]
    await running.complete()
    await (await hands.turn()).complete()
    assert await first.body() == ANSWER
    assert b"".join(await second.frames()) == ANSWER


async def test_frames_leave_as_they_come(gate: GateProcess, hands: Hands) -> None:
    """Nothing waits for the next piece of the upstream: each event is read before the next is sent."""
    client = await gate.ask("one")
    turn = await hands.turn()
    await turn.begin(START)
    assert names_of([await client.frame(), await client.frame()]) == ["message_start", "content_block_start"]
    for word in ("a", "b", "c"):
        await turn.say(delta(word))
        assert await client.frame() == delta(word)
    await turn.end(STOP)
    assert names_of(await client.frames()) == ["content_block_stop", "message_delta", "message_stop"]


async def test_one_connection_serves_one_request_after_the_other(gate: GateProcess, hands: Hands) -> None:
    client = await gate.ask("one", stream=False)
    await (await hands.turn()).answer(body=b"{}")
    assert await client.body() == b"{}"
    await hands.wait(lambda: len(hands.connections) == 1)
    client.post(MESSAGES, request_body("one", stream=False))
    await (await hands.turn()).answer(body=b'{"a":1}')
    client.next_answer()
    assert await client.body() == b'{"a":1}'
    await hands.wait(lambda: len(hands.connections) == 1)


async def test_an_answer_that_comes_in_one_piece_is_as_good_as_any(gate: GateProcess, hands: Hands) -> None:
    """Head, events and end in one segment, for one that waited and for one that did not."""
    at_once = await gate.ask("one")
    turn = await hands.turn()
    waited = await gate.ask("one")
    await waited.frame()
    await turn.connection.send(STREAM_HEAD + chunk(ANSWER) + chunk(b""))
    turn = await hands.turn()
    await turn.connection.send(STREAM_HEAD + chunk(ANSWER) + chunk(b""))
    assert await at_once.body() == ANSWER
    assert b"".join(await waited.frames()) == ANSWER
    await gate.wait(gate.is_idle)
    assert [request["outcome"] for request in gate.requests("done")[:2]] == ["completed", "completed"]
