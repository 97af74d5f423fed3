"""The door over ASGI and over sockets: who comes in, what the refused get, what pages of allowed origins may read."""

import hashlib
import json
from typing import Any

import httpx
import pytest
from hands import Hands
from rawclient import Client

from llmgate.config.load import load
from llmgate.core.access import CREDENTIALS, Asked, check
from llmgate.core.keys import ClientKey, ClientKeys
from llmgate.errors import HostNotAllowed, NotAllowed
from llmgate.protocols.cors import EXPOSED
from llmgate.protocols.surfaces import SURFACES
from llmgate.server.asgi import ACCESS
from llmgate.server.door import Door, make_rules
from llmgate.server.frontdoor import FrontDoor
from tests.server.house import House, OpenHouse

ORIGIN = "https://chat.example.org"
CORS = {"cors": {"origins": [ORIGIN]}}
EVIL = {"origin": "http://evil.example"}


def key(name: str = "laptop", **fields: Any) -> ClientKey:
    """Its secret is its name and "-secret"."""
    return ClientKey(name=name, digest=hashlib.sha256(f"{name}-secret".encode()).digest(), **fields)


def app(house: House, client: Any = ("127.0.0.1", 5000)) -> httpx.AsyncClient:
    front = FrontDoor(house.services, house.services.settings.server.path_prefix)
    transport = httpx.ASGITransport(front, client=client)  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080")


async def ask(house: House, path: str = "/v1/models", method: str = "GET", **headers: str) -> httpx.Response:
    async with app(house) as client:
        return await client.request(method, path, headers={n.replace("_", "-"): v for n, v in headers.items()})


# ---- keys


async def test_f66_every_refusal_is_the_same_to_the_byte(house: House) -> None:
    house.services.keys = ClientKeys([key(), key("off", disabled=True)])
    for path in (*SURFACES, "/v1/models", "/api/tags", "/nothing", "/", "/upstream/reasoning/x"):
        told = {
            (answer.status_code, tuple(answer.headers.raw), answer.content)
            for headers in ({}, {"x_api_key": "wrong"}, {"x_api_key": "off-secret"}, {"authorization": "Bearer wrong"})
            for method in ("POST", "GET")
            for answer in [await ask(house, path, method, **headers)]
        }
        ((status, raw, body),) = told
        assert (status, dict(raw)[b"www-authenticate"]) == (401, b"Bearer")
        assert not {b"llmgate-request-id", b"connection"} & dict(raw).keys()
        assert b"wrong" not in body
    assert house.events == []


@pytest.mark.parametrize("path", SURFACES)
async def test_a_refusal_has_the_shape_of_its_surface(house: House, path: str) -> None:
    house.services.keys = ClientKeys([key()])
    error = (await ask(house, "/llm" + path, "POST")).json()["error"]
    text = error if path.startswith("/api/") else error["message"]
    assert text.endswith("(UNAUTHORIZED)")
    assert path.startswith("/api/") or error["type"] == "authentication_error"


async def test_with_a_key_it_goes_on_and_the_key_stays_here(open_house: OpenHouse, hands: Hands) -> None:
    house = await open_house(upstream={"forward_auth": True})
    house.services.keys = ClientKeys([key()])
    client = await house.ask(headers={"authorization": "Bearer laptop-secret", "x-api-key": "laptop-secret"})
    turn = await hands.turn()
    assert b"laptop-secret" not in turn.request.head
    (record,) = house.ledger.live()
    assert record.caller.key == "laptop"
    await turn.complete()
    await client.body()


async def test_without_keys_a_clients_own_key_goes_where_the_settings_say(open_house: OpenHouse, hands: Hands) -> None:
    house = await open_house(upstream={"forward_auth": True})
    client = await house.ask(headers={"x-api-key": "theirs"})
    turn = await hands.turn()
    assert turn.request.header(b"x-api-key") == b"theirs"
    await turn.complete()
    await client.body()


async def test_keys_and_settings_may_be_replaced_while_it_runs(open_house: OpenHouse) -> None:
    """A reload replaces the attributes of the services; the door is the same."""
    house, other = await open_house(), await open_house(server={"allowed_hosts": ["gpu"]})
    door = Door(house.services)

    def knock(secret: bytes = b"", host: bytes = b"localhost") -> str:
        headers = [(b"host", host), (b"x-api-key", secret)]
        try:
            door.enter(scope(headers=headers, client=("127.0.0.1", 1), server=("127.0.0.1", 2)))
        except NotAllowed as error:
            return error.code
        return "in"

    assert knock() == "in"
    house.services.keys = ClientKeys([key("a")])
    assert (knock(b"a-secret"), knock()) == ("in", "UNAUTHORIZED")
    house.services.keys = ClientKeys([key("b")])
    assert (knock(b"a-secret"), knock(b"b-secret")) == ("UNAUTHORIZED", "in")
    house.services.keys = ClientKeys()
    assert (knock(), knock(host=b"gpu")) == ("in", "HOST_NOT_ALLOWED")
    house.services.settings = other.services.settings
    assert knock(host=b"gpu") == "in"


async def test_health_is_open_to_all(house: House) -> None:
    house.services.keys = ClientKeys([key()])
    assert [(await ask(house, path)).status_code for path in ("/healthz", "/readyz", "/", "/llm")] == [
        *(200, 200, 401, 401)
    ]


async def test_a_key_is_shown_only_its_models(house: House) -> None:
    house.services.keys = ClientKeys([key(models=("m-real", "org/*"))])
    secret = {"x_api_key": "laptop-secret"}
    listed = (await ask(house, **secret)).json()["data"]
    assert [model["id"] for model in listed] == ["org/big", "nick"]
    for path in ("/api/tags", "/api/ps"):
        assert {model["name"] for model in (await ask(house, path, **secret)).json()["models"]} == {"org/big", "nick"}
    one = await ask(house, "/v1/models/m", **secret)
    assert (one.status_code, one.headers["llmgate-code"]) == (403, "MODEL_NOT_ALLOWED")
    assert (await ask(house, "/v1/models/nick", **secret)).status_code == 200


# ---- the refused, before their body


@pytest.mark.parametrize(
    "headers",
    [
        "content-length: 5\r\n",
        "content-length: 5000000\r\n",
        "transfer-encoding: chunked\r\n",
        "content-length: 5\r\nexpect: 100-continue\r\n",
    ],
)
async def test_f67_refused_before_the_body_without_a_continue(house: House, headers: str) -> None:
    """What follows on the connection could be that body, or another request in its place: it is closed."""
    house.services.keys = ClientKeys([key()])
    client = await Client.connect(house.port)
    client.send(f"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\n{headers}\r\n".encode())
    head = await client.head()
    assert (head.status, head.headers["connection"]) == (401, "close")
    await client.body()
    client.half_close()
    assert await client.wait_closed() == b""


async def test_what_was_refused_is_told_once(house: House, caplog: pytest.LogCaptureFixture) -> None:
    house.services.keys = ClientKeys([key()])
    with caplog.at_level("INFO", "llmgate"):
        for _ in range(3):
            await ask(house, x_api_key="canary-0123456789")
        await ask(house, x_api_key="laptop-secret", host="evil\x1b[31m.example")
        await ask(house, x_api_key="laptop-secret", origin="http://evil.example")
        await ask(house, x_api_key="laptop-secret", sec_fetch_site="cross-site")
    assert caplog.messages == [
        "refused a request from 127.0.0.1:5000 (UNAUTHORIZED)",
        "refused a request from 127.0.0.1:5000 under the name 'evil [31m.example' (HOST_NOT_ALLOWED)",
        "refused a request from 127.0.0.1:5000 of a page of 'http://evil.example' (ORIGIN_NOT_ALLOWED)",
    ]


# ---- pages of other origins


@pytest.mark.parametrize("extra", [{}, {"access_control_request_method": "POST"}])
@pytest.mark.parametrize("origin", ["http://evil.example", "null"])
async def test_f63_evil_pages_get_a_403_that_they_cannot_read(open_house: OpenHouse, extra: Any, origin: str) -> None:
    for server in ({}, CORS):
        house = await open_house(server=server)
        for method in ("POST", "GET", "OPTIONS"):
            answer = await ask(house, "/v1/messages", method, origin=origin, content_type="text/plain", **extra)
            assert (answer.status_code, answer.headers["llmgate-code"]) == (403, "ORIGIN_NOT_ALLOWED")
            assert not any(name.startswith("access-control-") for name in answer.headers)
            assert answer.headers.get("vary") == ("Origin" if server else None)
        assert house.events == []


async def test_f63_an_allowed_origin_is_echoed_on_every_answer(open_house: OpenHouse) -> None:
    house = await open_house(server=CORS)
    for path, method, status in (
        ("/v1/models", "GET", 200),
        ("/v1/messages", "GET", 405),
        ("/nothing", "GET", 404),
        ("/v1/messages", "POST", 400),
        ("/healthz", "GET", 200),
    ):
        answer = await ask(house, path, method, origin=ORIGIN)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (status, ORIGIN)
        assert answer.headers["vary"] == "Origin"
        assert answer.headers["access-control-expose-headers"] == b", ".join(EXPOSED).decode()
        assert "access-control-allow-credentials" not in answer.headers
    house.services.keys = ClientKeys([key()])
    assert (await ask(house, origin=ORIGIN)).headers["access-control-allow-origin"] == ORIGIN
    plain = await ask(house, x_api_key="laptop-secret")
    assert (plain.headers["vary"], "access-control-allow-origin" in plain.headers) == ("Origin", False)


async def test_f63_a_stream_has_the_headers_and_those_of_the_upstream_stay_away(
    open_house: OpenHouse, hands: Hands
) -> None:
    house = await open_house(server=CORS)
    client = await house.ask(headers={"origin": ORIGIN})
    turn = await hands.turn()
    assert turn.request.header(b"origin") is None
    await turn.connection.send(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\naccess-control-allow-origin: *\r\n"
        b"access-control-allow-credentials: true\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    await turn.say(turn.spoken.start)
    await turn.end()
    head = await client.head()
    assert (head.status, head.headers["access-control-allow-origin"]) == (200, ORIGIN)
    assert "access-control-allow-credentials" not in head.headers
    await client.frames()


@pytest.mark.parametrize("path", ["/llm/v1/messages", "/v1/models", "/upstream/x/y"])
async def test_a_browser_that_asks_beforehand_needs_no_key(open_house: OpenHouse, path: str) -> None:
    house = await open_house(server=CORS)
    house.services.keys = ClientKeys([key()])
    answer = await ask(
        house,
        path,
        "OPTIONS",
        origin=ORIGIN,
        access_control_request_method="POST",
        access_control_request_headers="content-type,x-api-key,x-stainless-os",
        access_control_request_private_network="true",
    )
    assert (answer.status_code, answer.content) == (204, b"")
    told = {name.removeprefix("access-control-"): value for name, value in answer.headers.items()}
    assert told["allow-origin"] == ORIGIN
    assert told["allow-headers"] == "content-type,x-api-key,x-stainless-os"
    assert told["allow-private-network"] == "true"
    assert "content-length" not in told
    assert house.events == []


# ---- what the settings make of it


async def test_the_names_that_it_listens_on_are_its_own() -> None:
    server = {"listen": ["gpu.lan:8080", "unix:/tmp/x", "127.0.0.1:1"], "allow_open": True, "allowed_hosts": ["box"]}
    settings = load(None, environ={}, overrides={"server": server}).settings
    rules = make_rules(settings, ClientKeys())
    for name in (b"gpu.lan:8080", b"box", b"localhost"):
        check(Asked(method="GET", path="/", headers={b"host": name}, address="10.0.0.1"), rules)
    with pytest.raises(HostNotAllowed):
        check(Asked(method="GET", path="/", headers={b"host": b"other"}, address="10.0.0.1"), rules)


async def test_a_trusted_proxy_tells_who_asks(open_house: OpenHouse, hands: Hands) -> None:
    house = await open_house(server={"trusted_proxies": ["127.0.0.0/8"]})
    client = await house.ask(headers={"x-forwarded-for": "6.6.6.6, 203.0.113.9"})
    turn = await hands.turn()
    assert [record.caller.peer for record in house.ledger.live()] == ["203.0.113.9"]
    await turn.complete()
    await client.body()


def scope(**fields: Any) -> dict[str, Any]:
    headers = [(b"host", b"evil.example"), (b"x-api-key", b"laptop-secret"), (b"authorization", b"Bearer x")]
    return {"type": "http", "method": "GET", "path": "/", "headers": headers, **fields}


async def test_a_unix_socket_is_told_from_a_client_that_is_gone(house: House) -> None:
    door = Door(house.services)
    over_unix = scope(client=None, server=("/run/x.sock", None))
    assert door.enter(over_unix) is None
    assert over_unix[ACCESS].peer == "unix"
    with pytest.raises(HostNotAllowed):
        door.enter(scope(client=None, server=("127.0.0.1", 8080)))


async def test_behind_the_door_there_is_no_key_where_keys_are_asked(house: House) -> None:
    house.services.keys = ClientKeys([key()])
    headers = [(b"host", b"localhost"), (b"X-Api-Key".lower(), b"laptop-secret"), (b"accept", b"*/*")]
    inside = scope(headers=headers, client=("127.0.0.1", 1), server=("127.0.0.1", 2))
    Door(house.services).enter(inside)
    assert not {name for name, _ in inside["headers"]} & CREDENTIALS
    assert len(inside["headers"]) == 2


async def test_bodies_reach_nobody_before_the_door(house: House) -> None:
    """A refused request's body is not even received."""

    async def receive() -> Any:
        raise AssertionError("the body was asked for")

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    house.services.keys = ClientKeys([key()])
    front = FrontDoor(house.services, ("",))
    inside = scope(method="POST", path="/v1/messages", raw_path=b"/v1/messages", query_string=b"", headers=[])
    await front(inside, receive, send)
    assert sent[0]["status"] == 401
    assert json.loads(sent[1]["body"])["error"]["type"] == "authentication_error"


async def test_names_of_the_certificate_are_its_own_from_the_next_settings_on(house: House) -> None:
    async with app(house) as client:
        headers = {"host": "gate.example.org"}
        assert (await client.get("/v1/models", headers=headers)).status_code == 421
        house.services.names = ("gate.example.org", "*.lan")
        house.services.settings = house.services.settings.model_copy()
        assert (await client.get("/v1/models", headers=headers)).status_code == 200
        assert (await client.get("/v1/models", headers={"host": "a.lan:8443"})).status_code == 200
        assert (await client.get("/v1/models", headers={"host": "evil.example"})).status_code == 421
