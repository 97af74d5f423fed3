"""F63: what pages in a browser may ask of a real daemon, as a table; no request of theirs reaches the queue."""

import pytest
from gateprocess import CHAT, MESSAGES, GateProcess, request_body
from hands import Hands
from rawclient import Client, post

from tests.e2e.access.conftest import LAPTOP

ALLOWED = "https://chat.example.org"
EVIL = "https://evil.example"
KEY = {"x-api-key": LAPTOP}
BEFOREHAND = {"access-control-request-method": "POST", "access-control-request-headers": "content-type,x-api-key"}

TABLE = [
    ("a simple POST of an evil page", "POST", {"origin": EVIL, "content-type": "text/plain", **KEY}, 403),
    ("a JSON POST of an evil page", "POST", {"origin": EVIL, **KEY}, 403),
    ("a page from a file or a sandbox", "POST", {"origin": "null", "content-type": "text/plain", **KEY}, 403),
    ("no Origin, but a cross-site request", "POST", {"sec-fetch-site": "cross-site", **KEY}, 403),
    (
        "another port of this machine",
        "POST",
        {"origin": "http://localhost:3000", "sec-fetch-site": "same-site", **KEY},
        403,
    ),
    ("an evil page asks beforehand", "OPTIONS", {"origin": EVIL, **BEFOREHAND}, 403),
    ("null asks beforehand", "OPTIONS", {"origin": "null", **BEFOREHAND}, 403),
    ("an evil page without a key", "POST", {"origin": EVIL, "content-type": "text/plain"}, 401),
    ("a rebound name", "POST", {"host": "evil.example", "origin": "http://evil.example", **KEY}, 421),
    ("two Origins", "POST", {"origin": f"{ALLOWED}\r\norigin: {EVIL}", **KEY}, 403),
    ("an allowed page asks beforehand", "OPTIONS", {"origin": ALLOWED, **BEFOREHAND}, 204),
    ("an allowed page without a key", "POST", {"origin": ALLOWED}, 401),
]


@pytest.mark.parametrize("path", [MESSAGES, CHAT])
@pytest.mark.parametrize(("method", "headers", "status"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
async def test_f63_what_pages_may_ask(
    keyed: GateProcess, hands: Hands, path: str, method: str, headers: dict[str, str], status: int
) -> None:
    client = await Client.connect(keyed.port)
    client.send(post(path, request_body("m"), headers).replace(b"POST", method.encode(), 1))
    head = await client.head()
    assert head.status == status
    allowed = headers.get("origin") == ALLOWED
    assert head.headers.get("access-control-allow-origin") == (ALLOWED if allowed else None)
    assert head.headers["vary"] == "Origin"
    assert "access-control-allow-credentials" not in head.headers
    if status == 204:
        assert head.headers["access-control-allow-headers"] == BEFOREHAND["access-control-request-headers"]
    else:
        assert EVIL.encode() not in await client.body()
    await hands.wait(lambda: hands.connections == [])
    assert keyed.is_idle()


async def test_f63_an_allowed_page_streams_and_may_read_our_headers(keyed: GateProcess, hands: Hands) -> None:
    first = await keyed.ask("m", headers={"origin": ALLOWED, **KEY})
    turn = await hands.turn()
    second = await keyed.ask("m", headers={"origin": ALLOWED, "sec-fetch-site": "cross-site", **KEY})
    head = await second.head()
    assert (head.status, head.headers["access-control-allow-origin"]) == (200, ALLOWED)
    exposed = head.headers["access-control-expose-headers"].split(", ")
    assert {name for name in head.headers if name.startswith("llmgate-")} <= set(exposed)
    assert (await second.frame()).startswith(b"event: queue")
    await turn.complete()
    await first.body()
    await (await hands.turn()).complete()
    await second.frames()
