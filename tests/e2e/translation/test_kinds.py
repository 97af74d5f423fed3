"""What a server speaks: known from its kind, or learnt from its answer to the very request of a client."""

import json
from typing import Any

import pytest
from anthropic_check import without_queue
from anthropic_message import seen_in
from chatserver import CHAT_PATH, FASTAPI, GO, ChatServer, OpenServer
from gateprocess import CHAT, GateProcess
from hands import CHAT_ANSWER, Turn
from rawclient import Client, names_of, positions_of
from spoken import SPOKEN

HELLO = [{"type": "text", "text": "Hello"}]
MESSAGES_PATH = "/v1/messages"
OPENAI = (CHAT_PATH, "/v1/completions", "/v1/responses", "/v1/embeddings", "/v1/rerank")
OLLAMA = ("/api/chat", "/api/generate", "/api/embed")


async def check_hello(client: Client) -> None:
    await client.frames()
    assert (await client.head()).status == 200
    assert seen_in(without_queue(client.received)).content == HELLO


async def ask(gate: GateProcess, server: ChatServer, model: str, **request: Any) -> Turn:
    """One translated stream, answered and whole."""
    client = await gate.ask(model, **request)
    turn = await server.turn()
    await turn.complete()
    await check_hello(client)
    return turn


# ---- learnt


async def test_learnt_from_the_very_first_request(gate: GateProcess, server: ChatServer) -> None:
    for _ in range(3):
        await ask(gate, server, "unknown-0")
    assert server.asked == [MESSAGES_PATH, *[CHAT_PATH] * 3]
    assert [view["outcome"] for view in gate.requests("done")[:3]] == ["completed"] * 3


@pytest.mark.parametrize(
    ("model", "refusal"),
    [("unknown-1", (404, FASTAPI)), ("unknown-2", (404, GO)), ("unknown-3", (405, b"")), ("is-vllm", (404, FASTAPI))],
)
async def test_learnt_from_one_that_is_not_streamed(
    gate: GateProcess, open_server: OpenServer, model: str, refusal: tuple[int, bytes]
) -> None:
    server = await open_server(refusal=refusal)
    client = await gate.ask(model, stream=False)
    await (await server.turn()).complete()
    assert (await client.json())["content"] == HELLO
    assert "llmgate-position" not in (await client.head()).headers
    await ask(gate, server, model)
    assert server.asked == [MESSAGES_PATH, CHAT_PATH, CHAT_PATH]


async def test_learnt_while_others_wait(gate: GateProcess, server: ChatServer) -> None:
    """They are translated when their turn comes; nobody gets in between the two calls."""
    clients = []
    for place in range(4):
        clients.append(await gate.ask("unknown-4"))
        if place:
            assert positions_of([await clients[-1].frame()]) == [(place, place)]
    for client in clients:
        turn = await server.turn()
        await turn.complete()
        await check_hello(client)
    assert server.asked == [MESSAGES_PATH, *[CHAT_PATH] * 4]
    assert [name for name in names_of(clients[1].received.split(b"\n\n")) if name == "queue"] == ["queue"]


async def test_an_unknown_model_teaches_nothing(gate: GateProcess, open_server: OpenServer) -> None:
    unknown = b'{"error":{"message":"model \\"unknown-5\\" not found, try pulling it first"}}'
    server = await open_server(refusal=(404, unknown))
    for _ in range(2):
        client = await gate.ask("unknown-5")
        assert ((await client.head()).status, (await client.json())["error"]["type"]) == (404, "not_found_error")
    assert server.asked == [MESSAGES_PATH] * 2
    assert gate.requests("done")[0]["outcome"] == "completed"


async def test_a_server_that_speaks_neither(gate: GateProcess, open_server: OpenServer) -> None:
    """Its second refusal is passed on."""
    server = await open_server(knows=())
    client = await gate.ask("unknown-6")
    assert (await client.head()).status == 404
    assert (await client.json())["error"] == {"type": "not_found_error", "message": "File Not Found"}
    assert server.asked == [MESSAGES_PATH, CHAT_PATH]


async def test_an_ollama_without_messages(gate: GateProcess, open_server: OpenServer) -> None:
    """It speaks chat completions and its own /api/chat; to its router everything else is no page."""
    server = await open_server(knows=(CHAT_PATH, "/api/chat"), refusal=(404, GO))
    await ask(gate, server, "unknown-7", headers={"anthropic-version": "2023-06-01"})
    chat = await gate.ask("unknown-7", path=CHAT)
    await (await server.turn()).complete()
    assert await chat.body() == CHAT_ANSWER
    own = await gate.ask("unknown-7", path="/llm/api/chat")
    await (await server.turn()).complete()
    assert await own.body() == SPOKEN["/api/chat"].stream
    await ask(gate, server, "unknown-7")
    assert server.asked == [MESSAGES_PATH, CHAT_PATH, CHAT_PATH, "/api/chat", CHAT_PATH]


# ---- known


async def test_a_server_of_kind_openai_is_never_asked_for_messages(gate: GateProcess, server: ChatServer) -> None:
    await ask(gate, server, "openai")
    assert server.asked == [CHAT_PATH]


UNSPOKEN = {
    "openai": OLLAMA,
    "is-llama-server": OLLAMA,
    "is-vllm": OLLAMA,
    "is-ollama": ("/v1/rerank",),
    "is-anthropic": (*OPENAI, *OLLAMA),
}


@pytest.mark.parametrize(("model", "path"), [(model, path) for model, paths in UNSPOKEN.items() for path in paths])
@pytest.mark.parametrize("stream", [True, False])
async def test_what_is_not_spoken_is_told_before_a_place_is_taken(
    gate: GateProcess, open_server: OpenServer, model: str, path: str, stream: bool
) -> None:
    """404 in the shape of the surface, and the server hears nothing."""
    server = await open_server(knows=(path, CHAT_PATH))
    done = len(gate.requests("done"))
    client = await gate.ask(model, path=path, stream=stream)
    head = await client.head()
    told = await client.json()
    assert (head.status, head.headers["llmgate-code"]) == (404, "NOT_FOUND")
    error = told["error"]
    message = error if path in OLLAMA else error["message"]
    assert message == f"llmgate: the server of this model does not speak {path}, see its documentation (NOT_FOUND)"
    assert ("type" in told, isinstance(error, str)) == (False, path in OLLAMA)
    assert (server.asked, len(gate.requests("done"))) == ([], done)


@pytest.mark.parametrize("path", [*OPENAI, *OLLAMA])
async def test_an_unknown_server_is_asked_for_anything(gate: GateProcess, open_server: OpenServer, path: str) -> None:
    """Its refusal is passed on in the shape of the surface, each time anew."""
    server = await open_server(knows=())
    for _ in range(2):
        client = await gate.ask("unknown-8", path=path, stream=False)
        assert (await client.head()).status == 404
        told = json.loads(await client.body())["error"]
        assert told == "File Not Found" if path in OLLAMA else told["message"] == "File Not Found"
    assert server.asked == [path] * 2
