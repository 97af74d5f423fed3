"""What a client of Anthropic Messages gets without a stream, and which error, from a server that speaks chat only."""

import json
from typing import Any

import pytest
from chatserver import ChatServer
from gateprocess import GateProcess
from hands import CHAT_WHOLE
from rawclient import data_of, name_of

from tests.protocols.translate.openai_streams import tool

USAGE = {"prompt_tokens": 25, "completion_tokens": 6, "prompt_tokens_details": {"cached_tokens": 20}}


def completion(message: dict[str, Any], finish: str = "stop", **choice: Any) -> bytes:
    choices = [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish, **choice}]
    fields = {"id": "c1", "object": "chat.completion", "created": 0, "model": "theirs", "usage": USAGE}
    return json.dumps({**fields, "choices": choices}, indent=1).encode()


async def test_a_message(gate: GateProcess, server: ChatServer) -> None:
    calls = [tool(None, "f", '{"a":1}', id="call_a", type="function")]
    body = completion({"content": "t", "reasoning_content": "r", "tool_calls": calls}, "tool_calls")
    client = await gate.ask("openai", stream=False)
    await (await server.turn()).answer(200, body, b"x-request-id: up-1\r\nopenai-processing-ms: 5\r\n")
    head = await client.head()
    message = await client.json()
    assert (head.status, head.headers["content-type"]) == (200, "application/json")
    assert head.headers["x-request-id"] == "up-1"
    assert message.pop("id") == "msg_" + head.headers["llmgate-request-id"].removeprefix("req_")
    thinking = message["content"].pop(0)
    assert (thinking["type"], thinking["thinking"], bool(thinking["signature"])) == ("thinking", "r", True)
    assert message == {
        "type": "message",
        "role": "assistant",
        "model": "openai",
        "content": [
            {"type": "text", "text": "t"},
            {"type": "tool_use", "id": "call_a", "name": "f", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "cache_read_input_tokens": 20, "output_tokens": 6},
    }


@pytest.mark.parametrize(
    ("finish", "choice", "reason", "sequence"),
    [
        ("length", {}, "max_tokens", None),
        ("content_filter", {}, "refusal", None),
        ("stop", {"stop_reason": "END"}, "stop_sequence", "END"),
    ],
)
async def test_why_it_ended(
    gate: GateProcess, server: ChatServer, finish: str, choice: dict[str, Any], reason: str, sequence: str | None
) -> None:
    client = await gate.ask("openai", stream=False, stop_sequences=["END"])
    await (await server.turn()).answer(200, completion({"content": "a"}, finish, **choice))
    message = await client.json()
    assert (message["stop_reason"], message["stop_sequence"]) == (reason, sequence)


async def test_one_that_waited_tells_how_long(gate: GateProcess, server: ChatServer) -> None:
    await gate.ask("openai")
    first = await server.turn()
    client = await gate.ask("openai", stream=False)
    await gate.wait_waiting("openai", 1)
    await first.complete()
    await (await server.turn()).complete()
    head = (await client.head()).headers
    assert (head["llmgate-position"], head["llmgate-depth"]) == ("1", "1")
    assert int(head["llmgate-queued-ms"]) >= 0
    assert (await client.json())["content"] == [{"type": "text", "text": "Hello"}]


@pytest.mark.parametrize("body", [b"", b"{}", b"data: {}\n\n", b'{"choices":[]}', CHAT_WHOLE[:-1]])
async def test_an_answer_that_is_none(gate: GateProcess, server: ChatServer, body: bytes) -> None:
    client = await gate.ask("openai", stream=False)
    await (await server.turn()).answer(200, body)
    assert ((await client.head()).status, (await client.json())["error"]["type"]) == (502, "api_error")
    assert gate.requests("done")[0]["outcome"] == "upstream_error"


async def test_half_an_answer_is_none(gate: GateProcess, server: ChatServer) -> None:
    client = await gate.ask("openai", stream=False)
    turn = await server.turn()
    await turn.connection.send(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n", CHAT_WHOLE
    )
    turn.connection.close()
    assert ((await client.head()).status, (await client.json())["error"]["type"]) == (502, "api_error")


# ---- the server's errors

OVERFLOWS = [
    {
        "code": 400,
        "message": "the request exceeds the available context size",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 5000,
        "n_ctx": 4096,
    },
    {
        "message": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
        "type": "BadRequestError",
        "code": 400,
    },
]
LONG = "prompt is too long: 5000 tokens > 4096 maximum"
ERRORS: list[tuple[int, object, int, str, str]] = [
    *((400, {"error": overflow}, 400, "invalid_request_error", LONG) for overflow in OVERFLOWS),
    (400, {"error": {"message": "bad tool"}}, 400, "invalid_request_error", "bad tool"),
    (401, {"error": {"message": "no key"}}, 401, "authentication_error", "no key"),
    (404, {"error": {"message": "The model `x` does not exist."}}, 404, "not_found_error", "The model `x` does not"),
    (404, {"detail": "Not Found"}, 404, "not_found_error", "Not Found"),
    (422, {"detail": [{"msg": "Field required"}]}, 422, "invalid_request_error", "Field required"),
    (429, {"error": {"message": "slowly"}}, 429, "rate_limit_error", "slowly"),
    (500, {"error": {"message": "broken"}}, 500, "api_error", "broken"),
    (503, {"error": {"message": "Busy", "type": "unavailable_error"}}, 503, "overloaded_error", "Busy"),
    (504, {"error": "late"}, 504, "timeout_error", "late"),
]
every_error = pytest.mark.parametrize(("status", "body", "shown", "kind", "message"), ERRORS, ids=range(len(ERRORS)))


@every_error
@pytest.mark.parametrize("stream", [True, False])
async def test_its_status_is_kept_and_its_text(
    gate: GateProcess, server: ChatServer, stream: bool, status: int, body: object, shown: int, kind: str, message: str
) -> None:
    client = await gate.ask("openai", stream=stream)
    await (await server.turn()).answer(status, json.dumps(body).encode(), b"retry-after: 7\r\n")
    head = await client.head()
    told = await client.json()
    assert (head.status, head.headers["retry-after"]) == (shown, "7")
    assert (told["type"], told["error"]["type"]) == ("error", kind)
    assert told["error"]["message"].startswith(message)
    assert server.asked == ["/v1/chat/completions"]


@every_error
async def test_behind_queue_frames_it_is_an_event(
    gate: GateProcess, server: ChatServer, status: int, body: object, shown: int, kind: str, message: str
) -> None:
    await gate.ask("openai")
    first = await server.turn()
    client = await gate.ask("openai")
    await client.frame()
    await first.complete()
    await (await server.turn()).answer(status, json.dumps(body).encode())
    last = (await client.frames())[-1]
    assert (name_of(last), data_of(last)["error"]["type"]) == ("error", kind)
    assert data_of(last)["error"]["message"].startswith(message)
    assert b"message_stop" not in client.received
