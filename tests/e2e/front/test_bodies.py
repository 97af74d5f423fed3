"""Bodies that are too large, too slow, or wait to be asked for: none holds a slot, a place or much memory."""

import asyncio
from pathlib import Path

import pytest
from gateprocess import CHAT, MESSAGES, GateProcess, request_body
from hands import ANSWER, Hands
from rawclient import Client, CutOff

from tests.e2e.front.memory import resident

MIB = 1 << 20
LIMIT = MIB
"""`max_body` of the shared daemon."""


def head(path: str = MESSAGES, *lines: str) -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def taken(gate: GateProcess) -> int:
    """Slots and places."""
    return sum(view["running"] + view["waiting"] for view in gate.status()["upstreams"])


@pytest.mark.parametrize("path", [MESSAGES, CHAT])
async def test_f60_a_large_body_is_refused_by_its_length(gate: GateProcess, hands: Hands, path: str) -> None:
    """Unread; and a client that sends it all the same reads the answer, not a reset."""
    client = await Client.connect(gate.port)
    client.send(head(path, f"Content-Length: {16 * MIB}"))
    for _ in range(64):
        client.send(b" " * (MIB // 4))
        async with asyncio.timeout(30):
            await client._writer.drain()
    assert (await client.head()).status == 413
    assert "BODY_TOO_LARGE" in (await client.json())["error"]["message"]
    assert await client.wait_closed() == b""
    await hands.wait(lambda: hands.connections == [])


@pytest.mark.parametrize("path", [MESSAGES, CHAT])
async def test_f60_a_large_body_in_chunks_is_refused_at_the_limit(gate: GateProcess, hands: Hands, path: str) -> None:
    client = await Client.connect(gate.port)
    client.send(head(path, "Transfer-Encoding: chunked"))
    for _ in range(64):
        client.send(b"40000\r\n" + b" " * 0x40000 + b"\r\n")
        async with asyncio.timeout(30):
            await client._writer.drain()
    assert (await client.head()).status == 413
    await hands.wait(lambda: hands.connections == [])


async def test_f60_fifty_large_bodies_at_once_hold_no_more_than_allowed(folder: Path) -> None:
    """Those for which there is no room are told to come back; the daemon grows by a small multiple of the bound."""
    bound = 16 * MIB
    server = {"max_body": "8MiB", "max_held_bodies": "16MiB", "body_timeout": "60s"}
    upstream = {"url": "http://127.0.0.1:9", "models": ["one"], "max_concurrent": 1, "on_down": "fail"}
    with GateProcess(folder, {"server": server, "upstreams": {"one": upstream}}) as gate:
        before = resident(gate.pid)
        clients = [await Client.connect(gate.port) for _ in range(50)]
        for client in clients:
            client.send(head(MESSAGES, f"Content-Length: {8 * MIB}"))
        statuses = await asyncio.gather(*(send_slowly(client, 8 * MIB - 1) for client in clients))
        assert resident(gate.pid) - before < 3 * bound
        refused = [status for status in statuses if status is not None]
        assert set(refused) == {503}
        assert len(refused) > 25, "two have room; of some others the answer is lost with their connection"
        assert taken(gate) == 0
        await Client.close_all()
        late = await Client.connect(gate.port)
        late.send(head(MESSAGES, "Content-Length: 2") + b"{}")
        assert (await late.head()).status == 400, "there is room again"


async def send_slowly(client: Client, size: int) -> int | None:
    """All of it in small pieces, so that all are under way at once; the status of an answer that comes before."""
    for _ in range(size // 65_536):
        client.send(b" " * 65_536)
        try:
            async with asyncio.timeout(60):
                await client._writer.drain()
        except ConnectionError:
            break
        if client._reader._buffer:
            break
    try:
        async with asyncio.timeout(15):
            answer = await client.head()
    except (TimeoutError, CutOff):
        return None
    return answer.status


async def test_f60_a_slow_body_holds_neither_slot_nor_place_and_is_cut(folder: Path, hands: Hands) -> None:
    upstream = {"url": hands.url, "models": ["one"], "max_concurrent": 1, "max_queued": 1}
    with GateProcess(folder, {"server": {"body_timeout": "2s"}, "upstreams": {"one": upstream}}) as gate:
        body = request_body("one")
        slow = [await Client.connect(gate.port) for _ in range(10)]
        for client in slow:
            client.send(head(MESSAGES, f"Content-Length: {len(body)}"))
        trickling = asyncio.ensure_future(trickle(slow, body))
        quick = await gate.ask("one")
        turn = await hands.turn()
        assert taken(gate) == 1
        await turn.complete()
        assert await quick.body() == ANSWER
        for client in slow:
            assert (await client.head()).status == 408
            assert "BODY_TIMEOUT" in (await client.json())["error"]["message"]
        trickling.cancel()
        assert hands.untaken == 0
        await Client.close_all()


async def trickle(clients: list[Client], body: bytes) -> None:
    """A byte a second."""
    for byte in body:
        for client in clients:
            client.send(bytes([byte]))
        await asyncio.sleep(1)


# ---- F67


async def test_f67_a_body_that_is_wanted_is_asked_for(gate: GateProcess, hands: Hands) -> None:
    client = await Client.connect(gate.port)
    body = request_body("one")
    client.send(head(MESSAGES, f"Content-Length: {len(body)}", "Expect: 100-continue"))
    assert (await client.head()).status == 100
    await hands.wait(lambda: hands.connections == [])
    client.next_answer()
    client.send(body)
    await (await hands.turn()).complete()
    assert (await client.head()).status == 200
    assert await client.body() == ANSWER


async def test_f67_a_full_queue_is_told_after_the_body(gate: GateProcess, hands: Hands) -> None:
    """The model in it says which queue."""
    running = await gate.ask("none")
    turn = await hands.turn()
    client = await Client.connect(gate.port)
    body = request_body("none")
    client.send(head(MESSAGES, f"Content-Length: {len(body)}", "Expect: 100-continue"))
    assert (await client.head()).status == 100
    client.next_answer()
    client.send(body)
    answer = await client.head()
    assert (answer.status, answer.headers["llmgate-code"]) == (503, "QUEUE_FULL")
    await turn.complete()
    assert await running.body() == ANSWER


async def test_f67_a_body_that_is_too_large_is_not_asked_for(gate: GateProcess, hands: Hands) -> None:
    client = await Client.connect(gate.port)
    client.send(head(MESSAGES, f"Content-Length: {LIMIT + 1}", "Expect: 100-continue"))
    assert (await client.head()).status == 413
    await client.body()
    assert await client.wait_closed() == b""


@pytest.mark.parametrize("path", ["/llm/v1/nothing", "/healthz"])
async def test_f67_nobody_asks_for_a_body_that_nobody_reads(gate: GateProcess, path: str) -> None:
    client = await Client.connect(gate.port)
    client.send(head(path, "Content-Length: 10", "Expect: 100-continue"))
    answer = await client.head()
    assert (answer.status, answer.headers["connection"]) in ((404, "close"), (405, "close"))


async def test_f67_no_key_no_body(folder: Path) -> None:
    keys = folder / "keys.toml"
    keys.write_text('[keys.laptop]\nkey = "a-key-of-at-least-sixteen-letters"\n')
    keys.chmod(0o600)
    upstream = {"url": "http://127.0.0.1:9", "models": ["one"], "max_concurrent": 1}
    with GateProcess(folder, {"server": {"keys_file": str(keys)}, "upstreams": {"one": upstream}}) as gate:
        client = await Client.connect(gate.port)
        client.send(head(MESSAGES, "Content-Length: 10", "Expect: 100-continue"))
        answer = await client.head()
        assert (answer.status, answer.headers["connection"]) == (401, "close")
        await client.body()
        assert await client.wait_closed() == b""
