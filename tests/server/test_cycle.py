"""Answers on the wire: how their end is told, and whether the connection is kept for another request."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from rawclient import Client
from starlette.types import Receive, Scope, Send

from llmgate.server.cycle import Cycle
from llmgate.server.http_server import HttpServer
from llmgate.server.sockets import bind_listen

Serve = Callable[..., Awaitable[int]]

BODY = b"a body of an answer"
LENGTH = (b"content-length", b"%d" % len(BODY))


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    servers = []

    async def start(app: Any) -> int:
        bound = bind_listen("127.0.0.1:0")
        servers.append(HttpServer(app, [bound]))
        await servers[-1].start()
        return int(bound.getsockname()[1])

    yield start
    await Client.close_all()
    for server in servers:
        await server.stop()


def answers(*headers: tuple[bytes, bytes], status: int = 200, body: bytes = BODY, reads: bool = True) -> Any:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while reads and (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})
        await send({"type": "http.response.body", "body": body[:5], "more_body": True})
        await send({"type": "http.response.body", "body": body[5:]})

    return app


def get(version: str = "1.1", *lines: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} / HTTP/{version}", "host: localhost", *lines, "", ""]).encode()


async def test_without_a_length_it_comes_in_chunks(serve: Serve) -> None:
    client = await Client.connect(await serve(answers()))
    for _ in range(2):
        client.send(get())
        assert (await client.head()).headers == {"transfer-encoding": "chunked"}
        assert await client.body() == BODY
        client.next_answer()


@pytest.mark.parametrize("asked", [(), ("connection: keep-alive",)])
async def test_http_1_0_gets_no_chunks_and_the_end_is_the_close(serve: Serve, asked: tuple[str, ...]) -> None:
    client = await Client.connect(await serve(answers()))
    client.send(get("1.0", *asked))
    assert (await client.head()).headers == {"connection": "close"}
    assert await client.wait_closed() == BODY


async def test_http_1_0_keeps_the_connection_only_where_it_asks(serve: Serve) -> None:
    port = await serve(answers(LENGTH))
    client = await Client.connect(port)
    for _ in range(2):
        client.send(get("1.0", "connection: keep-alive"))
        assert (await client.head()).headers["connection"] == "keep-alive"
        assert await client.body() == BODY
        client.next_answer()
    client.send(get("1.0"))
    assert (await client.head()).headers["connection"] == "close"
    assert await client.wait_closed() == BODY


async def test_a_client_that_wants_it_closed_is_told_so(serve: Serve) -> None:
    client = await Client.connect(await serve(answers(LENGTH)))
    client.send(get("1.1", "connection: close"))
    assert (await client.head()).headers["connection"] == "close"
    assert await client.wait_closed() == BODY


async def test_an_answer_can_close_by_itself(serve: Serve) -> None:
    client = await Client.connect(await serve(answers(LENGTH, (b"Connection", b"Close"))))
    client.send(get())
    assert (await client.head()).headers["connection"] == "Close"
    assert await client.wait_closed() == BODY


@pytest.mark.parametrize("headers", [(), (LENGTH,)])
async def test_head_has_no_body(serve: Serve, headers: tuple[tuple[bytes, bytes], ...]) -> None:
    client = await Client.connect(await serve(answers(*headers)))
    for _ in range(2):
        client.send(get(method="HEAD"))
        head = await client.head()
        assert "transfer-encoding" not in head.headers
        assert head.headers.get("content-length") == (str(len(BODY)) if headers else None)
        client.next_answer()
    client.send(get("1.1", "connection: close", method="HEAD"))
    await client.head()
    assert await client.wait_closed() == b""


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_that_never_has_a_body_says_nothing_of_its_length(serve: Serve, status: int) -> None:
    client = await Client.connect(await serve(answers(status=status, body=b"")))
    for _ in range(2):
        client.send(get())
        assert (await client.head()).headers == {}
        client.next_answer()


async def test_an_answer_before_the_body_was_read_is_the_last_one(serve: Serve) -> None:
    client = await Client.connect(await serve(answers(LENGTH, reads=False)))
    client.send(get("1.1", "content-length: 100000", method="POST"))
    assert (await client.head()).headers["connection"] == "close"
    client.send(b"x" * 100_000)
    assert await client.wait_closed() == BODY


@pytest.mark.parametrize("version", ["1.1", "1.0"])
async def test_the_body_is_asked_for_where_the_client_waits_for_that(serve: Serve, version: str) -> None:
    """F67; HTTP/1.0 does not know it (RFC 9110, 10.1.1)."""
    client = await Client.connect(await serve(answers(LENGTH)))
    client.send(get(version, "content-length: 4", "expect: 100-continue", method="POST"))
    if version == "1.1":
        assert (await client.head()).status == 100
        client.next_answer()
    await asyncio.sleep(0.02)  # time for an answer that must not come
    client.send(b"body")
    assert (await client.head()).status == 200


@pytest.mark.parametrize("body", [b"", b"body"])
async def test_a_body_that_is_here_is_not_asked_for(serve: Serve, body: bytes) -> None:
    client = await Client.connect(await serve(answers(LENGTH)))
    client.send(get("1.1", f"content-length: {len(body)}", "expect: 100-continue", method="POST") + body)
    assert (await client.head()).status == 200


@pytest.mark.parametrize("broken", ["early body", "two heads", "too long", "too short", "name", "value"])
async def test_what_is_no_answer_is_none(serve: Serve, broken: str, caplog: pytest.LogCaptureFixture) -> None:
    """An application with a fault never gives a client what looks like a whole answer."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body = {"type": "http.response.body", "body": BODY[: -1 if broken == "too short" else None]}
        headers = {"name": [(b"a b", b"c")], "value": [(b"a", b"b\r\nc: d")]}.get(broken, [LENGTH])
        if broken != "early body":
            await send({"type": "http.response.start", "status": 200, "headers": headers})
        if broken == "two heads":
            await send({"type": "http.response.start", "status": 200, "headers": headers})
        if broken == "too long":
            body["body"] += b"x"
        await send(body)

    client = await Client.connect(await serve(app))
    client.send(get())
    received = await client.wait_closed()
    assert not received.endswith(BODY)
    assert b"\r\nc: d" not in received
    assert "Exception in ASGI application" in caplog.text


async def test_nothing_goes_out_behind_the_end(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answers(LENGTH)(scope, receive, send)
        await send({"type": "http.response.body", "body": b"x"})

    client = await Client.connect(await serve(app))
    client.send(get("1.1", "connection: close"))
    assert (await client.wait_closed()).endswith(BODY)
    assert "behind the end" in caplog.text


async def test_the_head_and_what_follows_at_once_are_one_write(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[bytes] = []
    original = Cycle._write

    def count(cycle: Cycle, data: bytes = b"") -> None:
        if cycle._head or data:
            writes.append(cycle._head + data)
        original(cycle, data)

    monkeypatch.setattr(Cycle, "_write", count)
    client = await Client.connect(await serve(answers(LENGTH)))
    client.send(get())
    assert await client.body() == BODY
    assert [data[-5:] for data in writes] == [BODY[:5], BODY[-5:]]
    assert writes[0].startswith(b"HTTP/1.1 200 ")


async def test_a_head_goes_out_though_nothing_follows(serve: Serve) -> None:
    go = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [LENGTH]})
        await go.wait()
        await send({"type": "http.response.body", "body": BODY})

    client = await Client.connect(await serve(app))
    client.send(get())
    assert (await client.head()).status == 200
    go.set()
    assert await client.body() == BODY


async def test_a_fault_of_ours_is_told_as_json(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError

    client = await Client.connect(await serve(app))
    client.send(get())
    head = await client.head()
    assert (head.status, head.headers["llmgate-code"], head.headers["connection"]) == (500, "INTERNAL", "close")
    assert json.loads(await client.body())["error"]["type"] == "api_error"
    assert len(caplog.records) == 1
