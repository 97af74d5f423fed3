"""Heads that are too large or never end, and methods, versions and targets that are none of ours."""

import asyncio
from collections.abc import Iterator

import pytest
from gateprocess import CHAT, MESSAGES, GateProcess, request_body
from hands import ANSWER, Hands
from rawclient import Client

from tests.e2e.front.memory import resident

HOST = b"Host: localhost\r\n"
BEGIN = f"POST {MESSAGES} HTTP/1.1\r\n".encode() + HOST
SENT = 100 << 20
GROWN = 5 << 20


def one_header() -> Iterator[bytes]:
    yield BEGIN + b"x: "
    for _ in range(SENT >> 16):
        yield b"y" * (1 << 16)


def many_headers() -> Iterator[bytes]:
    yield BEGIN
    for at in range(0, 1_600_000, 4000):
        yield b"".join(b"x-%d: y\r\n" % number for number in range(at, at + 4000))


def one_url() -> Iterator[bytes]:
    yield b"GET /"
    for _ in range(SENT >> 16):
        yield b"y" * (1 << 16)


ENDLESS = {"one header": (one_header, 431), "many headers": (many_headers, 431), "one URL": (one_url, 414)}


async def flood(client: Client, pieces: Iterator[bytes]) -> int:
    """Sends until nobody takes it any more; how much it was."""
    sent = 0
    for piece in pieces:
        client.send(piece)
        sent += len(piece)
        try:
            async with asyncio.timeout(30):
                await client._writer.drain()
        except ConnectionError:
            break
    return sent


@pytest.mark.parametrize("name", ENDLESS)
async def test_f56_a_head_without_an_end_is_cut_early(gate: GateProcess, hands: Hands, name: str) -> None:
    """And costs no memory; others are served meanwhile."""
    make, _ = ENDLESS[name]
    warm = await Client.connect(gate.port)
    await flood(warm, make())
    before = resident(gate.pid)
    client = await Client.connect(gate.port)
    flooding = asyncio.ensure_future(flood(client, make()))
    most = before
    while not flooding.done():
        other = await Client.connect(gate.port)
        other.send(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
        assert (await other.head()).status == 200
        other.fin()
        most = max(most, resident(gate.pid))
    assert await flooding < SENT // 2
    assert most - before <= GROWN
    await hands.wait(lambda: hands.connections == [])


@pytest.mark.parametrize("name", ENDLESS)
async def test_f56_the_answer_can_be_read(gate: GateProcess, name: str) -> None:
    """Also by a client that sends some more before it looks."""
    make, status = ENDLESS[name]
    client = await Client.connect(gate.port)
    pieces = make()
    for _ in range(10):
        client.send(next(pieces))
    head = await client.head()
    assert (head.status, head.headers["llmgate-code"]) == (status, "HEAD_TOO_LARGE")
    assert head.headers["connection"] == "close"
    assert (await client.json())["error"]["code"] == "HEAD_TOO_LARGE"


# ---- F68


async def ask(gate: GateProcess, line: str, *lines: str) -> Client:
    client = await Client.connect(gate.port)
    client.send("\r\n".join([line, *lines, "", ""]).encode())
    return client


async def test_f68_http_1_0_gets_its_answer_without_chunks(gate: GateProcess, hands: Hands) -> None:
    """The stream's end is that of the connection."""
    client = await Client.connect(gate.port)
    body = request_body("one")
    client.send(f"POST {MESSAGES} HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    await (await hands.turn()).complete()
    head = await client.head()
    assert (head.status, head.headers["connection"]) == (200, "close")
    assert "transfer-encoding" not in head.headers
    assert await client.wait_closed() == ANSWER


@pytest.mark.parametrize("asked", ["close", "keep-alive"])
async def test_f68_a_connection_is_kept_as_http_1_0_asks(gate: GateProcess, asked: str) -> None:
    client = await ask(gate, "GET /healthz HTTP/1.0", f"Connection: {asked}")
    head = await client.head()
    assert (head.status, head.headers["connection"]) == (200, asked)
    await client.body()
    if asked == "keep-alive":
        client.next_answer()
        client.send(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert (await client.head()).headers["connection"] == "close"
        await client.body()
    assert await client.wait_closed() == b""


async def test_f68_connection_close_is_obeyed(gate: GateProcess, hands: Hands) -> None:
    client = await gate.ask("one", headers={"Connection": "close"})
    await (await hands.turn()).complete()
    assert (await client.head()).headers["connection"] == "close"
    assert await client.body() == ANSWER
    assert await client.wait_closed() == b""


@pytest.mark.parametrize("path", [MESSAGES, CHAT])
@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "GET", "PUT", "DELETE", "PATCH", "TRACE"])
async def test_f68_another_method_is_a_405_and_the_connection_goes_on(
    gate: GateProcess, hands: Hands, method: str, path: str
) -> None:
    client = await ask(gate, f"{method} {path} HTTP/1.1", "Host: localhost")
    head = await client.head()
    assert head.status == 405
    if method != "HEAD":
        await client.body()
    client.next_answer()
    client.send(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
    assert await client.json() == {"status": "ok"}
    await hands.wait(lambda: hands.connections == [])


@pytest.mark.parametrize("target", ["/llm/v1/nothing", "//llm/v1/messages", "/llm/v1/messages/", "/%2e%2e/x"])
async def test_f68_an_unknown_path_is_a_404(gate: GateProcess, hands: Hands, target: str) -> None:
    for method in ("POST", "GET", "HEAD"):
        client = await ask(gate, f"{method} {target} HTTP/1.1", "Host: localhost", "Content-Length: 0")
        assert (await client.head()).status == 404
    await hands.wait(lambda: hands.connections == [])


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("CONNECT localhost:80 HTTP/1.1", 400),
        ("PRI * HTTP/2.0", 400),
        ("GET / HTTP/2.0", 505),
        ("GET / HTTP/1.2", 505),
        ("BREW / HTTP/1.1", 501),
        ("get / HTTP/1.1", 400),
        ("GET /", 400),
    ],
)
async def test_f68_what_this_does_not_speak_is_said_so_and_closed(
    gate: GateProcess, hands: Hands, line: str, status: int
) -> None:
    client = await ask(gate, line, "Host: localhost")
    head = await client.head()
    assert (head.status, head.headers["connection"]) == (status, "close")
    await client.body()
    assert await client.wait_closed() == b""
    await hands.wait(lambda: hands.connections == [])
    assert gate.new_log == []
