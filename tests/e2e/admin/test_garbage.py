"""Whatever comes in on the admin socket: it is closed at a limit, and the front door does not notice."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from adminsocket import curl
from gateprocess import GateProcess
from hands import Hands
from rawclient import Client

HUNDRED = 100 << 20
TAKEN = 8 << 20
"""More is not taken of what is no request: the limits, what is thrown away after them, the kernel's buffers."""
GROWN_KILOBYTES = 20 << 10


@pytest.fixture
async def busy(folder: Path) -> AsyncIterator[GateProcess]:
    """A daemon that serves one client after the other, all along; none of them may fail."""
    async with Hands() as hands:
        upstream = {"url": f"http://127.0.0.1:{hands.port}", "models": ["m"], "max_concurrent": 4}
        with GateProcess(folder, {"upstreams": {"a": upstream}}) as gate:
            answering = asyncio.ensure_future(answer_all(hands))
            asking = asyncio.ensure_future(ask_again_and_again(gate))
            yield gate
            await curl(gate.socket, "GET", "/v1/status")
            assert not asking.done(), asking.exception()
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            await Client.close_all()
            await gate.wait(gate.is_idle)
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)
            assert gate.upstream("a")["served"] > 0
            assert gate.upstream("a")["failed"] == 0


async def answer_all(hands: Hands) -> None:
    while True:
        await (await hands.turn(3600)).complete()


async def ask_again_and_again(gate: GateProcess) -> None:
    while True:
        client = await gate.ask("m")
        async with asyncio.timeout(60):
            assert (await client.head()).status == 200
            await client.body()
        client.fin()


async def pour(socket: Path, data: bytes, total: int) -> tuple[int, bytes]:
    """How much was taken before the daemon closed, and what it said."""
    reader, writer = await asyncio.open_unix_connection(str(socket))
    sent, said = 0, b""
    try:
        async with asyncio.timeout(120):
            while sent < total:
                writer.write(data)
                sent += len(data)
                await writer.drain()
                if reader.at_eof():
                    break
            said = await reader.read(4096)
    except (ConnectionError, BrokenPipeError):
        pass
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    return sent, said


def peak_kilobytes(gate: GateProcess) -> int:
    lines = Path(f"/proc/{gate.pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))


def open_files(gate: GateProcess) -> int:
    return len(list(Path(f"/proc/{gate.pid}/fd").iterdir()))


@pytest.mark.parametrize("letter", [b"x", b"G"], ids=["no method", "perhaps a method"])
async def test_f74_a_hundred_megabytes_without_a_newline(busy: GateProcess, letter: bytes) -> None:
    before = peak_kilobytes(busy)
    sent, _ = await pour(busy.socket, letter * (1 << 16), HUNDRED)
    assert sent < TAKEN
    assert peak_kilobytes(busy) - before < GROWN_KILOBYTES


@pytest.mark.parametrize(
    "data",
    [
        os.urandom(4096),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b'PATCH /v1/upstreams/a HTTP/1.1\r\nhost: x\r\ncontent-length: 20\r\n\r\n{"max_concurrent": ',
        b"GET /v1/status HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 20_000,
        b"POST /v1/reload HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
        b"\r\n" * 50_000,
    ],
    ids=["binary", "TLS", "half JSON", "many headers", "bad chunk", "long line", "blank lines"],
)
async def test_f74_what_is_no_request_is_closed(busy: GateProcess, data: bytes) -> None:
    """By an answer, or by its deadline: 10 s for a head, and for a body."""
    reader, writer = await asyncio.open_unix_connection(str(busy.socket))
    writer.write(data)
    async with asyncio.timeout(100):
        with contextlib.suppress(ConnectionError):
            while await reader.read(4096):
                pass
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def test_f74_a_body_is_refused_by_its_declared_size(busy: GateProcess) -> None:
    client = await Client.connect(str(busy.socket))
    client.send(b"PATCH /v1/upstreams/a HTTP/1.1\r\nhost: x\r\ncontent-length: 104857600\r\n\r\n")
    head = await client.head()
    assert head.status == 413
    assert (await client.json())["error"]["code"] == "BODY_TOO_LARGE"


async def test_f74_a_thousand_connections(busy: GateProcess) -> None:
    """Those beyond the limit are turned away; when they leave everybody is let in again."""
    clients = []
    for _ in range(1000):
        with contextlib.suppress(OSError):
            clients.append(await Client.connect(str(busy.socket)))
    assert len(clients) > 900
    assert open_files(busy) < 500, "the admin socket cannot use up what clients need"
    for client in clients[:3]:
        client.send(b"GET /v1/status HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await client.head()).status == 200
    for client in clients:
        client.reset()
    await busy.wait(lambda: "upstreams" in busy._look("/v1/status"))
    assert (await curl(busy.socket, "GET", "/healthz")) == {"status": "ok"}
