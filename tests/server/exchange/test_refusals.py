"""Requests that are not served: no room, too long a wait, a closed gate, a faulty request."""

import asyncio

import pytest
from gateprocess import MESSAGES, request_body
from hands import Hands
from rawclient import Client, Head, post

from llmgate.protocols.counting import COUNT_PATH
from llmgate.protocols.surfaces import SURFACES
from llmgate.server.cycle import Cycle
from tests.server.answers import (
    PATHS,
)
from tests.server.house import UPSTREAM, House, OpenHouse


def check_queue_error(head: Head, code: str) -> None:
    assert head.headers["llmgate-code"] == code
    assert head.headers["x-should-retry"] == "false"
    assert 1 <= int(head.headers["retry-after"]) <= 10


class TestLimits:
    @PATHS
    async def test_the_queue_is_full(self, open_house: OpenHouse, path: str, hands: Hands) -> None:
        house = await open_house(upstream={"max_queued": 1})
        _, turn = await house.occupy()
        waiter = await house.queue()
        client = await house.ask(path=path)
        head = await client.head()
        check_queue_error(head, "QUEUE_FULL")
        assert (head.status, head.headers["llmgate-depth"], head.headers["llmgate-limit"]) == (503, "1", "1")
        assert "llmgate-queued-ms" not in head.headers
        assert "the queue of upstream reasoning is full (QUEUE_FULL)" in (await client.json())["error"]["message"]
        waiter.fin()
        await house.wait(lambda: house.outcomes == ["queue_full", "abandoned"])
        await turn.end()

    @PATHS
    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
    async def test_a_wait_that_took_too_long(
        self, open_house: OpenHouse, hands: Hands, path: str, stream: bool
    ) -> None:
        house = await open_house(upstream={"queue_timeout": 0.02})
        _, turn = await house.occupy()
        client = await house.ask(path=path, stream=stream)
        head = await client.head()
        body = await client.body()
        assert b"(QUEUE_TIMEOUT)" in body
        if stream:
            assert head.status == 200
            assert body.count(b"QUEUE_TIMEOUT") >= 1
        else:
            check_queue_error(head, "QUEUE_TIMEOUT")
            assert head.status == 504
            assert int(head.headers["llmgate-queued-ms"]) >= 15
        await turn.end()
        assert house.outcomes[0] == "queue_timeout"
        assert hands.untaken == 0

    async def test_one_without_a_stream_waits_less(self, open_house: OpenHouse, hands: Hands) -> None:
        house = await open_house(upstream={"queue_timeout_nonstream": 0.02})
        _, turn = await house.occupy()
        client = await house.queue()
        assert (await (await house.ask(stream=False)).head()).status == 504
        assert house.figures.waiting == 1
        await turn.end()
        await (await hands.turn()).complete()
        await client.body()

    @pytest.mark.parametrize(("wait", "status", "code"), [("0", 503, "QUEUE_FULL"), ("20ms", 504, "QUEUE_TIMEOUT")])
    async def test_a_request_may_shorten_its_wait(
        self, house: House, hands: Hands, wait: str, status: int, code: str
    ) -> None:
        _, turn = await house.occupy()
        client = await house.ask(headers={"llmgate-max-wait": wait, "llmgate-queue-events": "off"})
        head = await client.head()
        check_queue_error(head, code)
        assert head.status == status
        await turn.end()

    async def test_zero_means_a_slot_now(self, house: House, hands: Hands) -> None:
        client = await house.ask(headers={"llmgate-max-wait": "0"})
        await (await hands.turn()).complete()
        assert (await client.head()).status == 200
        await client.body()

    @pytest.mark.parametrize(
        ("runs", "slots", "seconds"),
        [([], 1, "1"), ([0.2], 1, "1"), ([6.0, 4.0, 5.0], 1, "5"), ([8.0], 2, "4"), ([90.0], 1, "10"), ([8.0], 0, "8")],
    )
    async def test_retry_after_tells_when_a_slot_may_fall_free(
        self, open_house: OpenHouse, runs: list[float], slots: int, seconds: str
    ) -> None:
        house = await open_house(upstream={"max_concurrent": slots, "max_queued": 0})
        house.ledger.figures(UPSTREAM).runs.extend(runs)
        gate = house.gate
        gate.set_paused(True, asyncio.get_running_loop().time())
        assert (await (await house.ask()).head()).headers["retry-after"] == seconds

    async def test_a_closed_gate_refuses(self, house: House) -> None:
        _, turn = await house.occupy()
        waiter = await house.queue(stream=False)
        house.services.admission.close()
        check_queue_error(await waiter.head(), "REFUSED")
        head = await (await house.ask()).head()
        check_queue_error(head, "REFUSED")
        assert head.status == 503
        await turn.end()
        await house.wait(lambda: "completed" in house.outcomes)
        assert house.outcomes == ["refused", "refused", "completed"]


class TestBadRequests:
    """None takes a place, and each is answered in the shape of its surface."""

    @PATHS
    @pytest.mark.parametrize(
        ("body", "headers", "status", "code"),
        [
            (b"{", {}, 400, "BAD_REQUEST"),
            (b"{}", {}, 400, "BAD_REQUEST"),
            (request_body("m"), {"llmgate-max-wait": "soon"}, 400, "BAD_REQUEST"),
            (request_body("m"), {"llmgate-queue-events": "yes"}, 400, "BAD_REQUEST"),
            (request_body("nobody"), {}, 404, "UNKNOWN_MODEL"),
            (b" " * 2000, {}, 413, "BODY_TOO_LARGE"),
        ],
    )
    async def test_is_told(
        self, open_house: OpenHouse, path: str, body: bytes, headers: dict[str, str], status: int, code: str
    ) -> None:
        house = await open_house(server={"max_body": 1000})
        client = await Client.connect(house.port)
        client.post(path, body, headers)
        head = await client.head()
        assert (head.status, head.headers["llmgate-code"]) == (status, code)
        assert "llmgate-upstream" not in head.headers
        told = await client.json()
        assert ("type" in told) == (path == MESSAGES)
        assert f"({code})" in told["error"]["message"]
        assert house.events == []
        if status == 413:
            assert head.headers["connection"] == "close"
            await client.wait_closed()

    async def test_a_body_that_does_not_come(self, open_house: OpenHouse) -> None:
        house = await open_house(server={"body_timeout": 0.02})
        client = await Client.connect(house.port)
        client.send(post(MESSAGES, request_body("m"))[:-5])
        head = await client.head()
        assert (head.status, head.headers["connection"]) == (408, "close")
        await client.wait_closed()
        assert house.events == []


CODED = (*SURFACES, COUNT_PATH, "/api/show")


@pytest.mark.parametrize("path", CODED)
@pytest.mark.parametrize("coding", ["gzip", "zstd", "GZIP", "identity, gzip"])
async def test_a_compressed_body_is_refused_unread(house: House, path: str, coding: str) -> None:
    client = await Client.connect(house.port)
    client.send(
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: {coding}\r\nContent-Length: 100\r\n\r\n".encode()
    )
    head = await client.head()
    assert (head.status, head.headers["llmgate-code"], head.headers["connection"]) == (415, "CODED_BODY", "close")
    told = (await client.json())["error"]
    text = told if path.startswith("/api/") else told["message"]
    assert text.endswith("without Content-Encoding (CODED_BODY)")
    assert path.startswith("/api/") or told["type"] == "invalid_request_error"


async def test_a_body_that_says_it_is_not_compressed_is_read(house: House, hands: Hands) -> None:
    client = await house.ask(headers={"content-encoding": "identity"})
    await (await hands.turn()).complete()
    assert (await client.head()).status == 200
    await client.frames()


@pytest.mark.parametrize("path", [*SURFACES, COUNT_PATH, "/api/show", f"/upstream/{UPSTREAM}/tokenize"])
async def test_a_fault_of_ours_while_a_body_is_read_has_the_shape_of_the_surface(
    open_house: OpenHouse, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    house = await open_house(upstream={"passthrough": True})

    async def fail(_: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(Cycle, "receive", fail)
    lines = ["Exception in ASGI"] if path in (COUNT_PATH, "/api/show") else ["request req_"]
    house.expected_log = lines
    client = await Client.connect(house.port)
    client.send(post(path, b"{}"))
    head = await client.head()
    assert (head.status, head.headers["content-type"]) == (500, "application/json")
    told = (await client.json())["error"]
    text = told if path.startswith("/api/") else told["message"]
    assert text == "llmgate: an internal error, see the log of llmgate (INTERNAL)"
