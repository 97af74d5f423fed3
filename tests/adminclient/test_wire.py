"""One call over the socket against a server that says what the test wants."""

import asyncio

import pytest

from llmgate.adminapi import Requests, RequestView, encode
from llmgate.adminclient import AdminClient, AsyncAdminClient, calls, watch, wire
from llmgate.errors import AdminRefusal, DaemonSilent
from tests.adminclient.fake import STATUS, Server, answer, failure, watched


class TestAnswers:
    async def test_status(self, server: Server) -> None:
        server.data = answer(encode(STATUS))
        assert await asyncio.to_thread(AdminClient(server.path).status) == STATUS
        assert server.heard[0].startswith(b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n")

    async def test_requests_with_and_without_filters(self, server: Server) -> None:
        one = RequestView(id="q", upstream="a b", state="waiting", order=1, model="", api="", path="", stream=True)
        server.data = answer(encode(Requests(now_ms=1, requests=[one])))
        client = AdminClient(server.path)
        assert (await asyncio.to_thread(client.requests)).requests == [one]
        await asyncio.to_thread(client.requests, state="waiting", upstream="a b")
        assert server.heard[0].startswith(b"GET /v1/requests HTTP/1.1\r\n")
        assert server.heard[1].startswith(b"GET /v1/requests?state=waiting&upstream=a+b HTTP/1.1\r\n")

    async def test_a_newer_schema_is_read_as_far_as_it_is_known(self, server: Server) -> None:
        newer = encode(STATUS).replace(b'"schema":1', b'"schema":2,"mood":{"a":[1]}')
        server.data = answer(newer)
        status = await asyncio.to_thread(AdminClient(server.path).status)
        assert (status.schema, status.version) == (2, "0.1.0")

    async def test_a_newer_schema_that_can_not_be_read_says_so(self, server: Server) -> None:
        server.data = answer(b'{"schema":2,"version":5}')
        assert "newer than this llmgate (schema 2, known 1)" in await failure(server)

    async def test_the_daemons_own_error(self, server: Server) -> None:
        server.data = answer(b'{"error":{"code":"UNKNOWN_UPSTREAM","message":"no upstream x"}}', b"404 Not Found")
        with pytest.raises(AdminRefusal, match=r"^no upstream x$") as caught:
            await asyncio.to_thread(AdminClient(server.path).upstream, "x")
        assert caught.value.code == "UNKNOWN_UPSTREAM"

    @pytest.mark.parametrize("code", ["NOT_FOUND", "METHOD_NOT_ALLOWED"])
    async def test_an_older_daemon_that_lacks_the_path(self, server: Server, code: str) -> None:
        server.data = answer(b'{"error":{"code":"%s","message":"Not Found"}}' % code.encode(), b"404 Not Found")
        with pytest.raises(AdminRefusal) as caught:
            await asyncio.to_thread(AdminClient(server.path).pause, "a")
        lines = str(caught.value).split("\n")
        assert lines[0].endswith("is older than this llmgate: it does not know POST /v1/upstreams/a/pause.")
        assert lines[2].startswith("Restart it")

    @pytest.mark.parametrize(
        "data",
        [
            answer(b"<html>"),
            answer(b"<html>", b"500 Oops"),
            answer(b'{"error":"flat"}', b"500 Oops"),
            answer(b'{"schema":1}'),
            answer(b"[" * 100_000),
            answer(b"\xff\xfe"),
            b"SSH-2.0-OpenSSH_9\r\n\r\n",
        ],
    )
    async def test_garbage(self, server: Server, data: bytes) -> None:
        server.data = data
        assert "does not speak as llmgate does" in await failure(server)

    async def test_hung_up_without_a_word(self, server: Server) -> None:
        assert "closed the connection" in await failure(server)

    async def test_silence(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(wire, "ANSWER_SECONDS", 0.02)
        monkeypatch.setattr(watch, "ANSWER_SECONDS", 0.02)
        server.stays = True
        assert "nothing was heard" in await failure(server)
        _, why = await watched(server)
        assert "nothing was heard" in why

    @pytest.mark.parametrize("client", [AdminClient, AsyncAdminClient])
    async def test_a_call_gets_no_more_time_than_is_left(
        self, server: Server, monkeypatch: pytest.MonkeyPatch, client: type[AdminClient | AsyncAdminClient]
    ) -> None:
        monkeypatch.setattr(wire, "SHORTEST_SECONDS", 0.02)
        monkeypatch.setattr(wire, "ANSWER_SECONDS", 3600.0)
        server.stays = True
        bounded = client(server.path, command="wait").within(0.0)
        with pytest.raises(DaemonSilent):
            await (asyncio.to_thread(bounded.status) if isinstance(bounded, AdminClient) else bounded.status())

    @pytest.mark.parametrize(("limit", "seconds"), [(None, 15.0), (99.0, 15.0), (7.0, 7.0), (0.0, 1.0), (0.3, 1.0)])
    def test_how_long_a_call_may_take(self, limit: float | None, seconds: float) -> None:
        assert wire._seconds(calls.cancel("q"), limit) == seconds
