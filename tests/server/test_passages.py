"""Who gets what comes under /upstream/NAME/: a server as it is, the exchange of a surface, or nobody."""

import pytest
from gateprocess import request_body
from hands import ANSWER, Hands
from rawclient import Client, name_of, positions_of

from tests.server.house import UPSTREAM, House, OpenHouse
from tests.server.passing import ANTHROPIC, HERE, ask, check_shape, head_of, line, occupy


@pytest.fixture
async def house(open_house: OpenHouse) -> House:
    """One slot; its server is open to be passed on to."""
    return await open_house(upstream={"passthrough": True})


# ---- surfaces


async def test_a_surfaces_client_is_told_as_on_that_surface(house: House, hands: Hands) -> None:
    """Whatever the model is called: neither route nor alias plays a part."""
    turn = await occupy(house, hands)
    client = await ask(house, "POST", HERE + "/v1/messages?beta=true", request_body("nick"))
    assert positions_of([await client.frame()]) == [(1, 1)]
    await turn.answer()
    turn = await hands.turn()
    assert turn.request.line == b"POST /v1/messages?beta=true HTTP/1.1"
    assert turn.request.body == request_body("nick")
    await turn.complete()
    assert b"".join(frame for frame in await client.frames() if name_of(frame) != "queue") == ANSWER


async def test_a_model_that_nobody_lists(house: House, hands: Hands) -> None:
    client = await ask(house, "POST", f"/upstream/{UPSTREAM}/v1/chat/completions", request_body("nobody's"))
    turn = await hands.turn()
    assert turn.fields["model"] == "nobody's"
    await turn.complete()
    assert (await client.head()).status == 200
    await client.body()


@pytest.mark.parametrize("body", [b"{}", b"", b"\xff", b'{"model":5}'])
async def test_a_surface_reads_its_requests_as_everywhere(house: House, body: bytes) -> None:
    """One path, one behaviour: a body without a model is not passed on in another way."""
    client = await ask(house, "POST", HERE + "/v1/chat/completions", body)
    assert ((await client.head()).status, (await client.json())["error"]["code"]) == (400, "BAD_REQUEST")
    assert house.events == []


@pytest.mark.parametrize("path", ["/v1/chat%2Fcompletions", "/v1/chat/completions/", "/v1/%63hat/completions"])
async def test_what_is_only_like_a_surface_is_passed_on(house: House, hands: Hands, path: str) -> None:
    client = await ask(house, "POST", HERE + path, b"{}")
    turn = await hands.turn()
    assert turn.request.line == f"POST {path} HTTP/1.1".encode()
    assert house.figures.running == 1
    await turn.answer(404, b"?")
    assert ((await client.head()).status, await client.body()) == (404, b"?")


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
async def test_other_methods_of_a_surfaces_path_are_passed_on(house: House, hands: Hands, method: str) -> None:
    client = await ask(house, method, HERE + "/v1/messages")
    await (await hands.turn()).connection.send(head_of(405, "allow: POST", "content-length: 0"))
    assert ((await client.head()).status, (await client.head()).headers["allow"]) == (405, "POST")


# ---- what is not passed on


@pytest.mark.parametrize(
    "path",
    [
        "/upstream/nobody/slots",
        "/upstream/nobody/v1/messages",
        "/upstream//slots",
        "/upstream/",
        "/upstream/%72easoning/slots",
        "/upstream/Reasoning/slots",
        f"/upstream/{UPSTREAM}",
        f"/upstream/{UPSTREAM}%2Fslots",
        f"/upstream/{UPSTREAM}?x=/slots",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "TRACE"])
async def test_no_such_upstream(house: House, hands: Hands, method: str, path: str) -> None:
    for prefix in ("", "/llm"):
        client = await ask(house, method, prefix + path)
        head = await client.head()
        assert (head.status, head.headers["llmgate-code"]) == (404, "NOT_FOUND")
        assert "llmgate-upstream" not in head.headers
        told = await client.json()
        assert told["error"]["type"] == "not_found_error"
        assert "passthrough = true (NOT_FOUND)" in told["error"]["message"]
    assert (house.events, hands.untaken) == ([], 0)


async def test_one_that_is_not_open_looks_like_one_that_is_not_there(open_house: OpenHouse, hands: Hands) -> None:
    house = await open_house()
    told = []
    for name in (UPSTREAM, "nobody"):
        for path in ("/slots", "/v1/chat/completions", "/../x", "/api/tags"):
            for method in ("GET", "POST", "TRACE"):
                client = await ask(house, method, f"/llm/upstream/{name}{path}", request_body("m"))
                head = await client.head()
                headers = {key: value for key, value in head.headers.items() if key != "llmgate-request-id"}
                told.append((head.status, headers, await client.body()))
    assert told[:12] == told[12:]
    assert {status for status, _, _ in told} == {404}
    assert (house.events, hands.untaken) == ([], 0)


@pytest.mark.parametrize(
    ("path", "headers", "shape"),
    [("/x", {}, "openai"), ("/api/x", ANTHROPIC, "ollama"), ("/x", ANTHROPIC, "anthropic")],
)
async def test_refusals_have_the_shape_of_what_was_asked(
    house: House, path: str, headers: dict[str, str], shape: str
) -> None:
    for name, code in (("nobody", "NOT_FOUND"), (UPSTREAM, "BAD_REQUEST")):
        client = await ask(house, "GET", f"/llm/upstream/{name}{path}/..", **headers)
        check_shape(await client.json(), shape, code)


@pytest.mark.parametrize("target", ["/../x", "//host/x", "/%2e%2e/x", "/a%00b", "/%2fhost", "/x/.."])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_what_is_no_plain_path(house: House, hands: Hands, method: str, target: str) -> None:
    client = await ask(house, method, HERE + target)
    head = await client.head()
    assert (head.status, head.headers["llmgate-code"]) == (400, "BAD_REQUEST")
    assert (house.events, hands.untaken) == ([], 0)


async def test_an_absolute_form_is_refused(house: House, hands: Hands) -> None:
    client = await ask(house, "GET", f"http://example.org:1{HERE}/slots?a=b")
    assert (await client.head()).status == 400
    assert hands.untaken == 0


async def test_trace_would_show_our_key(house: House, hands: Hands) -> None:
    client = await ask(house, "TRACE", HERE + "/x")
    head = await client.head()
    assert (head.status, head.headers["llmgate-code"]) == (405, "METHOD_NOT_ALLOWED")
    assert set(head.headers["allow"].split(", ")) >= {"GET", "POST", "DELETE"}
    assert hands.untaken == 0


async def test_only_under_the_prefixes_of_the_settings(open_house: OpenHouse, hands: Hands) -> None:
    house = await open_house(upstream={"passthrough": True}, server={"path_prefix": ["/ai"]})
    for prefix in ("", "/llm", "/ai/ai", "/AI"):
        client = await ask(house, "GET", f"{prefix}/upstream/{UPSTREAM}/metrics")
        assert (await client.head()).status == 404
    client = await ask(house, "GET", f"/ai/upstream/{UPSTREAM}/metrics")
    await (await hands.turn()).answer(200, b"[]")
    assert await client.body() == b"[]"


async def test_an_upstream_that_a_reload_takes_away_while_the_body_comes(house: House, hands: Hands) -> None:
    client = await Client.connect(house.port)
    request = line("POST", HERE + "/v1/messages", b'{"model":"m"}')
    client.send(request[:-1])
    await house.wait(lambda: len(house.http._server.server_state.tasks) == 1)
    house.services.settings = house.services.settings.model_copy(update={"upstreams": {}})
    client.send(request[-1:])
    head = await client.head()
    assert (head.status, head.headers["llmgate-code"]) == (503, "REFUSED")
    assert (house.events, hands.untaken) == ([], 0)
