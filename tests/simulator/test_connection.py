"""The simulated server's connections: kept alive, told when the client goes, closed on what they cannot read."""

import asyncio
from typing import Any

import pytest

from llmgate.simulator import Behaviour, Simulator


async def test_a_connection_is_kept_for_the_next_request(wire: Any) -> None:
    async with Simulator() as server:
        client = await wire.connect(server.port)
        for _ in range(3):
            client.post(stream=False)
            assert (await client.answer())[0] == 200
        assert server.ledger.connections == 1
        await client.close()


async def test_connection_close_is_obeyed_after_the_answer(wire: Any) -> None:
    async with Simulator() as server:
        client = await wire.connect(server.port)
        client.post(headers="connection: close\r\n")
        text = await client.reader.read()
        assert text.endswith(b'message_stop"}\n\n\r\n0\r\n\r\n')
        assert b"connection: close" in text
        assert server.ledger.aborted == 0
        await client.close()


@pytest.mark.parametrize("garbage", [b"NONSENSE\r\n\r\n", b"GET / HTTP/1.1\r\nbad header\r\n\r\n", b"\x16\x03\x01\x00"])
async def test_garbage_ends_the_connection(wire: Any, garbage: bytes) -> None:
    async with Simulator() as server:
        client = await wire.connect(server.port)
        client.writer.write(garbage)
        assert await client.reader.read() == b""
        await client.close()


async def test_a_second_request_before_the_answer_is_over_ends_the_connection(wire: Any) -> None:
    async with Simulator(Behaviour(hold=60)) as server:
        client = await wire.connect(server.port)
        client.post()
        client.post()
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await client.until(b"never")
        assert server.ledger.seen == 1
        assert server.ledger.running == 0
        await client.close()


async def test_a_request_in_one_byte_pieces_is_read(wire: Any) -> None:
    async with Simulator() as server:
        client = await wire.connect(server.port)
        body = b'{"messages":[]}'
        for byte in b"POST /v1/messages?beta=true HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (
            len(body),
            body,
        ):
            client.writer.write(bytes([byte]))
            await asyncio.sleep(0)
        assert (await client.answer())[0] == 200
        await client.close()
