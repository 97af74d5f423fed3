"""What a server that speaks chat completions only gets of a request for Anthropic Messages."""

import json
from typing import Any

import pytest
from canaries import EVERYWHERE
from chatserver import ChatServer
from gateprocess import MESSAGES, PROMPT, GateProcess
from hands import Turn

USER = {"role": "user", "content": PROMPT}
SENT = {
    "anthropic-version": "2023-06-01",
    "anthropic-beta": "context-1m",
    "anthropic-dangerous-direct-browser-access": "true",
    "x-api-key": "theirs",
    "user-agent": "probe/1",
}


async def sent(
    gate: GateProcess, server: ChatServer, model: str, *, path: str = MESSAGES, headers: Any = None, **fields: Any
) -> Turn:
    """What the server got of it; it is answered."""
    client = await gate.ask(model, path=path, headers=headers, **fields)
    turn = await server.turn()
    await turn.complete()
    assert (await client.head()).status == 200
    await client.body()
    return turn


async def test_the_whole_of_it(gate: GateProcess, server: ChatServer) -> None:
    turn = await sent(
        gate,
        server,
        "openai",
        path=MESSAGES + "?beta=true",
        headers=SENT,
        system=[
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cch=5;"},
            {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
        ],
        temperature=0,
        stop_sequences=["END"],
        tools=[{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
        tool_choice={"type": "any"},
        metadata={"user_id": "u"},
        thinking={"type": "enabled", "budget_tokens": 1024},
    )
    assert turn.request.line == b"POST /v1/chat/completions HTTP/1.1"
    assert turn.fields == {
        "model": "openai",
        "messages": [{"role": "system", "content": "Be brief."}, USER],
        "max_tokens": 16,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "stop": ["END"],
        "tools": [
            {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
        ],
        "tool_choice": "required",
    }


async def test_anthropics_headers_stay_here(gate: GateProcess, server: ChatServer) -> None:
    turn = await sent(gate, server, "openai", headers=SENT)
    assert b"anthropic" not in turn.request.head.lower()
    assert turn.request.header(b"user-agent") == b"probe/1"
    assert turn.request.header(b"content-type") == b"application/json"
    assert turn.request.header(b"llmgate-request-id") is not None


@pytest.mark.parametrize(
    ("model", "headers", "bearer"),
    [
        ("keyed", {"x-api-key": "theirs"}, b"Bearer theirs"),
        ("keyed", {"authorization": "Bearer theirs"}, b"Bearer theirs"),
        ("keyed", {"x-api-key": "a", "authorization": "Bearer b"}, b"Bearer b"),
        ("keyed", {}, f"Bearer {EVERYWHERE['authorization of a client']}".encode()),
        ("openai", {"x-api-key": "theirs"}, f"Bearer {EVERYWHERE['key of an upstream']}".encode()),
        ("own-key", {"x-api-key": "theirs"}, b"Bearer our-own"),
        ("own-key", {}, b"Bearer our-own"),
    ],
)
async def test_a_key_is_a_bearer(
    gate: GateProcess, server: ChatServer, model: str, headers: dict[str, str], bearer: bytes | None
) -> None:
    """The client's own only where the settings say so."""
    turn = await sent(gate, server, model, headers=headers)
    assert turn.request.header(b"authorization") == bearer
    assert turn.request.header(b"x-api-key") is None


@pytest.mark.parametrize("stream", [True, False])
async def test_an_alias_asks_for_another_model_and_shows_the_clients(
    gate: GateProcess, server: ChatServer, stream: bool
) -> None:
    client = await gate.ask("nickname", stream=stream)
    turn = await server.turn()
    await turn.complete()
    assert turn.fields["model"] == "openai-real"
    body = await client.body()
    assert b'"model":"nickname"' in body
    assert b"openai-real" not in body
    assert b'"m"' not in body


THOUGHT = [
    USER,
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "x"},
            {"type": "text", "text": "ok"},
        ],
    },
    USER,
]


@pytest.mark.parametrize(
    ("model", "assistant"),
    [
        ("openai", {"role": "assistant", "content": "ok"}),
        ("thinker", {"role": "assistant", "content": "ok", "reasoning_content": "hm"}),
    ],
)
async def test_earlier_thinking_goes_back_where_the_settings_say_so(
    gate: GateProcess, server: ChatServer, model: str, assistant: dict[str, str]
) -> None:
    turn = await sent(gate, server, model, messages=THOUGHT)
    assert turn.fields["messages"] == [USER, assistant, USER]


SERVER_TOOL = {"type": "web_search_20250305", "name": "web_search"}
TOOL = {"name": "f", "input_schema": {"type": "object"}}


async def test_tools_of_anthropics_own_are_refused_before_a_place_is_taken(
    gate: GateProcess, server: ChatServer
) -> None:
    await gate.ask("openai")
    turn = await server.turn()
    client = await gate.ask("openai", tools=[SERVER_TOOL, TOOL])
    head = await client.head()
    assert (head.status, head.headers["llmgate-code"]) == (400, "BAD_REQUEST")
    told = (await client.json())["error"]
    assert (told["type"], "web_search" in told["message"]) == ("invalid_request_error", True)
    assert gate.upstream("openai")["waiting"] == 0
    await turn.complete()
    assert len(server.asked) == 1


async def test_or_left_out_where_the_settings_say_so(gate: GateProcess, server: ChatServer) -> None:
    turn = await sent(gate, server, "dropper", tools=[SERVER_TOOL, TOOL])
    assert [tool["function"]["name"] for tool in turn.fields["tools"]] == ["f"]


@pytest.mark.parametrize("fields", [{"messages": []}, {"messages": "x"}, {"max_tokens": "x"}])
async def test_what_cannot_be_read_is_told(gate: GateProcess, server: ChatServer, fields: dict[str, object]) -> None:
    client = await gate.ask("openai", **fields)
    assert (await client.head()).status == 400
    assert json.loads(await client.body())["error"]["type"] == "invalid_request_error"
    assert server.asked == []
