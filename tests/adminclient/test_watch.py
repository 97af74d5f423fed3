"""The feed as an iterator, against a server that says what the test wants."""

import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.adminapi import encode
from llmgate.adminclient import AdminClient, FeedParser
from llmgate.adminclient import watch as watch_module
from llmgate.errors import AdminError
from tests.adminclient.fake import ITEM, PATH, SSE, Server, answer, watched


class TestWatch:
    async def test_items_until_the_end(self, server: Server) -> None:
        server.data = SSE + b"id: 3\ndata: %s\n\n: alive\n\ndata: %s\n\n" % (encode(ITEM), encode(ITEM))
        items, why = await watched(server)
        assert items == [ITEM, ITEM]
        assert "closed the connection" in why
        assert b"last-event-id" not in server.heard[0].lower()

    async def test_resuming(self, server: Server) -> None:
        server.data = SSE + b"id: f00-42\ndata: %s\n\n" % encode(ITEM)
        async with AdminClient(server.path).watch("f00-41") as feed:
            assert feed.last_event_id == "f00-41"
            await anext(feed)
            assert feed.last_event_id == "f00-42"
        assert b"last-event-id: f00-41\r\n" in server.heard[0].lower()

    @pytest.mark.parametrize(("events", "target"), [(None, b"/v1/events "), (7, b"/v1/events?events=7 ")])
    async def test_how_many_events_of_the_past(self, server: Server, events: int | None, target: bytes) -> None:
        server.data = SSE + b"data: %s\n\n" % encode(ITEM)
        async with AdminClient(server.path).watch(events=events) as feed:
            await anext(feed)
        assert server.heard[0].startswith(b"GET " + target)

    async def test_leaving_closes_the_socket(self, server: Server) -> None:
        server.stays = True
        server.data = SSE + b"data: %s\n\n" % encode(ITEM)
        async with AdminClient(server.path).watch() as feed:
            async for _ in feed:
                break
        await asyncio.wait_for(server.closed.wait(), 60)

    async def test_cancelling_closes_the_socket(self, server: Server) -> None:
        server.stays = True
        server.data = SSE
        watch = AdminClient(server.path).watch()
        task = asyncio.create_task(anext(watch))
        await asyncio.wait_for(server.came.wait(), 60)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.closed.wait(), 60)
        assert watch._client is None

    async def test_silence_is_a_lost_connection(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(watch_module, "SILENCE_SECONDS", 0.5)
        server.stays = True
        server.data = SSE + b"data: %s\n\n" % encode(ITEM)
        items, why = await watched(server)
        assert items == [ITEM]
        assert "nothing was heard" in why

    async def test_refused(self, server: Server) -> None:
        server.data = answer(b'{"error":{"code":"REFUSED","message":"too many watchers"}}', b"503 No")
        assert await watched(server) == ([], "too many watchers")

    @pytest.mark.parametrize("data", [b"data: {}\n\n", b"data: nonsense\n\n", b"hello\n", b'data: {"schema":"x"}\n\n'])
    async def test_garbage(self, server: Server, data: bytes) -> None:
        server.data = SSE + data
        assert "does not speak as llmgate does" in (await watched(server))[1]


class TestFeedParser:
    @given(st.lists(st.integers(1, 40), min_size=1, max_size=60), st.sampled_from([b"\n", b"\r\n"]))
    def test_any_chunking(self, sizes: list[int], newline: bytes) -> None:
        lines = [b"id: 3", b"data: " + encode(ITEM), b"", b": alive", b"", b"data:" + encode(ITEM), b"", b"data: cut"]
        data, parser, items = newline.join(lines), FeedParser(PATH), []
        while data:
            size = sizes[len(data) % len(sizes)]
            items += parser.feed(data[:size])
            data = data[size:]
        assert items == [ITEM, ITEM]

    def test_a_new_kind_of_item_from_a_newer_daemon_is_passed_over(self) -> None:
        parser = FeedParser(PATH)
        assert parser.feed(b'data: {"schema":2,"type":"forecast","rain":true}\n\n') == []
        assert parser.feed(b"data: %s\n\n" % encode(ITEM)) == [ITEM]

    @pytest.mark.parametrize("item", [b'{"schema":1,"type":"forecast"}', b'{"schema":2,"type":"event"}'])
    def test_but_not_from_one_of_our_own_version_nor_one_that_matters(self, item: bytes) -> None:
        with pytest.raises(AdminError):
            FeedParser(PATH).feed(b"data: %s\n\n" % item)

    def test_a_line_without_end_is_not_kept_for_ever(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(watch_module, "MAX_LINE", 1000)
        parser = FeedParser(PATH)
        assert parser.feed(b"x" * 1000) == []
        with pytest.raises(AdminError):
            parser.feed(b"x")
