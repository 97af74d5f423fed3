"""Requests that never come to a queue: bad ones, in the shape of their surface, and what llmgate answers itself."""

import json
from typing import Any

import pytest
from gateprocess import CHAT, MESSAGES, GateProcess, request_body
from hands import ANSWER, Hands
from rawclient import Client

BAD_BODIES = {
    "no JSON": b'{"model": "one"',
    "no object": b'["one"]',
    "no model": b'{"messages": []}',
    "an empty model": b'{"model": "", "messages": []}',
    "a model that is no text": b'{"model": 7, "messages": []}',
    "a stream that is no yes or no": b'{"model": "one", "stream": "yes"}',
    "nothing": b"",
    "deep nesting": b'{"model": "one", "messages": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    "no UTF-8": b'{"model": "\xff"}',
}


async def answer_of(gate: GateProcess, data: bytes) -> tuple[Client, int, Any]:
    client = await Client.connect(gate.port)
    client.send(data)
    return client, (await client.head()).status, json.loads(await client.body())


def assert_anthropic_error(document: Any, kind: str, code: str) -> None:
    assert document["type"] == "error"
    assert document["error"]["type"] == kind
    assert f"({code})" in document["error"]["message"]


def assert_openai_error(document: Any, code: str, kind: str = "invalid_request_error") -> None:
    assert document.keys() == {"error"}
    assert document["error"].keys() == {"message", "type", "param", "code"}
    assert (document["error"]["type"], document["error"]["code"]) == (kind, code)


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES.keys())
async def test_a_bad_body_is_a_400_in_the_surfaces_shape_and_takes_no_place(
    gate: GateProcess, hands: Hands, body: bytes
) -> None:
    for path in (MESSAGES, CHAT, "/v1/messages"):
        client = await Client.connect(gate.port)
        client.post(path, body)
        head = await client.head()
        assert (head.status, head.headers["content-type"]) == (400, "application/json")
        assert head.headers["llmgate-code"] == "BAD_REQUEST"
        document = await client.json()
        if path == CHAT:
            assert_openai_error(document, "BAD_REQUEST")
        else:
            assert_anthropic_error(document, "invalid_request_error", "BAD_REQUEST")
            assert document["request_id"] == head.headers["llmgate-request-id"]
    await hands.wait(lambda: hands.connections == [])
    assert gate.new_log == []


async def test_an_unknown_model_is_a_404_that_names_the_known_ones(gate: GateProcess, hands: Hands) -> None:
    client = await gate.ask("nobody-has-this")
    assert (await client.head()).status == 404
    document = await client.json()
    assert_anthropic_error(document, "not_found_error", "UNKNOWN_MODEL")
    assert "hasty" in document["error"]["message"]
    client = await gate.ask("nobody-has-this", path=CHAT)
    assert (await client.head()).status == 404
    assert_openai_error(await client.json(), "UNKNOWN_MODEL", "not_found_error")
    await hands.wait(lambda: hands.connections == [])


async def test_an_unknown_path_is_a_404_in_the_shape_of_who_asks(gate: GateProcess) -> None:
    status, document = gate.get("/llm/v1/nothing")
    assert status == 404
    assert_openai_error(document, "NOT_FOUND", "not_found_error")
    status, document = gate.get("/llm/v1/nothing", {"anthropic-version": "2023-06-01"})
    assert status == 404
    assert_anthropic_error(document, "not_found_error", "NOT_FOUND")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
async def test_a_wrong_method_is_a_405_that_tells_the_right_one(gate: GateProcess, hands: Hands, method: str) -> None:
    for path in (MESSAGES, CHAT):
        client = await Client.connect(gate.port)
        client.send(f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        head = await client.head()
        assert (head.status, head.headers["allow"]) == (405, "POST")
        document = await client.json()
        if path == CHAT:
            assert_openai_error(document, "METHOD_NOT_ALLOWED")
        else:
            assert_anthropic_error(document, "invalid_request_error", "METHOD_NOT_ALLOWED")
    await hands.wait(lambda: hands.connections == [])


async def test_a_large_body_is_refused_by_its_length_before_it_came(gate: GateProcess, hands: Hands) -> None:
    head = f"POST {MESSAGES} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {1 << 30}\r\n\r\n".encode()
    client, status, document = await answer_of(gate, head)
    assert status == 413
    assert_anthropic_error(document, "request_too_large", "BODY_TOO_LARGE")
    assert await client.wait_closed() == b""
    await hands.wait(lambda: hands.connections == [])


async def test_a_large_body_without_a_length_is_refused_at_the_limit(gate: GateProcess, hands: Hands) -> None:
    piece = b"40000\r\n" + b" " * 0x40000 + b"\r\n"
    head = f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    _, status, document = await answer_of(gate, head + piece * 5)
    assert status == 413
    assert_openai_error(document, "BODY_TOO_LARGE")
    await hands.wait(lambda: hands.connections == [])


async def test_a_chunked_body_within_the_limit_is_taken(gate: GateProcess, hands: Hands) -> None:
    client = await Client.connect(gate.port)
    body = request_body("one")
    halves = body[:20], body[20:]
    client.send(f"POST {MESSAGES} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n".encode())
    client.send(b"".join(b"%x\r\n%b\r\n" % (len(half), half) for half in halves) + b"0\r\n\r\n")
    turn = await hands.turn()
    assert turn.request.body == body
    assert turn.request.header(b"transfer-encoding") is None
    await turn.complete()
    assert await client.body() == ANSWER


async def test_what_is_not_http_is_refused_and_closed(gate: GateProcess) -> None:
    for garbage in (b"\x16\x03\x01\x02\x00\x01\x00", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"hello\r\n\r\n"):
        client = await Client.connect(gate.port)
        client.send(garbage)
        assert (await client.wait_closed()).startswith((b"HTTP/1.1 400 ", b""))
    assert gate.get("/healthz")[0] == 200


async def test_the_models_of_all_upstreams_are_listed_with_their_aliases(gate: GateProcess) -> None:
    for path in ("/llm/v1/models", "/v1/models"):
        status, document = gate.get(path)
        assert (status, document["object"]) == (200, "list")
        owners = {model["id"]: model["owned_by"] for model in document["data"]}
        assert (owners["one"], owners["two"], owners["nickname"]) == ("one", "two", "one")
        assert all(model["object"] == "model" for model in document["data"])
    status, document = gate.get("/llm/v1/models", {"anthropic-version": "2023-06-01"})
    assert {model["type"] for model in document["data"]} == {"model"}
    assert document["has_more"] is False
    assert document["first_id"] == document["data"][0]["id"]


async def test_one_model_is_shown_by_its_name(gate: GateProcess) -> None:
    assert gate.get("/llm/v1/models/nickname") == (
        200,
        {"id": "nickname", "object": "model", "created": 0, "owned_by": "one"},
    )
    status, document = gate.get("/llm/v1/models/unknown")
    assert status == 404
    assert_openai_error(document, "UNKNOWN_MODEL", "not_found_error")


async def test_it_says_that_it_lives_and_takes_requests(gate: GateProcess) -> None:
    assert gate.get("/healthz") == (200, {"status": "ok"})
    status, document = gate.get("/readyz")
    assert (status, document["ready"]) == (200, True)
    status, document = gate.get("/readyz?upstream=one")
    assert (status, document["checks"]["one"]) == (200, "open")
    assert gate.get("/readyz?upstream=nobody")[0] == 404
