"""POST /v1/messages/count_tokens before a server that a test plays: what is asked, in which order, what it may say."""

import asyncio
import json
import threading
from typing import Any

import anthropic
import pytest
from gateprocess import request_body
from hands import Hands, Turn
from puppet import deaf_port, refusing_port
from rawclient import Client, Head, post

from llmgate.errors import Refused
from llmgate.protocols.speech import Kind
from llmgate.server import count as count_module
from llmgate.server.asgi import LARGE_BODY
from llmgate.server.count import TokenCount
from tests.server.house import UPSTREAM, House, OpenHouse

PATH = "/llm/v1/messages/count_tokens"
NATIVE = "/v1/messages/count_tokens"
ASKED = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
NO_SUCH_PATH = b'{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}'
FAULT = b'{"error":{"code":400,"message":"roles must alternate","type":"invalid_request_error"}}'
SEARCH = {"type": "web_search_20250305", "name": "web_search"}


async def ask(house: House, body: Any = ASKED, path: str = PATH, **headers: str) -> Client:
    client = await Client.connect(house.port)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    client.post(path, body if isinstance(body, bytes) else json.dumps(body).encode(), named)
    return client


async def told(client: Client) -> tuple[int, str]:
    """The number, and where it is from."""
    head = await client.head()
    document = await client.json()
    assert (head.status, head.headers["content-type"], document.keys()) == (200, "application/json", {"input_tokens"})
    assert (head.headers["llmgate-upstream"], head.headers["llmgate-request-id"][:4]) == (UPSTREAM, "req_")
    return document["input_tokens"], head.headers["llmgate-token-count"]


async def refused(client: Client) -> tuple[Head, str, str]:
    """Its head, type and message: an error in Anthropic's shape."""
    head = await client.head()
    document = await client.json()
    assert (document["type"], document.keys()) == ("error", {"type", "error", "request_id"})
    assert document["request_id"] == head.headers["llmgate-request-id"]
    return head, document["error"]["type"], document["error"]["message"]


async def turn_at(hands: Hands, path: str) -> Turn:
    turn = await hands.turn()
    assert turn.request.line == f"POST {path} HTTP/1.1".encode()
    return turn


def is_kind(house: House, kind: Kind, *, messages: bool | None = None) -> None:
    speech = house.services.upstreams[UPSTREAM].speech
    speech.kind, speech.messages = kind, messages


# ---- the server itself


@pytest.mark.parametrize("prefix", ["", "/llm"])
async def test_a_server_that_counts_is_asked_on_the_same_path(house: House, hands: Hands, prefix: str) -> None:
    client = await ask(house, path=f"{prefix}{NATIVE}?beta=true", anthropic_beta="b-1", x_api_key="the client's")
    turn = await turn_at(hands, f"{NATIVE}?beta=true")
    assert turn.fields == ASKED
    assert turn.request.header(b"anthropic-beta") == b"b-1"
    assert turn.request.header(b"x-api-key") is None, "the client's key stays here"
    head = await client_head_after(client, turn, b'{"input_tokens":26,"context_management":{}}')
    assert turn.request.header(b"llmgate-request-id") == head.headers["llmgate-request-id"].encode()
    assert await told(client) == (26, "upstream")
    assert house.events == [], "it takes no place"


async def client_head_after(client: Client, turn: Turn, body: bytes) -> Head:
    await turn.answer(body=body)
    return await client.head()


@pytest.mark.parametrize(("name", "model"), [("nick", "m-real"), ("m-1", "m-1"), ("m:latest", "m")])
async def test_the_server_is_asked_for_its_own_name(house: House, hands: Hands, name: str, model: str) -> None:
    client = await ask(house, {**ASKED, "model": name})
    turn = await turn_at(hands, NATIVE)
    assert turn.fields == {**ASKED, "model": model}
    await turn.answer(body=b'{"input_tokens":3}')
    assert await told(client) == (3, "upstream")


async def test_it_is_answered_while_the_slot_is_taken_and_others_wait(house: House, hands: Hands) -> None:
    running, taken = await house.occupy()
    waiting = await house.queue()
    client = await ask(house)
    turn = await turn_at(hands, NATIVE)
    server = house.services.upstreams["reasoning"]
    assert (server.in_use, server.asides) == (2, 1), "its connection is nobody's, and known"
    await turn.answer(body=b'{"input_tokens":3}')
    assert await told(client) == (3, "upstream")
    assert (house.taken, server.asides) == ((1, 1, 0), 0)
    await taken.end()
    await (await hands.turn()).complete()
    for other in (running, waiting):
        await other.body()


async def test_no_such_path_is_learnt_and_the_request_does_not_fail(house: House, hands: Hands) -> None:
    is_kind(house, "ollama", messages=True)
    client = await ask(house)
    await (await turn_at(hands, NATIVE)).answer(404, b"404 page not found")
    tokens, source = await told(client)
    assert (source, 10 < tokens < 30) == ("estimate", True)
    assert house.services.upstreams[UPSTREAM].speech.messages is True, "that is another path"
    assert await told(await ask(house)) == (tokens, "estimate"), "without asking again"
    house.services.upstreams[UPSTREAM].speech.forget()
    client = await ask(house)
    await (await turn_at(hands, NATIVE)).answer(body=b'{"input_tokens":3}')
    assert await told(client) == (3, "upstream")


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (400, FAULT, "invalid_request_error", "roles must alternate"),
        (500, b'{"error":{"message":"\'messages\' is required"}}', "invalid_request_error", "'messages' is required"),
        (404, b'{"error":{"message":"The model `m` does not exist."}}', "not_found_error", "The model `m` does"),
        (401, b'{"error":{"message":"no key"}}', "authentication_error", "no key"),
        (422, b'{"detail":[{"msg":"Field required"}]}', "invalid_request_error", "Field required"),
    ],
)
async def test_what_the_server_says_of_the_request_is_passed_on(
    house: House, hands: Hands, status: int, body: bytes, kind: str, message: str
) -> None:
    is_kind(house, "llama-server")
    client = await ask(house)
    await (await turn_at(hands, NATIVE)).answer(status, body)
    head, told_kind, told_message = await refused(client)
    assert (head.status, told_kind) == (400 if status == 500 else status, kind)
    assert told_message.startswith(message)
    assert head.headers["llmgate-upstream"] == UPSTREAM
    assert house.services.upstreams[UPSTREAM].speech.counts is True


@pytest.mark.parametrize(
    ("status", "body"), [(500, b"broken"), (503, b"loading"), (429, b""), (200, b"{}"), (200, b"no"), (302, b"")]
)
async def test_any_other_answer_is_no_answer(house: House, hands: Hands, status: int, body: bytes) -> None:
    is_kind(house, "ollama")
    client = await ask(house)
    await (await turn_at(hands, NATIVE)).answer(status, body)
    assert (await told(client))[1] == "estimate"
    assert house.services.upstreams[UPSTREAM].speech.counts is True


# ---- its tokenizer


async def test_the_tokenizer_of_a_llama_server(house: House, hands: Hands) -> None:
    is_kind(house, "llama-server", messages=False)
    client = await ask(house, {**ASKED, "model": "nick", "max_tokens": 5, "system": "be nice"})
    turn = await turn_at(hands, "/apply-template")
    messages = [{"role": "system", "content": "be nice"}, {"role": "user", "content": "hi"}]
    assert turn.fields == {"model": "m-real", "messages": messages}
    await turn.answer(body=b'{"prompt":"<s>be nice hi"}')
    turn = await turn_at(hands, "/tokenize")
    assert turn.fields == {"model": "m-real", "content": "<s>be nice hi", "add_special": True, "parse_special": True}
    await turn.answer(body=b'{"tokens":[2,23391,993,5]}')
    assert await told(client) == (4, "tokenizer")
    assert house.events == []


async def test_the_tokenizer_of_a_vllm(house: House, hands: Hands) -> None:
    is_kind(house, "vllm", messages=False)
    tools = [{"name": "t", "input_schema": {"type": "object"}}]
    client = await ask(house, {**ASKED, "tools": tools})
    turn = await turn_at(hands, "/tokenize")
    assert turn.fields.keys() == {"model", "messages", "tools"}
    assert turn.fields["tools"][0]["function"]["name"] == "t"
    await turn.answer(body=b'{"count":26,"max_model_len":4096,"tokens":[]}')
    assert await told(client) == (26, "tokenizer")


async def test_the_tokenizer_is_next_where_the_server_does_not_count(house: House, hands: Hands) -> None:
    is_kind(house, "vllm")
    client = await ask(house)
    await (await turn_at(hands, NATIVE)).answer(404, NO_SUCH_PATH)
    await (await turn_at(hands, "/tokenize")).answer(body=b'{"count":9}')
    assert await told(client) == (9, "tokenizer")


@pytest.mark.parametrize(
    "answers",
    [
        [(404, NO_SUCH_PATH)],
        [(500, b"image input is not supported")],
        [(200, b"{}")],
        [(200, b'{"prompt":"x"}'), (404, NO_SUCH_PATH)],
        [(200, b'{"prompt":"x"}'), (200, b"{}")],
    ],
)
async def test_a_tokenizer_that_gives_no_number(house: House, hands: Hands, answers: list[tuple[int, bytes]]) -> None:
    is_kind(house, "llama-server", messages=False)
    client = await ask(house)
    for status, body in answers:
        await (await hands.turn()).answer(status, body)
    assert (await told(client))[1] == "estimate"


OTHERS: list[Kind] = ["openai", "auto"]
"""Kinds of which nobody knows whether they have a tokenizer."""


@pytest.mark.parametrize("kind", OTHERS)
async def test_a_server_of_another_kind_may_have_a_llama_servers_tokenizer(
    house: House, hands: Hands, kind: Kind
) -> None:
    is_kind(house, kind, messages=False)
    for _ in range(2):
        client = await ask(house)
        turn = await turn_at(hands, "/apply-template")
        assert turn.fields == ASKED
        await turn.answer(body=b'{"prompt":"<s>hi"}')
        turn = await turn_at(hands, "/tokenize")
        assert turn.fields["content"] == "<s>hi"
        await turn.answer(body=b'{"tokens":[2,23391]}')
        assert await told(client) == (2, "tokenizer")


@pytest.mark.parametrize("kind", OTHERS)
async def test_a_server_of_another_kind_may_have_a_vllms_tokenizer(house: House, hands: Hands, kind: Kind) -> None:
    is_kind(house, kind, messages=False)
    client = await ask(house)
    await (await turn_at(hands, "/apply-template")).answer(404, NO_SUCH_PATH)
    for _ in range(2):
        turn = await turn_at(hands, "/tokenize")
        assert turn.fields == ASKED
        await turn.answer(body=b'{"count":9}')
        assert await told(client) == (9, "tokenizer")
        client = await ask(house)
    await (await turn_at(hands, "/tokenize")).answer(body=b"{}")
    assert (await told(client))[1] == "estimate"


@pytest.mark.parametrize("kind", OTHERS)
async def test_a_server_without_a_tokenizer_is_asked_for_it_once(house: House, hands: Hands, kind: Kind) -> None:
    is_kind(house, kind, messages=False)
    client = await ask(house)
    await (await turn_at(hands, "/apply-template")).answer(404, NO_SUCH_PATH)
    await (await turn_at(hands, "/tokenize")).answer(405, b"")
    tokens, source = await told(client)
    assert source == "estimate"
    assert await told(await ask(house)) == (tokens, "estimate"), "without asking again"
    house.services.upstreams[UPSTREAM].speech.forget()
    is_kind(house, kind, messages=False)
    client = await ask(house)
    await (await turn_at(hands, "/apply-template")).answer(404, NO_SUCH_PATH)
    await (await turn_at(hands, "/tokenize")).answer(body=b'{"count":9}')
    assert await told(client) == (9, "tokenizer")


@pytest.mark.parametrize(
    ("status", "body"), [(401, b"no key"), (403, b""), (400, FAULT), (422, b""), (500, b""), (200, b'{"error":"no"}')]
)
async def test_what_a_server_says_of_a_path_that_it_may_not_know_is_no_fault(
    house: House, hands: Hands, status: int, body: bytes
) -> None:
    is_kind(house, "openai")
    for _ in range(2):
        client = await ask(house)
        for path in ("/apply-template", "/tokenize"):
            await (await turn_at(hands, path)).answer(status, body)
        assert (await told(client))[1] == "estimate"


async def test_a_server_of_no_known_kind_is_asked_for_a_count_first(house: House, hands: Hands) -> None:
    client = await ask(house)
    await (await turn_at(hands, NATIVE)).answer(404, NO_SUCH_PATH)
    await (await turn_at(hands, "/apply-template")).answer(404, NO_SUCH_PATH)
    await (await turn_at(hands, "/tokenize")).answer(body=b'{"count":9}')
    assert await told(client) == (9, "tokenizer")


async def test_what_the_tokenizer_says_of_the_request_is_passed_on(house: House, hands: Hands) -> None:
    is_kind(house, "llama-server", messages=False)
    client = await ask(house)
    await (await turn_at(hands, "/apply-template")).answer(400, FAULT)
    head, kind, message = await refused(client)
    assert (head.status, kind, message) == (400, "invalid_request_error", "roles must alternate")


# ---- an estimate


async def estimate_of(house: House, **fields: Any) -> int:
    tokens, source = await told(await ask(house, {**ASKED, **fields}))
    assert source == "estimate"
    return tokens


@pytest.mark.parametrize("kind", ["ollama", "anthropic"])
async def test_an_estimate_asks_nobody_and_grows_with_the_text(house: House, hands: Hands, kind: Kind) -> None:
    is_kind(house, kind, messages=False)
    short = await estimate_of(house)
    text = [{"role": "user", "content": "x" * 4000}]
    assert 990 < await estimate_of(house, messages=text) - short < 1010
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo=" * 1000}
    image = [{"role": "user", "content": [{"type": "image", "source": source}, {"type": "text", "text": "hi"}]}]
    assert await estimate_of(house, messages=image) < short + 60
    assert hands.connections == []


async def test_where_it_would_be_translated_what_cannot_be_is_refused(house: House) -> None:
    is_kind(house, "openai")
    for fields in ({"tools": [SEARCH]}, {"messages": []}, {"messages": [{"role": "nobody", "content": "x"}]}):
        head, kind, message = await refused(await ask(house, {**ASKED, **fields}))
        assert (head.status, kind, head.headers["llmgate-code"]) == (400, "invalid_request_error", "BAD_REQUEST")
        assert message.endswith("(BAD_REQUEST)")


async def test_where_the_server_speaks_messages_only_what_has_none_is_refused(house: House, hands: Hands) -> None:
    is_kind(house, "ollama", messages=True)
    house.services.upstreams[UPSTREAM].speech.counts = False
    bare = await estimate_of(house)
    assert await estimate_of(house, tools=[SEARCH]) > bare
    for body in ({"model": "m"}, {"model": "m", "messages": []}):
        head, kind, _ = await refused(await ask(house, body))
        assert (head.status, kind) == (400, "invalid_request_error")
    assert hands.connections == []


async def test_the_upstreams_settings_say_what_becomes_of_tools_that_it_does_not_have(open_house: OpenHouse) -> None:
    house = await open_house(upstream={"kind": "ollama", "server_tools": "drop"})
    is_kind(house, "ollama", messages=False)
    assert await estimate_of(house, tools=[SEARCH]) > 0


async def test_a_server_that_is_down_is_not_waited_for(open_house: OpenHouse) -> None:
    with refusing_port() as port:
        house = await open_house(url=f"http://127.0.0.1:{port}")
        await estimate_of(house)


async def test_a_server_that_does_not_answer_is_given_up(
    open_house: OpenHouse, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(count_module, "UPSTREAM_SECONDS", 0.5)
    house = await open_house()
    client = await ask(house)
    turn = await turn_at(hands, NATIVE)
    assert (await told(client))[1] == "estimate"
    await turn.wait_closed()
    with deaf_port() as port:
        house = await open_house(url=f"http://127.0.0.1:{port}")
        await estimate_of(house)


async def test_a_server_that_breaks_off_is_not_asked_for_more(house: House, hands: Hands) -> None:
    is_kind(house, "llama-server")
    client = await ask(house)
    turn = await turn_at(hands, NATIVE)
    turn.connection.close()
    assert (await told(client))[1] == "estimate"
    assert hands.untaken == 0


# ---- who asks


async def test_who_leaves_closes_what_is_being_asked(
    house: House, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(count_module, "UPSTREAM_SECONDS", 3600)
    for leave in (Client.fin, Client.reset, Client.half_close):
        client = await ask(house)
        turn = await turn_at(hands, NATIVE)
        leave(client)
        await turn.wait_closed()
    client = await ask(house)
    await (await turn_at(hands, NATIVE)).answer(body=b'{"input_tokens":3}')
    assert await told(client) == (3, "upstream")


async def test_who_leaves_before_its_body_is_here(house: House, hands: Hands) -> None:
    client = await Client.connect(house.port)
    client.send(post(PATH, request_body("m"))[:-5])
    client.fin()
    await client.wait_closed()
    assert hands.connections == []


async def test_at_shutdown_it_is_waited_for_and_then_cut(
    house: House, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(count_module, "UPSTREAM_SECONDS", 3600)
    client = await ask(house)
    turn = await turn_at(hands, NATIVE)
    (counting,) = house.services.running
    counting.stop(Refused("llmgate: llmgate is stopping (REFUSED)"))
    counting.give_up()
    await turn.wait_closed()
    head, kind, _ = await refused(client)
    assert (head.status, head.headers["llmgate-code"], kind) == (503, "REFUSED", "overloaded_error")


async def test_cut_by_somebody_else_it_ends(house: House, hands: Hands) -> None:
    """As any request that the server's own shutdown meets."""
    received: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    body = json.dumps(ASKED).encode()

    async def receive() -> Any:
        return await received if counting._task else {"type": "http.request", "body": body, "more_body": False}

    counting = TokenCount(house.services, {"query_string": b"", "headers": []}, receive)
    task = asyncio.ensure_future(counting.answer())
    turn = await turn_at(hands, NATIVE)
    task.cancel()
    await turn.wait_closed()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_connection_is_used_again(house: House, hands: Hands) -> None:
    client = await ask(house)
    await (await turn_at(hands, NATIVE)).answer(body=b'{"input_tokens":3}')
    assert await told(client) == (3, "upstream")
    client.post(PATH, json.dumps(ASKED).encode())
    await (await turn_at(hands, NATIVE)).answer(body=b'{"input_tokens":4}')
    client.next_answer()
    assert await told(client) == (4, "upstream")


@pytest.mark.parametrize(
    ("body", "status", "kind", "code"),
    [
        (b"", 400, "invalid_request_error", "BAD_REQUEST"),
        (b"{", 400, "invalid_request_error", "BAD_REQUEST"),
        (b"\xff", 400, "invalid_request_error", "BAD_REQUEST"),
        (b"[]", 400, "invalid_request_error", "BAD_REQUEST"),
        (b'{"messages":[]}', 400, "invalid_request_error", "BAD_REQUEST"),
        (b'{"model":"m","model":"m-1","messages":[]}', 400, "invalid_request_error", "BAD_REQUEST"),
        (b'{"model":"nobody","messages":[]}', 404, "not_found_error", "UNKNOWN_MODEL"),
        (b" " * 2000, 413, "request_too_large", "BODY_TOO_LARGE"),
    ],
)
async def test_bad_input(open_house: OpenHouse, hands: Hands, body: bytes, status: int, kind: str, code: str) -> None:
    house = await open_house(server={"max_body": 1000})
    client = await ask(house, body)
    head, told_kind, _ = await refused(client)
    assert (head.status, told_kind, head.headers["llmgate-code"]) == (status, kind, code)
    if status == 413:
        await client.wait_closed()
    assert hands.connections == []


async def test_a_body_that_does_not_come(open_house: OpenHouse) -> None:
    house = await open_house(server={"body_timeout": "50ms"})
    client = await Client.connect(house.port)
    client.send(post(PATH, request_body("m"))[:-5])
    head, _, _ = await refused(client)
    assert (head.status, head.headers["llmgate-code"], head.headers["connection"]) == (408, "BODY_TIMEOUT", "close")
    await client.wait_closed()


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_it_takes_post_only(house: House, method: str) -> None:
    client = await Client.connect(house.port)
    client.send(f"{method} {PATH} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    head, kind, _ = await refused(client)
    assert (head.status, head.headers["allow"], kind) == (405, "POST", "invalid_request_error")


async def test_the_official_client(house: House, hands: Hands) -> None:
    def count() -> Any:
        with anthropic.Anthropic(api_key="x", base_url=f"http://127.0.0.1:{house.port}/llm", max_retries=0) as client:
            return client.messages.count_tokens(model="m", messages=[{"role": "user", "content": "hi"}])

    asking = asyncio.ensure_future(asyncio.to_thread(count))
    await (await turn_at(hands, NATIVE)).answer(body=b'{"input_tokens":26}')
    assert (await asking).input_tokens == 26
    is_kind(house, "ollama", messages=False)
    assert (await asyncio.to_thread(count)).input_tokens > 5
    is_kind(house, "auto")
    asking = asyncio.ensure_future(asyncio.to_thread(count))
    await (await turn_at(hands, NATIVE)).answer(400, FAULT)
    with pytest.raises(anthropic.BadRequestError, match="roles must alternate"):
        await asking


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_large_request_is_read_beside_the_loop(
    open_house: OpenHouse, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """Whoever has a stream must not hear nothing meanwhile."""
    threads = set()

    def noting(name: str) -> None:
        true = getattr(count_module, name)

        def noted(*arguments: Any) -> Any:
            threads.add(threading.get_ident())
            return true(*arguments)

        monkeypatch.setattr(count_module, name, noted)

    noting("translate")
    noting("estimate_body")
    with refusing_port() as port:
        house = await open_house(f"http://127.0.0.1:{port}")
        is_kind(house, kind, messages=False)
        client = await ask(house, {**ASKED, "messages": [{"role": "user", "content": "x" * (LARGE_BODY + 1)}]})
        assert (await told(client))[1] == "estimate"
    assert threads
    assert threading.get_ident() not in threads
