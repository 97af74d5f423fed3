"""The clients' paths: which are surfaces, which llmgate answers by itself, and what everything else is told."""

import json
from typing import Any

import httpx
import pytest
from gateprocess import request_body
from hands import ANSWER, Hands
from rawclient import Client, post

from llmgate import __version__
from llmgate.core.routing import Routes, Serves
from llmgate.protocols.model_card import ModelCard
from llmgate.protocols.surfaces import SURFACES
from llmgate.server.frontdoor import FrontDoor
from llmgate.server.models import OLLAMA_VERSION
from tests.server.house import UPSTREAM, House, OpenHouse

ANTHROPIC = {"anthropic-version": "2023-06-01"}
MODELS = ["m", "org/big", "nick"]
"""Globs cannot be listed."""


async def ask(house: House, path: str, method: str = "GET", **headers: str) -> httpx.Response:
    """Over ASGI, without a socket."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    front = FrontDoor(house.services, house.services.settings.server.path_prefix)
    transport = httpx.ASGITransport(front)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://gate") as client:
        return await client.request(method, path, headers=named)


# ---- surfaces


@pytest.mark.parametrize("prefix", ["/llm", ""])
async def test_a_surface_under_every_prefix(house: House, hands: Hands, prefix: str) -> None:
    client = await house.ask(path=prefix + "/v1/messages")
    turn = await hands.turn()
    assert turn.request.line == b"POST /v1/messages HTTP/1.1"
    await turn.complete()
    assert await client.body() == ANSWER


async def test_only_under_those_of_the_settings(open_house: OpenHouse, hands: Hands) -> None:
    house = await open_house(server={"path_prefix": ["/ai"]})
    for path in ("/v1/messages", "/llm/v1/messages", "/ai/v1/messages/", "/ai/ai/v1/messages"):
        assert (await (await house.ask(path=path)).head()).status == 404
    client = await house.ask(path="/ai/v1/messages")
    await (await hands.turn()).complete()
    assert (await client.head()).status == 200
    await client.body()


@pytest.mark.parametrize("slash", ["%2F", "%2f"])
@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/llm/v1/messages", "/v1/messages/count_tokens", "/v1/models"]
)
async def test_an_encoded_slash_divides_no_path(house: House, path: str, slash: str) -> None:
    """RFC 3986, 2.2: such a path is another one, here none."""
    start, _, end = path.rpartition("/")
    client = await house.ask(path=start + slash + end)
    assert (await client.head()).status == 404
    assert house.events == []


async def test_any_other_letter_may_be_encoded(house: House, hands: Hands) -> None:
    """RFC 3986, 6.2.2.2."""
    client = await house.ask(path="/llm/v1/%6dessages")
    await (await hands.turn()).complete()
    assert (await client.head()).status == 200
    await client.body()


@pytest.mark.parametrize("name", ["org/big", "org%2Fbig", "org%2fbig"])
async def test_the_name_of_a_model_may_have_one(house: House, name: str) -> None:
    """Clients that encode it as a part of a path, and those that do not."""
    client = await Client.connect(house.port)
    client.send(f"GET /v1/models/{name} HTTP/1.1\r\nhost: gate:\r\n\r\n".encode())
    assert (await client.json())["id"] == "org/big"


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["/llm/v1/messages", "/v1/chat/completions"])
async def test_a_surface_takes_post_only(house: House, path: str, method: str) -> None:
    """F68."""
    answer = await ask(house, path, method)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.headers["llmgate-code"] == "METHOD_NOT_ALLOWED"
    if method != "HEAD":
        assert ("type" in answer.json()) == ("messages" in path)
        assert "(METHOD_NOT_ALLOWED)" in answer.json()["error"]["message"]
    assert house.events == []


UNKNOWN = ["/v1", "/v2/messages", "/llm/v1", "/llm/v1/audio", "/upstream/a/x", "/%00", "/api", "/healthz/", "/v1/"]


@pytest.mark.parametrize("path", UNKNOWN)
async def test_unknown_paths(house: House, path: str) -> None:
    for method in ("GET", "POST"):
        plain = await ask(house, path, method)
        assert (plain.status_code, plain.headers["llmgate-code"]) == (404, "NOT_FOUND")
        assert plain.json()["error"]["type"] == "not_found_error"
        anthropic = await ask(house, path, method, **ANTHROPIC)
        assert anthropic.json()["error"]["type"] == "not_found_error"
        assert anthropic.headers["content-type"] == "application/json"
    assert house.events == []


@pytest.mark.parametrize("path", ["/api/", "/llm/api/pull", "/api/chat/", "/llm/api/embeddings", "/api/show/"])
async def test_unknown_paths_of_ollama(house: House, path: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        answer = await ask(house, path, method, **ANTHROPIC)
        assert (answer.status_code, answer.headers["llmgate-code"]) == (404, "NOT_FOUND")
        assert answer.json().keys() == {"error"}
        assert "POST /v1/messages, " in answer.json()["error"]
        assert "/api/chat, /api/generate, /api/embed (NOT_FOUND)" in answer.json()["error"]


@pytest.mark.parametrize("path", ["/", "/llm", "/llm/"])
async def test_at_the_root_it_says_that_it_runs(house: House, path: str) -> None:
    """Claude Code and Ollama's clients look here first."""
    answer = await ask(house, path)
    assert (answer.status_code, answer.text) == (200, "llmgate is running")
    head = await ask(house, path, "HEAD")
    assert (head.status_code, head.content) == (200, b"")
    posted = await ask(house, path, "POST")
    assert (posted.status_code, posted.headers["llmgate-code"]) == (405, "METHOD_NOT_ALLOWED")


async def test_roots_are_those_of_the_settings(open_house: OpenHouse) -> None:
    house = await open_house(server={"path_prefix": ["/ai"]})
    statuses = {path: (await ask(house, path)).status_code for path in ("/ai", "/ai/", "/", "/llm")}
    assert statuses == {"/ai": 200, "/ai/": 200, "/": 404, "/llm": 404}


@pytest.mark.parametrize("path", SURFACES)
async def test_every_surface_refuses_in_its_own_shape(house: House, path: str) -> None:
    for prefix in ("", "/llm"):
        client = await Client.connect(house.port)
        client.post(prefix + path, b"{}")
        head = await client.head()
        assert (head.status, head.headers["llmgate-code"]) == (400, "BAD_REQUEST")
        error = (await client.json())["error"]
        assert (error if path.startswith("/api/") else error["message"]).endswith("names no model (BAD_REQUEST)")
        wrong = await ask(house, prefix + path, "GET")
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
        assert isinstance(wrong.json()["error"], str) is path.startswith("/api/")
    assert house.events == []


# ---- HTTP as others speak it (F68)


async def exchange(house: House, request: bytes) -> bytes:
    client = await Client.connect(house.port)
    client.send(request)
    return await client.wait_closed()


async def test_http_1_0_and_connection_close(house: House, hands: Hands) -> None:
    body = request_body("m", stream=False)
    for version, header in (("1.0", ""), ("1.1", "connection: close\r\n")):
        client = await Client.connect(house.port)
        head = f"POST /v1/messages HTTP/{version}\r\nhost: x\r\n{header}content-length: {len(body)}\r\n\r\n"
        client.send(head.encode() + body)
        await (await hands.turn()).complete()
        answered = await client.head()
        assert (answered.status, answered.headers["connection"]) == (200, "close")
        await client.body()
        assert await client.wait_closed() == b""


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"CONNECT upstream:80 HTTP/1.1\r\nhost: upstream:80\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"garbage\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nxxxxx",
    ],
    ids=["connect", "http2", "garbage", "two-lengths"],
)
async def test_what_is_not_for_us_is_a_400_and_closed(house: House, request_bytes: bytes) -> None:
    assert (await exchange(house, request_bytes)).startswith(b"HTTP/1.1 400 ")
    assert house.events == []


# ---- models


async def test_models_in_openais_shape(house: House) -> None:
    for path in ("/llm/v1/models", "/v1/models", "/llm/v1/models/", "/v1/models/"):
        listed = (await ask(house, path)).json()
        assert listed["object"] == "list"
        assert [model["id"] for model in listed["data"]] == MODELS
        assert listed["data"][0] == {"id": "m", "object": "model", "created": 0, "owned_by": UPSTREAM}


async def test_models_in_anthropics_shape(house: House) -> None:
    listed = (await ask(house, "/llm/v1/models", **ANTHROPIC)).json()
    assert [model["id"] for model in listed["data"]] == MODELS
    assert (listed["data"][0]["type"], listed["data"][0]["display_name"]) == ("model", "m")
    assert (listed["has_more"], listed["first_id"], listed["last_id"]) == (False, "m", "nick")


async def test_without_any_model(house: House) -> None:
    house.services.routes = Routes({UPSTREAM: Serves()})
    assert (await ask(house, "/v1/models")).json() == {"object": "list", "data": []}
    listed = (await ask(house, "/v1/models", **ANTHROPIC)).json()
    assert listed == {"data": [], "has_more": False, "first_id": None, "last_id": None}


async def test_what_a_server_told_of_a_model_is_listed(house: House) -> None:
    house.services.upstreams[UPSTREAM].cards = {"m-real": ModelCard(name="m-real", context_window=4096, loaded=False)}
    for path in ("/v1/models", "/api/tags"):
        told = (await ask(house, path)).json()
        listed = {model.get("id", model.get("name")): model for model in told.get("data", told.get("models"))}
        assert {name: model.get("context_window") for name, model in listed.items()} == {
            "m": None,
            "org/big": None,
            "nick": 4096,
        }
    assert (await ask(house, "/v1/models/m-real", **ANTHROPIC)).json()["max_input_tokens"] == 4096
    running = (await ask(house, "/api/ps")).json()["models"]
    assert [model["name"] for model in running] == ["m", "org/big"]
    assert (await show(house, b'{"model":"nick"}'))[1]["context_window"] == 4096


@pytest.mark.parametrize("model", [*MODELS, "m-1", "m:latest", "org/big:latest"])
async def test_one_model(house: House, model: str) -> None:
    for prefix in ("", "/llm"):
        plain = await ask(house, f"{prefix}/v1/models/{model}")
        assert (plain.status_code, plain.json()["id"], plain.json()["object"]) == (200, model, "model")
        anthropic = await ask(house, f"{prefix}/v1/models/{model}", **ANTHROPIC)
        assert (anthropic.json()["type"], anthropic.json()["display_name"]) == ("model", model)


async def test_a_slash_after_a_list_is_no_model(open_house: OpenHouse) -> None:
    """Not even where every name is one."""
    house = await open_house(upstream={"models": ["m", "*"], "aliases": {}})
    for path in ("/v1/models", "/api/tags", "/api/ps"):
        for prefix in ("", "/llm"):
            listed = await ask(house, f"{prefix}{path}/")
            assert (listed.status_code, listed.json()) == (200, (await ask(house, path)).json())
    assert [model["id"] for model in (await ask(house, "/v1/models/", **ANTHROPIC)).json()["data"]] == ["m"]
    assert (await ask(house, "/v1/models/any")).json()["id"] == "any"


@pytest.mark.parametrize("model", ["nobody", "big", "m:8b"])
async def test_a_model_that_no_request_would_be_taken_for(house: House, model: str) -> None:
    plain = await ask(house, f"/v1/models/{model}")
    assert (plain.status_code, plain.json()["error"]["code"]) == (404, "UNKNOWN_MODEL")
    anthropic = await ask(house, f"/v1/models/{model}", **ANTHROPIC)
    assert anthropic.json()["error"]["type"] == "not_found_error"


READ_ONLY = [
    "/v1/models",
    "/v1/models/",
    "/llm/v1/models/m",
    "/api/tags/",
    "/api/tags",
    "/llm/api/ps",
    "/api/version",
    "/healthz",
    "/readyz",
]


@pytest.mark.parametrize("path", READ_ONLY)
async def test_these_are_only_read(house: House, path: str) -> None:
    answer = await ask(house, path, "POST")
    assert (answer.status_code, answer.headers["llmgate-code"]) == (405, "METHOD_NOT_ALLOWED")
    assert {word.strip() for word in answer.headers["allow"].split(",")} == {"GET", "HEAD"}
    assert (await ask(house, path, "HEAD")).status_code == 200


# ---- models, as Ollama has them


@pytest.mark.parametrize("prefix", ["", "/llm"])
async def test_models_in_ollamas_shape(house: House, prefix: str) -> None:
    for path in ("/api/tags", "/api/ps"):
        listed = (await ask(house, prefix + path)).json()["models"]
        assert [(model["name"], model["model"]) for model in listed] == [(name, name) for name in MODELS]
    version = (await ask(house, prefix + "/api/version")).json()
    assert version == {"version": OLLAMA_VERSION, "llmgate": __version__}


async def show(house: House, body: bytes) -> tuple[int, Any]:
    client = await Client.connect(house.port)
    client.post("/llm/api/show", body)
    return (await client.head()).status, await client.json()


@pytest.mark.parametrize("key", ["model", "name"])
@pytest.mark.parametrize("model", ["m", "m-1", "org/big", "nick", "nick:latest"])
async def test_one_model_in_ollamas_shape(house: House, key: str, model: str) -> None:
    status, told = await show(house, json.dumps({key: model, "verbose": True}).encode())
    assert (status, told["capabilities"]) == (200, ["completion"])
    assert told["model_info"] == {"general.basename": model}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b'{"model":"nobody"}', 404, "UNKNOWN_MODEL"),
        (b"{}", 400, "BAD_REQUEST"),
        (b'{"model":5}', 400, "BAD_REQUEST"),
        (b"[", 400, "BAD_REQUEST"),
        (b"\xff", 400, "BAD_REQUEST"),
        (b"[" * 100_000, 400, "BAD_REQUEST"),
    ],
)
async def test_no_model_to_show(house: House, body: bytes, status: int, code: str) -> None:
    answered, told = await show(house, body)
    assert (answered, told.keys()) == (status, {"error"})
    assert told["error"].endswith(f"({code})")


async def test_to_show_takes_post_only(house: House) -> None:
    answer = await ask(house, "/api/show")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.json()["error"].endswith("(METHOD_NOT_ALLOWED)")


async def test_a_body_too_large_to_show(open_house: OpenHouse) -> None:
    house = await open_house(server={"max_body": 100})
    client = await Client.connect(house.port)
    client.post("/api/show", b" " * 101)
    head = await client.head()
    assert (head.status, head.headers["llmgate-code"], head.headers["connection"]) == (413, "BODY_TOO_LARGE", "close")
    await client.wait_closed()


async def test_who_leaves_before_its_body_is_here_is_not_shown_anything(house: House) -> None:
    client = await Client.connect(house.port)
    client.send(post("/api/show", b'{"model":"m"}')[:-5])
    client.fin()
    assert (await show(house, b'{"model":"m"}'))[0] == 200


# ---- its own health


async def ready(house: House, query: str = "") -> tuple[int, Any]:
    answer = await ask(house, "/readyz" + query)
    return answer.status_code, answer.json()


async def test_it_lives(house: House) -> None:
    answer = await ask(house, "/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_it_is_ready(house: House) -> None:
    checks = {UPSTREAM: "open", "llmgate": "listening"}
    assert await ready(house) == (200, {"ready": True, "checks": checks})
    assert await ready(house, f"?upstream={UPSTREAM}") == (200, {"ready": True, "checks": checks})
    unknown = {"ready": False, "checks": {"nobody": "unknown upstream"}}
    assert await ready(house, "?upstream=nobody") == (404, unknown)


async def test_a_paused_upstream_is_not_ready_but_llmgate_is(house: House) -> None:
    house.gate.set_paused(True, 0.0)
    checks = {UPSTREAM: "paused", "llmgate": "listening"}
    assert await ready(house) == (200, {"ready": True, "checks": checks})
    assert await ready(house, f"?upstream={UPSTREAM}") == (503, {"ready": False, "checks": checks})


async def test_while_it_drains_it_is_not_ready(house: House) -> None:
    house.services.draining = True
    house.services.admission.close()
    checks = {UPSTREAM: "draining", "llmgate": "stopping"}
    assert await ready(house) == (503, {"ready": False, "checks": checks})
    assert (await ask(house, "/healthz")).status_code == 200


async def test_anything_but_http_is_starlettes_to_refuse(house: House) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    scope = {"type": "websocket", "path": "/v1/messages", "headers": [], "query_string": b""}
    await house.http._server.config.loaded_app(scope, receive, send)
    assert json.dumps(sent[0]).count("websocket.close") == 1
