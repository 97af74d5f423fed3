"""What each call asks for, and that both clients ask the same."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmgate import adminapi
from llmgate.adminapi import Requests, RequestView, UpstreamAnswer, UpstreamView, View, encode
from llmgate.adminclient import AdminClient, AsyncAdminClient
from llmgate.errors import DaemonNotRunning
from tests.adminclient.fake import STATUS, Server, answer

UPSTREAM = UpstreamView(name="a", state="idle", url="http://x", max_concurrent=1)
REQUEST = RequestView(id="q", upstream="a", state="waiting", order=1, model="", api="", path="", stream=True)
LIMITS = adminapi.LimitsView(max_concurrent=1)
ON_UPSTREAM = UpstreamAnswer(now_ms=1, upstream=UPSTREAM)
ON_REQUEST = adminapi.RequestDetail(now_ms=1, request=REQUEST)
LISTED = Requests(now_ms=1, requests=[REQUEST])

CALLS: list[tuple[Callable[[Any], Any], bytes, View]] = [
    (lambda c: c.status(), b"GET /v1/status", STATUS),
    (lambda c: c.upstreams(), b"GET /v1/upstreams", adminapi.Upstreams(now_ms=1, upstreams=[UPSTREAM])),
    (lambda c: c.upstream("a b/c"), b"GET /v1/upstreams/a%20b%2Fc", ON_UPSTREAM),
    (lambda c: c.upstream(".."), b"GET /v1/upstreams/-", ON_UPSTREAM),
    (lambda c: c.requests(), b"GET /v1/requests", LISTED),
    (
        lambda c: c.requests(state="all", upstream="a", client="b", session="c", model="d", limit=5),
        b"GET /v1/requests?state=all&upstream=a&client=b&session=c&model=d&limit=5",
        LISTED,
    ),
    (lambda c: c.request("q"), b"GET /v1/requests/q", ON_REQUEST),
    (lambda c: c.pause("a"), b"POST /v1/upstreams/a/pause", ON_UPSTREAM),
    (lambda c: c.resume("a"), b"POST /v1/upstreams/a/resume", ON_UPSTREAM),
    (lambda c: c.drain("a"), b"POST /v1/upstreams/a/drain", ON_UPSTREAM),
    (
        lambda c: c.set_limits("a", max_concurrent=2, max_queued=None),
        b"PATCH /v1/upstreams/a",
        adminapi.LimitsAnswer(now_ms=1, upstream="a", old=LIMITS, new=LIMITS),
    ),
    (lambda c: c.cancel("q"), b"DELETE /v1/requests/q", ON_REQUEST),
    (lambda c: c.move("q"), b"POST /v1/requests/q/move", ON_REQUEST),
    (lambda c: c.config(), b"GET /v1/config", adminapi.Config(file="", values=[])),
    (lambda c: c.reload(), b"POST /v1/reload", adminapi.Reloaded(error="no")),
]


class TestCalls:
    @pytest.mark.parametrize(("call", "line", "view"), CALLS, ids=[line.decode() for _, line, _ in CALLS])
    async def test_both_clients_ask_the_same(
        self, server: Server, call: Callable[[Any], Any], line: bytes, view: View
    ) -> None:
        server.data = answer(encode(view))
        assert await asyncio.to_thread(call, AdminClient(server.path)) == view
        assert await call(AsyncAdminClient(server.path)) == view
        assert [heard.partition(b" HTTP/1.1")[0] for heard in server.heard] == [line, line]

    async def test_what_is_no_view_is_passed_on(self, server: Server) -> None:
        server.data = answer(b"# no view")
        client = AdminClient(server.path)
        assert await asyncio.to_thread(client.metrics) == b"# no view"
        assert await asyncio.to_thread(client.openapi) == b"# no view"
        assert await AsyncAdminClient(server.path).metrics() == b"# no view"
        assert await AsyncAdminClient(server.path).openapi() == b"# no view"

    async def test_the_requests_that_ended(self, server: Server) -> None:
        server.data = answer(encode(LISTED))
        assert await AsyncAdminClient(server.path).ended() == LISTED
        assert server.heard[0].startswith(b"GET /v1/requests?state=done HTTP/1.1")

    async def test_limits_are_sent_as_json(self, server: Server) -> None:
        server.data = answer(encode(adminapi.LimitsAnswer(now_ms=1, upstream="a", old=LIMITS, new=LIMITS)))
        await AsyncAdminClient(server.path).set_limits("a", max_concurrent=2, queue_timeout=None)
        await asyncio.wait_for(server.closed.wait(), 60)
        assert json.loads(server.bodies[0]) == {"max_concurrent": 2, "queue_timeout": None}

    async def test_a_loop_gets_the_same_errors(self, tmp_path: Path) -> None:
        with pytest.raises(DaemonNotRunning, match="does not exist"):
            await AsyncAdminClient(tmp_path / "admin.sock").status()
