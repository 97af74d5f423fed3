"""What is passed on under /upstream/NAME/: as it is, and in its turn where it could start work. The rest: `passage`."""

import asyncio
import random

import pytest
from hands import Hands
from puppet import refusing_port
from rawclient import Client, CutOff

from tests.server.house import UPSTREAM, House, OpenHouse
from tests.server.passing import (
    ANTHROPIC,
    HERE,
    PATH,
    STOPPING,
    ask,
    begin,
    check_shape,
    head_of,
    line,
    occupy,
)


@pytest.fixture
async def house(open_house: OpenHouse) -> House:
    """One slot; its server is open to be passed on to."""
    return await open_house(upstream={"passthrough": True})


@pytest.mark.parametrize("prefix", ["/llm", ""])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_a_request_passes_as_it_is(house: House, hands: Hands, method: str, prefix: str) -> None:
    target = "/x//y%2Fz/%C3%A4;a=b?q=%2F..%0A&q=a+b?c"
    body = b"" if method == "GET" else bytes(range(256)) * 1000
    client = await ask(house, method, f"{prefix}/upstream/{UPSTREAM}{target}", body, content_type="x/y", accept="a/b")
    turn = await hands.turn()
    assert turn.request.line == f"{method} {target} HTTP/1.1".encode()
    assert turn.request.body == body
    assert (turn.request.header(b"content-type"), turn.request.header(b"accept")) == (b"x/y", b"a/b")
    await turn.connection.send(head_of(207, "content-type: z/z", "content-length: 3") + b"\0\xff\n")
    head = await client.head()
    assert (head.status, head.headers["content-type"], head.headers["content-length"]) == (207, "z/z", "3")
    assert (head.headers["llmgate-upstream"], await client.body()) == (UPSTREAM, b"\0\xff\n")


async def test_a_compressed_body_passes_with_the_name_of_its_coding(house: House, hands: Hands) -> None:
    body = bytes(range(256))
    client = await ask(house, "POST", HERE + PATH, body, content_encoding="gzip, zstd")
    turn = await hands.turn()
    assert (turn.request.header(b"content-encoding"), turn.request.body) == (b"gzip, zstd", body)
    await turn.connection.send(head_of(200, "content-length: 2") + b"ok")
    assert await client.body() == b"ok"


async def test_request_headers_are_those_of_the_list(open_house: OpenHouse, hands: Hands) -> None:
    house = await open_house(upstream={"passthrough": True, "headers": {"x-own": "1"}})
    for method in ("GET", "POST"):
        client = await ask(
            house,
            method,
            HERE + PATH,
            cookie="a=b",
            authorization="Bearer secret",
            x_api_key="secret",
            accept_encoding="gzip",
            llmgate_max_wait="5s",
            te="trailers",
            x_forwarded_for="1.2.3.4",
            user_agent="me/1",
        )
        turn = await hands.turn()
        assert b"secret" not in turn.request.head
        names = {line.partition(b":")[0].lower() for line in turn.request.head.split(b"\r\n")[1:]}
        assert not names & {b"cookie", b"llmgate-max-wait", b"te", b"x-forwarded-for"}
        assert turn.request.header(b"accept-encoding") == b"identity"
        assert (turn.request.header(b"x-own"), turn.request.header(b"user-agent")) == (b"1", b"me/1")
        assert turn.request.header(b"host") == f"127.0.0.1:{hands.port}".encode()
        await turn.answer()
        await client.body()


async def test_answer_headers_are_those_of_the_list(house: House, hands: Hands) -> None:
    passed = {
        "content-type": "a/b; c=d",
        "content-encoding": "gzip",
        "cache-control": "max-age=5",
        "content-disposition": "attachment",
        "allow": "GET",
        "x-request-id": "up-1",
        "retry-after": "7",
    }
    stripped = {
        "set-cookie": "a=b",
        "access-control-allow-origin": "*",
        "connection": "x-hop",
        "x-hop": "1",
        "keep-alive": "timeout=5",
        "server": "llama.cpp",
        "trailer": "x",
    }
    for method in ("GET", "POST"):
        client = await ask(house, method, HERE + PATH)
        turn = await hands.turn()
        lines = [f"{name}: {value}" for name, value in (passed | stripped).items()]
        await turn.connection.send(head_of(200, *lines, "content-length: 2") + b"\x1f\x8b")
        headers = (await client.head()).headers
        assert headers.items() >= passed.items()
        assert not headers.keys() & stripped.keys()
        assert "x-accel-buffering" not in headers
        assert await client.body() == b"\x1f\x8b"


async def test_a_stream_is_passed_piece_by_piece(house: House, hands: Hands) -> None:
    for method in ("GET", "POST"):
        client = await ask(house, method, HERE + PATH)
        turn = await hands.turn()
        await begin(turn, b"data: 1")
        assert await client.chunk() == b"data: 1"
        assert (await client.head()).headers["x-accel-buffering"] == "no"
        await turn.say(b"\n\n")
        assert await client.chunk() == b"\n\n"
        await turn.end(b"data: 2\n\n")
        assert await client.body() == b"data: 1\n\ndata: 2\n\n"
    assert house.outcomes == ["completed"]


async def test_an_answer_without_a_length_ends_with_its_connection(house: House, hands: Hands) -> None:
    client = await ask(house, "GET", HERE + "/old")
    turn = await hands.turn()
    await turn.connection.send(b"HTTP/1.0 200 OK\r\n\r\nsome", b"thing")
    turn.connection.close()
    assert await client.body() == b"something"


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("head", "length"),
    [
        (head_of(204), None),
        (head_of(204, "content-length: 0"), None),
        (head_of(304, "content-length: 5"), None),
        (head_of(200, "content-length: 0"), "0"),
    ],
)
async def test_answers_without_a_body(house: House, hands: Hands, method: str, head: bytes, length: str | None) -> None:
    client = await ask(house, method, HERE + PATH)
    await (await hands.turn()).connection.send(head)
    answered = await client.head()
    assert answered.status == int(head.split()[1])
    assert answered.headers.get("content-length") == length
    assert "transfer-encoding" not in answered.headers
    await check_goes_on(house, hands, client)


@pytest.mark.parametrize("lines", [["content-length: 12345"], ["transfer-encoding: chunked"], []])
async def test_head_has_the_headers_and_no_body(house: House, hands: Hands, lines: list[str]) -> None:
    client = await ask(house, "HEAD", HERE + "/file")
    turn = await hands.turn()
    assert turn.request.line == b"HEAD /file HTTP/1.1"
    await turn.connection.send(head_of(200, "content-type: a/b", *lines))
    head = await client.head()
    assert (head.status, head.headers["content-type"]) == (200, "a/b")
    assert head.headers.get("content-length") == ("12345" if "content-length: 12345" in lines else None)
    await check_goes_on(house, hands, client)


async def check_goes_on(house: House, hands: Hands, client: Client) -> None:
    """The connection takes another request: nothing more came of the one before."""
    client.next_answer()
    client.send(line("GET", HERE + "/next"))
    await (await hands.turn()).answer(200, b"next")
    assert (await client.head()).status == 200
    assert await client.body() == b"next"


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("/there?a=b", HERE + "/there?a=b"),
        ("{url}/there", HERE + "/there"),
        ("there", "there"),
        ("https://example.org/x", "https://example.org/x"),
    ],
)
async def test_a_redirect_is_not_followed_and_stays_inside(
    house: House, hands: Hands, location: str, told: str
) -> None:
    client = await ask(house, "GET", HERE + PATH)
    location = location.replace("{url}", hands.url)
    await (await hands.turn()).connection.send(head_of(302, f"location: {location}", "content-length: 2") + b"go")
    head = await client.head()
    assert (head.status, head.headers["location"], await client.body()) == (302, told, b"go")
    assert hands.untaken == 0


async def test_a_redirect_to_where_nothing_is_passed_on_leads_nowhere(open_house: OpenHouse, hands: Hands) -> None:
    house = await open_house(hands.url + "/base", upstream={"passthrough": True})
    client = await ask(house, "GET", HERE + "/x")
    turn = await hands.turn()
    assert turn.request.line == b"GET /base/x HTTP/1.1"
    await turn.connection.send(head_of(302, "location: /admin", "content-length: 0"))
    assert "location" not in (await client.head()).headers


# ---- who waits


async def test_who_waits_hears_nothing_and_then_all(open_house: OpenHouse, hands: Hands) -> None:
    """Not even blanks, where others that do not stream get them."""
    house = await open_house(
        upstream={"passthrough": True}, waiting={"heartbeat": 0.01, "nonstream_keepalive": "whitespace"}
    )
    turn = await occupy(house, hands)
    client = await ask(house, "POST", HERE + PATH, b'{"stream":true}', llmgate_session="abc", user_agent="curl/8")
    await house.wait(lambda: house.figures.waiting == 1)
    (caller,) = [record.caller for record in house.ledger.live() if record.state == "waiting"]
    assert (caller.api, caller.path, caller.session, caller.client) == ("passthrough", PATH, "abc", "curl")
    assert (caller.body_bytes, caller.model, caller.stream) == (15, "", False)
    await asyncio.sleep(0.05)
    assert client._reader._buffer == b""  # type: ignore[attr-defined]
    await turn.answer()
    turn = await hands.turn()
    assert turn.request.body == b'{"stream":true}'
    await begin(turn, b"first")
    headers = (await client.head()).headers
    assert (headers["llmgate-position"], headers["llmgate-depth"]) == ("1", "1")
    assert 0 <= int(headers["llmgate-queued-ms"]) < 10_000
    await turn.end(b"last")
    assert await client.body() == b"firstlast"


@pytest.mark.parametrize(
    ("path", "headers", "shape"),
    [("/x", {}, "openai"), ("/api/pull", ANTHROPIC, "ollama"), ("/v1/x", ANTHROPIC, "anthropic")],
)
async def test_queue_errors(
    open_house: OpenHouse, hands: Hands, path: str, headers: dict[str, str], shape: str
) -> None:
    house = await open_house(upstream={"passthrough": True, "queue_timeout_nonstream": 0.05})
    turn = await occupy(house, hands)
    late = await ask(house, "POST", HERE + path, **headers)
    await house.wait(lambda: house.figures.waiting == 1 or house.outcomes != [])
    full = await ask(house, "POST", HERE + path, **headers, llmgate_max_wait="0")
    for client, status, code in ((full, 503, "QUEUE_FULL"), (late, 504, "QUEUE_TIMEOUT")):
        head = await client.head()
        assert (head.status, head.headers["llmgate-code"]) == (status, code)
        assert head.headers["x-should-retry"] == "false"
        check_shape(await client.json(), shape, code)
    assert hands.untaken == 0
    await turn.answer()


async def test_a_wish_that_cannot_be_read(house: House) -> None:
    client = await ask(house, "POST", HERE + PATH, llmgate_max_wait="soon")
    assert ((await client.head()).status, (await client.json())["error"]["code"]) == (400, "BAD_REQUEST")
    assert house.events == []


async def test_bodies_are_bounded_in_size_and_time(open_house: OpenHouse) -> None:
    house = await open_house(upstream={"passthrough": True}, server={"max_body": 100, "body_timeout": 0.05})
    for method in ("POST", "DELETE"):
        large = await ask(house, method, HERE + PATH, b"x" * 101)
        assert ((await large.head()).status, (await large.head()).headers["connection"]) == (413, "close")
        slow = await Client.connect(house.port)
        slow.send(line(method, HERE + PATH, b"x" * 50)[:-1])
        assert (await slow.head()).status == 408
    assert house.events == []


async def test_a_daemon_that_stops_takes_no_more(house: House, hands: Hands) -> None:
    house.services.draining = True
    house.services.admission.close()
    for method in ("GET", "POST"):
        client = await ask(house, method, HERE + PATH)
        head = await client.head()
        assert (head.status, head.headers["llmgate-code"]) == (503, "REFUSED")
        assert "takes no new requests: llmgate is stopping (REFUSED)" in (await client.json())["error"]["message"]
    assert hands.untaken == 0


async def test_what_goes_straight_through_is_waited_for_and_can_be_stopped(house: House, hands: Hands) -> None:
    client = await ask(house, "GET", HERE + "/sse")
    turn = await hands.turn()
    await begin(turn, b"x")
    assert await client.chunk() == b"x"
    assert house.services.ungated == 1
    (one,) = house.services.running
    one.stop(STOPPING)
    with pytest.raises(CutOff):
        await client.body()
    await turn.wait_closed()
    assert (len(house.services.running), house.services.ungated) == (0, 0)


# ---- what is broken off


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("head", [["content-length: 10"], ["transfer-encoding: chunked"]])
async def test_half_an_answer_never_looks_whole(house: House, hands: Hands, method: str, head: list[str]) -> None:
    client = await ask(house, method, HERE + PATH)
    turn = await hands.turn()
    await turn.connection.send(head_of(200, *head) + (b"12345" if "length" in head[0] else b"5\r\n12345\r\n"))
    await client.head()
    turn.connection.close()
    with pytest.raises(CutOff):
        await client.body()
    assert await client.wait_closed() == b""
    if method == "POST":
        assert house.outcomes == ["upstream_error"]


@pytest.mark.parametrize(("path", "shape"), [("/x", "openai"), ("/api/pull", "ollama")])
async def test_no_server(open_house: OpenHouse, path: str, shape: str) -> None:
    with refusing_port() as port:
        house = await open_house(f"http://127.0.0.1:{port}", upstream={"passthrough": True, "on_down": "fail"})
        for method in ("GET", "POST"):
            client = await ask(house, method, HERE + path)
            head = await client.head()
            assert (head.status, head.headers["llmgate-upstream"]) == (503, UPSTREAM)
            check_shape(await client.json(), shape, "UPSTREAM_DOWN")
    assert house.outcomes == ["upstream_down"]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_slow_reader_slows_its_server_and_gets_every_byte(house: House, hands: Hands, method: str) -> None:
    piece = random.Random(4).randbytes(1 << 20)
    count = 24  # more than all buffers on the way hold
    client = await Client.connect(house.port, receive_buffer=4096)
    client.send(line(method, HERE + PATH))
    turn = await hands.turn()
    await turn.connection.send(head_of(200, f"content-length: {count << 20}"))
    sending = asyncio.ensure_future(turn.connection.send(*[piece] * count))
    await client.head()
    await asyncio.sleep(0.2)
    assert not sending.done(), "the server was never slowed down"
    assert await client.body() == piece * count
    await sending


@pytest.mark.parametrize("method", ["DELETE", "POST"])
async def test_over_the_well_known_client_as_well(open_house: OpenHouse, hands: Hands, method: str) -> None:
    house = await open_house(upstream={"passthrough": True, "transport": "httpx"})
    target = "/a%2Fb/%C3%A4?q=%2F&r=[x]"
    client = await ask(house, method, HERE + target, b"body")
    turn = await hands.turn()
    assert (turn.request.line, turn.request.body) == (f"{method} {target} HTTP/1.1".encode(), b"body")
    await turn.connection.send(head_of(200, "content-encoding: gzip", "content-length: 4") + b"\x1f\x8b")
    await client.head()
    await turn.connection.send(b"\0\0")
    assert (await client.head()).headers["content-encoding"] == "gzip"
    assert await client.body() == b"\x1f\x8b\0\0"
    head = await ask(house, "HEAD", HERE + target)
    await (await hands.turn()).connection.send(head_of(200, "content-length: 9"))
    assert (await head.head()).headers["content-length"] == "9"
