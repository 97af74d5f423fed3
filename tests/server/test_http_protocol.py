"""uvicorn's protocol with our changes: no pipelining, no upgrade, and a connection can be aborted."""

import asyncio
import socket

import pytest
from gateprocess import MESSAGES, request_body
from hands import ANSWER, Hands, delta
from rawclient import Client, CutOff, name_of, post

from llmgate.server.http_server import HttpServer
from llmgate.server.sockets import bind_listen
from tests.server.house import House

REQUEST = post(MESSAGES, request_body("m"))
SECOND = post(MESSAGES, request_body("m", second=True))
HEALTH = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.mark.parametrize("leave", ["fin", "reset"])
@pytest.mark.parametrize("segments", [1, 2])
async def test_f05_leaving_is_noticed_after_a_pipelined_request(
    house: House, hands: Hands, segments: int, leave: str
) -> None:
    _, turn = await house.occupy()
    for _ in range(20):
        client = await Client.connect(house.port)
        if segments == 1:
            client.send(REQUEST + SECOND)
            await house.wait(lambda: house.figures.waiting == 1)
        else:
            client.send(REQUEST)
            await house.wait(lambda: house.figures.waiting == 1)
            client.send(SECOND)
            await asyncio.sleep(0.002)
        getattr(client, leave)()
        await house.wait(lambda: house.figures.waiting == 0)
    assert house.outcomes == ["abandoned"] * 20
    await turn.end()
    assert hands.untaken == 0


@pytest.mark.parametrize("segments", [1, 2])
async def test_f05_a_pipelined_request_never_runs(house: House, hands: Hands, segments: int) -> None:
    """And the connection closes after the first answer, whoever pipelined what."""
    for second in (SECOND, HEALTH, SECOND + HEALTH * 3):
        client = await Client.connect(house.port)
        client.send(REQUEST + second if segments == 1 else REQUEST)
        turn = await hands.turn()
        if segments == 2:
            client.send(second)
            await asyncio.sleep(0.002)
        await turn.complete()
        assert await client.body() == ANSWER
        assert await client.wait_closed() == b""
    assert house.outcomes == ["completed"] * 3
    assert hands.untaken == 0


async def test_a_pipelined_body_is_dropped_as_it_comes(house: House, hands: Hands) -> None:
    client, turn = await house.occupy()
    client.send(post(MESSAGES, b"x" * 3_000_000))
    await asyncio.sleep(0.01)
    client.fin()
    await house.wait(lambda: house.outcomes == ["client_gone"])
    await turn.wait_closed()


async def test_a_kept_connection_takes_one_after_the_other(house: House, hands: Hands) -> None:
    client = await Client.connect(house.port)
    for _ in range(3):
        client.send(REQUEST)
        await (await hands.turn()).complete()
        assert await client.body() == ANSWER
        client.next_answer()
        client.send(HEALTH)
        assert await client.json() == {"status": "ok"}
        client.next_answer()
    assert house.outcomes == ["completed"] * 3


async def test_a_short_answer_does_not_make_the_next_a_pipelined_one(house: House) -> None:
    """Two requests in one segment, the first of which is answered before the second is read."""
    client = await Client.connect(house.port)
    for _ in range(2):
        client.send(HEALTH)
        assert await client.json() == {"status": "ok"}
        client.next_answer()


@pytest.mark.parametrize("name", ["upgrade", "Upgrade", "UPGRADE"])
@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
async def test_an_offer_to_upgrade_is_passed_over(house: House, hands: Hands, name: str, protocol: str) -> None:
    """The request itself is one like others, body and all, and so is the next one on its connection."""
    client = await Client.connect(house.port)
    for _ in range(2):
        offer = {"Connection": "Upgrade, HTTP2-Settings", name: protocol, "HTTP2-Settings": "x"}
        client.send(post(MESSAGES, request_body("m"), offer))
        turn = await hands.turn()
        assert turn.request.body == request_body("m")
        await turn.complete()
        assert await client.body() == ANSWER
        client.next_answer()


async def test_an_abort_closes_at_once_with_data_unsent_and_unread() -> None:
    aborted = asyncio.Event()

    async def app(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 50_000_000, "more_body": True})
        scope["extensions"]["llmgate.connection"].abort()
        await receive()
        aborted.set()

    server = HttpServer(app, [listening := bind_listen("127.0.0.1:0")])
    await server.start()
    client = await Client.connect(listening.getsockname()[1], receive_buffer=4096)
    client.post("/", b"{}")
    async with asyncio.timeout(60):
        await aborted.wait()
        while server._server.server_state.connections:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    with pytest.raises(CutOff):
        await client.body()
    await Client.close_all()
    await server.stop()


async def test_what_follows_an_abort_goes_nowhere(house: House, hands: Hands) -> None:
    client, turn = await house.occupy()
    (exchange,) = house.services.running
    exchange._connection.abort()  # type: ignore[attr-defined]
    assert name_of(await client.frame()) == "message_start"
    await client.frame()
    with pytest.raises(CutOff):
        await client.frame()
    await house.wait(lambda: house.outcomes == ["client_gone"])
    await turn.wait_closed()


# ---- a peer that is gone without a word


async def test_the_kernel_watches_the_peer(house: House) -> None:
    client = await Client.connect(house.port)
    client.send(HEALTH)
    await client.body()
    (connection,) = house.http._server.server_state.connections
    raw = connection.transport.get_extra_info("socket")
    assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


# ---- a head without an end


@pytest.mark.parametrize("begin", [b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nX: ", b"GET /", b"GET / HTTP/1.1\r\n"])
async def test_a_head_that_is_too_long_is_refused(house: House, begin: bytes) -> None:
    client = await Client.connect(house.port)
    client.send(begin)
    line = b"a: b\r\n" if begin.endswith(b"\r\n") else b"aaaa"
    client.send(line * (70_000 // len(line)))
    status = b"414" if begin == b"GET /" else b"431"
    assert (await client.wait_closed()).startswith(b"HTTP/1.1 " + status)
    assert house.figures.waiting == house.figures.running == 0


async def test_an_abort_between_two_requests(house: House) -> None:
    client = await Client.connect(house.port)
    client.send(HEALTH)
    await client.body()
    (connection,) = house.http._server.server_state.connections
    connection.abort()
    assert await client.wait_closed() == b""


async def test_only_our_own_clock_counts_while_a_client_reads_slowly(house: House, hands: Hands) -> None:
    """F17: the kernel would give it up; it may again from the next request on."""

    def kernels() -> int:
        (connection,) = house.http._server.server_state.connections
        raw = connection.transport.get_extra_info("socket")
        return int(raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))

    client = await Client.connect(house.port, receive_buffer=4096)
    client.send(REQUEST)
    turn = await hands.turn()
    await turn.begin()
    await client.head()
    assert kernels() > 0
    while kernels():
        await turn.say(delta("x" * 30_000))
    assert len(house.services.running) == 1
    await turn.end()
    frames = await client.frames()
    assert name_of(frames[-1]) == "message_stop"
    assert kernels() == 0, "the rest of the answer may still be on its way"
    client.next_answer()
    client.send(REQUEST)
    turn = await hands.turn()
    assert kernels() > 0
    await turn.complete()
    await client.frames()
