"""What the application gets to see of a connection's bytes: each request once and whole, or nothing of it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rawclient import Client, post

from llmgate.server.http_protocol import GateProtocol
from llmgate.server.http_server import HttpServer, WireLimits
from llmgate.server.sockets import bind_listen
from tests.server.stage import Wire

HOST = b"host: localhost\r\n"
GET = b"GET /a%20b?c=%20 HTTP/1.1\r\n" + HOST + b"\r\n"
POST = b"POST /p HTTP/1.1\r\n" + HOST + b"content-length: 4\r\n\r\nbody"
CHUNKED = b"POST /p HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\n4;x=y\r\nbody\r\n0\r\nhost: evil\r\n\r\n"


class Echo:
    """Keeps what it was asked, and answers it with its body."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, bytes]] = []
        self.asked = self.left = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked += 1
        body = b""
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.left += 1
                return
            body += message["body"]
            more = message["more_body"]
        self.seen.append((scope, body))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})


class Site:
    def __init__(self, max_bodies: int | None = None) -> None:
        self.app = Echo()
        bound = bind_listen("127.0.0.1:0")
        self.port = bound.getsockname()[1]
        self.server = HttpServer(self.app, [bound], limits=WireLimits(max_bodies=max_bodies))

    async def exchange(self, *pieces: bytes) -> bytes:
        """What came until the server closed, or until it was silent on a kept connection."""
        client = await Client.connect(self.port)
        for piece in pieces:
            client.send(piece)
            await asyncio.sleep(0)
            await asyncio.sleep(0.001)
        client.half_close()
        return await client.wait_closed()

    async def wait(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    @property
    def bodies(self) -> Any:
        return self.server._server.config.http_protocol_class.bodies  # type: ignore[union-attr]


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    one = Site()
    await one.server.start()
    yield one
    await Client.close_all()
    await one.server.stop()
    assert one.bodies.held == 0


@pytest.mark.parametrize(
    ("data", "method", "path", "query", "body"),
    [
        (GET, "GET", "/a b", b"c=%20", b""),
        (POST, "POST", "/p", b"", b"body"),
        (CHUNKED, "POST", "/p", b"", b"body"),
        (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", "OPTIONS", "*", b"", b""),
        (b"GET /a%2fb%2F%252F%63%41%c3%a4 HTTP/1.1\r\n" + HOST + b"\r\n", "GET", "/a%2Fb%2F%2FcAä", b"", b""),
        (b"GET //x/y?a?b HTTP/1.1\r\n" + HOST + b"\r\n", "GET", "//x/y", b"a?b", b""),
    ],
)
@pytest.mark.parametrize("cut", [1, 3, 1000])
async def test_a_request_is_seen_whole(
    site: Site, data: bytes, method: str, path: str, query: bytes, body: bytes, cut: int
) -> None:
    client = await Client.connect(site.port)
    for at in range(0, len(data), cut):
        client.send(data[at : at + cut])
        await asyncio.sleep(0)
    assert await client.body() == body
    ((scope, seen),) = site.app.seen
    assert (scope["method"], scope["path"], scope["query_string"], seen) == (method, path, query, body)
    assert [value for name, value in scope["headers"] if name == b"host"] == [b"localhost"], "no trailer is a header"


@pytest.mark.parametrize("name", [b"Upgrade", b"upgrade", b"UPGRADE"])
async def test_an_offer_to_upgrade_is_passed_over_wherever_it_is_cut(site: Site, name: bytes) -> None:
    data = POST.replace(HOST, HOST + b"Connection: Upgrade\r\n" + name + b": h2c\r\n")
    middle = data.index(name)
    for at in (middle - 1, middle, middle + 3, middle + len(name), middle + len(name) + 1):
        client = await Client.connect(site.port)
        client.send(data[:at])
        await asyncio.sleep(0.002)
        client.send(data[at:])
        assert await client.body() == b"body"


async def test_a_body_may_look_like_an_offer(site: Site) -> None:
    body = b"x\r\nUpgrade: h2c\r\n"
    client = await Client.connect(site.port)
    client.send(post("/", body))
    assert await client.body() == body


async def test_a_blank_line_behind_a_body_is_no_request(site: Site) -> None:
    client = await Client.connect(site.port)
    for _ in range(3):
        client.send(POST + b"\r\n")
        assert await client.body() == b"body"
        client.next_answer()


@pytest.mark.parametrize("early", [GET, b"x", b"\0" * 100_000])
async def test_what_comes_early_is_dropped_and_the_answer_read(site: Site, early: bytes) -> None:
    client = await Client.connect(site.port)
    client.send(POST + early)
    assert await client.body() == b"body"
    assert await client.wait_closed() == b""
    assert len(site.app.seen) == 1


BROKEN = [
    POST.replace(b"content-length: 4", b"transfer-encoding: chunked"),
    CHUNKED.replace(b"4;x=y", b"3"),
    CHUNKED.replace(b"host: evil", b"host evil"),
]


@pytest.mark.parametrize("number", range(len(BROKEN)))
@pytest.mark.parametrize("whole", [True, False])
async def test_a_body_that_breaks_is_never_a_request(site: Site, number: int, whole: bool) -> None:
    """Its application is told that the client has left, if it was asked at all."""
    head, _, body = BROKEN[number].partition(b"\r\n\r\n")
    client = await Client.connect(site.port)
    client.send(BROKEN[number] if whole else head + b"\r\n\r\n")
    if not whole:
        await site.wait(lambda: site.app.asked == 1)
        client.send(body)
    assert (await client.head()).status == 400
    await site.wait(lambda: site.app.left == site.app.asked)
    assert site.server._server.server_state.connections, "it was not told by the end of the connection"
    assert site.app.seen == []


async def test_a_method_that_the_parser_does_not_know(site: Site) -> None:
    assert (await site.exchange(b"BREW / HTTP/1.1\r\n" + HOST + b"\r\n")).startswith(
        b"HTTP/1.1 501 Not Implemented\r\n"
    )


async def test_f60_all_bodies_together_are_bounded() -> None:
    """Who makes it too much is told to come back; the others go on, and what they held is free after them."""
    site = Site(max_bodies=100_000)
    await site.server.start()
    half = b"POST / HTTP/1.1\r\n" + HOST + b"content-length: 60000\r\n\r\n" + b"x" * 50_000
    clients = []
    for _ in range(3):
        clients.append(await Client.connect(site.port))
        clients[-1].send(half)
        await site.wait(lambda: site.bodies.held >= 50_000 * min(len(clients), 2))
    head = await clients[2].head()
    assert (head.status, head.headers["llmgate-code"], head.headers["retry-after"]) == (503, "TOO_MANY_BODIES", "1")
    assert site.bodies.held == 100_000
    clients[0].fin()
    await site.wait(lambda: site.bodies.held == 50_000)
    clients[1].send(b"y" * 10_000)
    assert await clients[1].body() == b"x" * 50_000 + b"y" * 10_000
    assert site.bodies.held == 0
    await Client.close_all()
    await site.server.stop()


# ---- anything at all


PIECE = st.sampled_from(
    [
        *(GET, POST, CHUNKED, HOST, b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.0\r\n", b"content-length: 4\r\n", b"\r\n"),
        *(
            b"transfer-encoding: chunked\r\n",
            b"connection: close\r\n",
            b"expect: 100-continue\r\n",
            b"upgrade: h2c\r\n",
        ),
        *(b"4\r\nbody\r\n", b"0\r\n", b"body", b"\n", b"\r", b" ", b":", b"\0", b"x"),
    ]
)


async def outcome(pieces: list[bytes]) -> tuple[list[bytes], list[tuple[str, bytes]], bool]:
    """Of a connection without a socket: the first status, what the application saw first, whether it is closing."""
    app = Echo()
    server = HttpServer(app, [])._server
    protocol = GateProtocol(server.config, server.server_state, {}, asyncio.get_running_loop())
    wire = Wire(protocol, 0)
    for piece in pieces:
        if not wire.is_closing():
            wire.send(piece)
    for _ in range(10):
        await asyncio.sleep(0)
    statuses = [line for line in wire.received.split(b"\r\n") if line.startswith(b"HTTP/1.1")]
    seen = [(scope["path"], body) for scope, body in app.seen]
    is_kept = protocol._lingered is None and not wire.is_closing()
    wire.leave()
    for _ in range(10):
        await asyncio.sleep(0)
    assert server.server_state.tasks == set()
    assert protocol._timer is None
    assert len(seen) <= 1
    return statuses, seen, is_kept


@given(st.lists(PIECE, max_size=8).map(b"".join) | st.binary(max_size=60), st.data())
def test_any_bytes_in_any_cut_come_to_the_same(data: bytes, draw: st.DataObject) -> None:
    """No traceback, no task that stays, and the same answer as uncut."""
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=4)))
    pieces = [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True) if begin < end]
    complaints: list[Any] = []

    async def both() -> tuple[Any, Any]:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        return await outcome([data]), await outcome(pieces)

    uncut, cut = asyncio.run(both())
    assert uncut == cut
    assert complaints == []
