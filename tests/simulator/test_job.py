"""One request in a slot: its stream is whole, waits for a slow client, and breaks off where it is told to."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from llmgate.simulator import Behaviour, Failure, Simulator

BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(("path", "end"), [("/v1/messages", "message_stop"), ("/v1/chat/completions", "[DONE]")])
async def test_a_stream_is_whole(path: str, end: str) -> None:
    async with Simulator(Behaviour(tokens=3)) as server, httpx.AsyncClient(base_url=server.url) as client:
        answer = await client.post(path, json=BODY | {"stream": True})
        assert answer.headers["content-type"] == "text/event-stream"
        assert end in answer.text.strip().rpartition("\n\n")[2]
        assert answer.text.count("The ") == 1


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
async def test_an_answer_that_does_not_stream_is_one_json(path: str) -> None:
    async with Simulator() as server, httpx.AsyncClient(base_url=server.url) as client:
        answer = await client.post(path, json=BODY)
        assert answer.json()["model"] == "m"
        assert server.ledger.finished == 1


async def test_the_headers_and_the_start_go_out_before_the_hold_is_over(wire: Any) -> None:
    async with Simulator(Behaviour(hold=3600, tokens=2)) as server:
        client = await wire.connect(server.port)
        client.post()
        assert "200 OK" in await client.head()
        assert b"message_start" in await client.until(b"\n\n")
        assert server.ledger.running == 1
        await client.close()


async def test_with_a_prompt_the_headers_come_alone(wire: Any) -> None:
    async with Simulator(Behaviour(prompt=3600)) as server:
        client = await wire.connect(server.port)
        client.post()
        await client.head()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.reader.read(1), 0.05)
        await client.close()


async def test_the_slot_is_free_before_the_last_bytes_are_read(wire: Any) -> None:
    async with Simulator(Behaviour(hold=0.02)) as server:
        client = await wire.connect(server.port)
        client.post()
        await client.until(b"0\r\n\r\n")
        assert server.ledger.running == 0
        await client.close()


async def test_a_break_ends_in_the_middle_of_an_event(wire: Any) -> None:
    async with Simulator(Behaviour(tokens=4, failures=(Failure("break"),))) as server:
        client = await wire.connect(server.port)
        client.post()
        text = await client.reader.read()
        assert text.count(b'"text_delta"') == 2
        assert b"message_stop" not in text
        assert not text.endswith((b"\n\n\r\n", b"0\r\n\r\n"))
        await client.close()
        counts = (server.ledger.running, server.ledger.failed, server.ledger.finished, server.ledger.aborted)
        assert counts == (0, 1, 0, 0)


async def test_a_break_ends_in_the_middle_of_a_json(wire: Any) -> None:
    async with Simulator(Behaviour(failures=(Failure("break"),))) as server:
        client = await wire.connect(server.port)
        client.post(stream=False)
        head, _, body = (await client.reader.read()).partition(b"\r\n\r\n")
        assert b"200 OK" in head
        with pytest.raises(json.JSONDecodeError):
            json.loads(body)
        await client.close()


async def test_a_client_that_does_not_read_stops_the_stream() -> None:
    tokens = 200_000
    async with Simulator(Behaviour(tokens=tokens)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        body = b'{"messages":[],"stream":true}'
        writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        await reader.readuntil(b"\r\n\r\n")
        for _ in range(20):
            await asyncio.sleep(0.005)
        assert server.ledger.running == 1
        size, end = 0, b""
        while not end.endswith(b"0\r\n\r\n"):
            piece = await reader.read(65536)
            size, end = size + len(piece), (end + piece)[-5:]
        assert size > tokens * 50
        assert server.ledger.finished == 1
        writer.close()
        await writer.wait_closed()
