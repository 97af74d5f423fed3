"""QUEUE_FULL and QUEUE_TIMEOUT, with the status, body and headers that clients need in order not to ask again."""

import json
import re
from typing import Any

import pytest
from gateprocess import CHAT, MESSAGES, GateProcess
from hands import ANSWER, Hands
from rawclient import Client, data_of, name_of, positions_of

PATHS = (MESSAGES, CHAT)
STREAM = (True, False)


def assert_says(message: str, code: str) -> None:
    """Fixed text without any number and without the word quota: clients sort errors by words."""
    assert message.startswith("llmgate: ")
    assert message.endswith(f"({code})")
    assert not re.search(r"\d|quota", message)


async def assert_queue_full(client: Client, path: str, upstream: str) -> dict[str, str]:
    """The whole answer; its headers."""
    head = await client.head()
    assert (head.status, head.headers["content-type"]) == (503, "application/json")
    assert head.headers["x-should-retry"] == "false"
    assert 1 <= int(head.headers["retry-after"]) <= 10
    assert head.headers["llmgate-code"] == "QUEUE_FULL"
    assert head.headers["llmgate-upstream"] == upstream
    document = await client.json()
    message = f"llmgate: the queue of upstream {upstream} is full (QUEUE_FULL)"
    if path == MESSAGES:
        error = {"type": "overloaded_error", "message": message}
        assert document == {"type": "error", "error": error, "request_id": head.headers["llmgate-request-id"]}
    else:
        fields = {"message": message, "type": "server_error", "param": None, "code": "QUEUE_FULL"}
        assert document == {"error": fields}
    return head.headers


@pytest.mark.parametrize("stream", STREAM)
@pytest.mark.parametrize("path", PATHS)
async def test_f20_beyond_max_queued_it_is_refused_at_once(
    gate: GateProcess, hands: Hands, path: str, stream: bool
) -> None:
    await gate.ask("small")
    running = await hands.turn()
    waiting = await gate.ask("small")
    assert positions_of([await waiting.frame()]) == [(1, 1)]

    refused = await gate.ask("small", path=path, stream=stream)
    headers = await assert_queue_full(refused, path, "small")
    assert (headers["llmgate-depth"], headers["llmgate-limit"]) == ("1", "1")

    await running.complete()
    await (await hands.turn()).complete()
    assert b"".join(await waiting.frames()) == ANSWER
    assert hands.untaken == 0
    told = [line for line in gate.new_log if line.startswith("llmgate: small ")]
    assert told[1] == "llmgate: small queue_full (depth 1)"


async def test_with_max_queued_0_nobody_waits(gate: GateProcess, hands: Hands) -> None:
    served = await gate.ask("none")
    running = await hands.turn()
    headers = await assert_queue_full(await gate.ask("none"), MESSAGES, "none")
    assert (headers["llmgate-depth"], headers["llmgate-limit"]) == ("0", "0")
    await running.complete()
    assert await served.body() == ANSWER


@pytest.mark.parametrize("stream", STREAM)
async def test_a_max_wait_of_0_takes_a_slot_now_or_none(gate: GateProcess, hands: Hands, stream: bool) -> None:
    served = await gate.ask("one", headers={"llmgate-max-wait": "0"})
    running = await hands.turn()
    await assert_queue_full(await gate.ask("one", stream=stream, headers={"llmgate-max-wait": "0"}), MESSAGES, "one")
    await running.complete()
    assert await served.body() == ANSWER


@pytest.mark.parametrize("path", PATHS)
async def test_f22_a_wait_that_is_too_long_ends_the_open_stream_with_an_error(
    gate: GateProcess, hands: Hands, path: str
) -> None:
    await gate.ask("hasty")
    running = await hands.turn()
    waiting = await gate.ask("hasty", path=path)
    told, *end = await waiting.frames()
    message = "llmgate: no slot of upstream hasty fell free in time (QUEUE_TIMEOUT)"
    if path == MESSAGES:
        assert (name_of(told), name_of(end[0]), len(end)) == ("queue", "error", 1)
        assert data_of(end[0])["error"] == {"type": "timeout_error", "message": message}
    else:
        assert told == b": queue 1/1\n\n"
        assert data_of(end[0])["error"] == {
            "message": message,
            "type": "server_error",
            "param": None,
            "code": "QUEUE_TIMEOUT",
        }
        assert end[1:] == [b"data: [DONE]\n\n"]
    await running.complete()
    await gate.wait(gate.is_idle)
    await hands.wait(lambda: (hands.untaken, len(hands.connections)) == (0, 1))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("model", ["hasty", "silent"])
async def test_f22_a_wait_that_is_too_long_is_a_504_where_nothing_was_sent(
    gate: GateProcess, hands: Hands, path: str, model: str
) -> None:
    """`silent` has a queue_timeout_nonstream only."""
    await gate.ask(model)
    running = await hands.turn()
    waiting = await gate.ask(model, path=path, stream=False)
    head = await waiting.head()
    assert head.status == 504
    assert head.headers["x-should-retry"] == "false"
    assert 1 <= int(head.headers["retry-after"]) <= 10
    assert head.headers["llmgate-code"] == "QUEUE_TIMEOUT"
    assert int(head.headers["llmgate-queued-ms"]) >= 300
    assert_timeout(await waiting.json(), path)
    await running.complete()
    await gate.wait(gate.is_idle)
    await hands.wait(lambda: (hands.untaken, len(hands.connections)) == (0, 1))


def assert_timeout(document: Any, path: str) -> None:
    assert_says(document["error"]["message"], "QUEUE_TIMEOUT")
    if path == MESSAGES:
        assert (document["type"], document["error"]["type"]) == ("error", "timeout_error")
    else:
        assert document["error"]["code"] == "QUEUE_TIMEOUT"


async def test_the_limit_without_a_stream_does_not_hold_for_streams(gate: GateProcess, hands: Hands) -> None:
    await gate.ask("silent")
    running = await hands.turn()
    streaming = await gate.ask("silent")
    await streaming.frame()
    silent = await gate.ask("silent", stream=False)
    assert (await silent.head()).status == 504
    await running.complete()
    await (await hands.turn()).complete()
    assert b"".join(await streaming.frames()) == ANSWER


async def test_a_client_may_shorten_its_own_wait(gate: GateProcess, hands: Hands) -> None:
    await gate.ask("one")
    running = await hands.turn()
    patient = await gate.ask("one")
    await patient.frame()
    hasty = await gate.ask("one", stream=False, headers={"llmgate-max-wait": "100ms"})
    assert (await hasty.head()).status == 504
    assert json.loads(await hasty.body())["error"]["type"] == "timeout_error"
    streaming = await gate.ask("one", headers={"llmgate-max-wait": "0.1"})
    assert name_of((await streaming.frames())[-1]) == "error"
    await running.complete()
    await (await hands.turn()).complete()
    assert b"".join(await patient.frames()) == ANSWER


async def test_a_timeout_is_counted_and_logged_once(gate: GateProcess, hands: Hands) -> None:
    before = gate.upstream("hasty")
    await gate.ask("hasty")
    running = await hands.turn()
    waiting = await gate.ask("hasty", headers={"llmgate-session": "abcdefghij"})
    await waiting.frames()
    await running.complete()
    await gate.wait(lambda: gate.upstream("hasty")["served"] == before["served"] + 1)
    assert gate.upstream("hasty")["queue_timeout"] == before["queue_timeout"] + 1
    queued, ended = gate.new_log
    assert queued == "llmgate: hasty session=abcdefgh queued (depth 1)"
    assert ended.startswith("llmgate: hasty session=abcdefgh queue_timeout after ")
