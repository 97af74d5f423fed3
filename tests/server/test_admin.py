"""The admin API's application: what it refuses, who may act, and what it says of itself when it fails."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from rawclient import Client

from llmgate.adminapi import Status, View, encode
from llmgate.server import admin
from llmgate.server.admin_table import ROUTES
from tests.server.desk import ME, AdminDesk
from tests.server.house import logged


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[AdminDesk]:
    async with AdminDesk(tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    ("path", "method", "status", "code", "message"),
    [
        ("/v1/requests?state=x", "GET", 400, "BAD_REQUEST", "state must be one of live, all, waiting, running, "),
        ("/v1/requests?limit=0", "GET", 400, "BAD_REQUEST", "limit must be a whole number, 1 or more"),
        ("/v1/requests?limit=1&limit=2", "GET", 400, "BAD_REQUEST", "the parameter limit is given twice"),
        ("/v1/requests?stat=x", "GET", 400, "BAD_REQUEST", "there is no parameter 'stat' here; did you mean state? "),
        ("/v1/status?x=1", "GET", 400, "BAD_REQUEST", "there is no parameter 'x' here; this path takes none"),
        ("/v1/events?x=1", "GET", 400, "BAD_REQUEST", "there is no parameter 'x' here; there are: events"),
        ("/v1/events?events=-1", "GET", 400, "BAD_REQUEST", "events must be a whole number, 0 or more"),
        ("/v1/status?" + "&".join("abc" for _ in range(99)), "GET", 400, "BAD_REQUEST", "there are too many "),
        ("/v1/nothing", "GET", 404, "NOT_FOUND", "there is no such path; GET /openapi.json lists all"),
        ("/v1/upstreams/", "GET", 404, "NOT_FOUND", "there is no such path"),
        ("/v1/upstreams/a/b/c", "POST", 404, "NOT_FOUND", "there is no such path"),
        ("/v1/status", "POST", 405, "METHOD_NOT_ALLOWED", "this path takes GET only"),
        ("/v1/upstreams/a", "DELETE", 405, "METHOD_NOT_ALLOWED", "this path takes GET or PATCH only"),
    ],
)
async def test_refusals(desk: AdminDesk, path: str, method: str, status: int, code: str, message: str) -> None:
    refused = await desk.refusal(method, path)
    assert refused[:2] == (status, code)
    assert refused[2].startswith(message)


async def test_a_wrong_method_is_told_the_right_ones(desk: AdminDesk) -> None:
    assert (await desk.ask("TRACE", "/v1/requests/x")).headers["allow"] == "GET, DELETE"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body is no JSON; it must be an object of max_concurrent, max_queued, queue_timeout"),
        (b"[]", "the body must be an object of max_concurrent, max_queued, queue_timeout"),
        (b"{}", "the body must name at least one of max_concurrent, max_queued, queue_timeout"),
        (b'{"max_concurent":1}', "there is no field 'max_concurent'; did you mean max_concurrent? there are: "),
        (b'{"max_concurrent":-1}', "max_concurrent must be a whole number, 0 (not gated) or more"),
        (b'{"max_queued":"x"}', "max_queued must be a whole number, 0 (refuse at once when busy) or more, or null"),
        (b'{"persisted":1}', "persisted must be true or false"),
        (b'{"queue_timeout":-1}', "queue_timeout must be a number of seconds, at most ten years, or 0 or null"),
    ],
)
async def test_bad_bodies_are_told_the_field_and_what_is_allowed(desk: AdminDesk, body: bytes, message: str) -> None:
    status, code, told = await desk.refusal("PATCH", "/v1/upstreams/a", body)
    assert (status, code) == (400, "BAD_REQUEST")
    assert told.startswith(message)
    assert desk.events == []


async def test_a_body_has_a_largest_size_and_a_deadline(desk: AdminDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = b'{"max_queued":1}' + b" " * (admin.BODY_LIMIT - 16)
    assert (await desk.ask("PATCH", "/v1/upstreams/a", exact)).status_code == 200
    for path in ("/v1/upstreams/a", "/v1/upstreams/a/pause"):
        method = "POST" if path.endswith("pause") else "PATCH"
        assert (await desk.refusal(method, path, exact + b" "))[:2] == (413, "BODY_TOO_LARGE")
    monkeypatch.setattr(admin, "BODY_SECONDS", 0.01)
    late, gone = await Client.connect(str(desk.path)), await Client.connect(str(desk.path))
    for client in (late, gone):
        client.send(b"PATCH /v1/upstreams/a HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{")
    gone.fin()
    assert (await late.head()).status == 408
    assert (await late.json())["error"]["code"] == "BODY_TIMEOUT"


async def test_head_is_get_without_a_body(desk: AdminDesk) -> None:
    answer = await desk.ask("HEAD", "/v1/status")
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 100
    assert (await desk.ask("HEAD", "/v1/events")).status_code == 405


async def test_the_document_lists_every_route(desk: AdminDesk) -> None:
    paths = (await desk.get("/openapi.json"))["paths"]
    assert {(method.upper(), path) for path, methods in paths.items() for method in methods} == {
        (route.method, route.path) for route in ROUTES
    }


# ---- who may act


def target_of(path: str) -> str:
    return path.replace("{name}", "a").replace("{id}", "r")


@pytest.mark.parametrize("route", [route for route in ROUTES if route.level == "act"], ids=lambda route: route.summary)
async def test_who_may_only_look_is_told_so(tmp_path: Path, route: Any) -> None:
    async with AdminDesk(tmp_path, read_only=[ME]) as desk:
        await desk.enter("r")
        status, code, message = await desk.refusal(route.method, target_of(route.path), b'{"max_queued":0}')
        assert (status, code) == (403, "FORBIDDEN")
        assert message.startswith(f"uid {ME} (")
        assert message.endswith("may look here, but not act: see admin.read_only_uids in the settings")
        assert (desk.told_by(), desk.reloads, len(desk.running)) == ([], 0, 1)


async def test_and_may_look_at_everything(tmp_path: Path) -> None:
    async with AdminDesk(tmp_path, read_only=[ME]) as desk:
        await desk.enter("r")
        for route in ROUTES:
            if route.level == "look" and route.path != "/v1/events":
                assert (await desk.ask("GET", target_of(route.path))).status_code == 200, route.path
        assert (await desk.get("/v1/status"))["may_act"] is False


async def test_everybody_else_may_act(tmp_path: Path) -> None:
    async with AdminDesk(tmp_path, read_only=[ME + 1]) as desk:
        assert (await desk.get("/v1/status"))["may_act"] is True
        await desk.act("POST", "/v1/upstreams/a/pause")


async def test_whom_the_kernel_does_not_tell_may_only_look(tmp_path: Path) -> None:
    """As in a server on TCP, whose scope has no peer."""
    desk, sent = AdminDesk(tmp_path), []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/upstreams/a/pause", "query_string": b"", "headers": []}
    await desk.app(scope, receive, send)
    assert sent[0]["status"] == 403
    assert b"an unknown user may look here" in sent[1]["body"]


# ---- when it fails itself


async def test_a_fault_of_ours_is_told_without_its_words(desk: AdminDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Status:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(desk.operator.sight.__class__, "status", property(lambda _: fail), raising=False)
    with logged() as lines:
        refused = await desk.refusal("GET", "/v1/status")
    assert refused == (500, "INTERNAL", "an internal error, see the log of llmgate")
    assert [record for record in lines if "the admin API failed inside llmgate" in str(record)] != []


async def test_every_answer_is_one_line_of_json(desk: AdminDesk) -> None:
    answer = await desk.ask("GET", "/v1/status")
    assert answer.headers["content-type"] == "application/json"
    assert b"\n" not in answer.content
    assert isinstance(desk.status(), View)
    assert encode(desk.status())
