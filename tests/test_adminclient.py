"""The client of the admin socket against a server that says what the test wants."""

import asyncio
import contextlib
import os
import socket as sockets
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate import adminclient
from llmgate.adminapi import FeedItem, Requests, RequestView, Status, encode
from llmgate.adminclient import AdminClient, FeedParser, find_socket
from llmgate.errors import AdminError, DaemonNotRunning

STATUS = Status(
    version="0.1.0", pid=1, started_at="", uptime_ms=1, now_at="", now_ms=5, state="running", listen=[], config="",
    socket="", upstreams=[],
)  # fmt: skip
ITEM = FeedItem(type="progress", number=3, now_ms=5)
SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
PATH = Path("/run/x.sock")


def answer(body: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body)


class Server:
    """Says `data` to everybody, then hangs up, unless `stays`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = b""
        self.stays = False
        self.heard: list[bytes] = []
        self.came = asyncio.Event()
        self.closed = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.heard.append(await reader.readuntil(b"\r\n\r\n"))
        except asyncio.IncompleteReadError:
            writer.close()
            return
        self.came.set()
        writer.write(self.data)
        if self.stays:
            await reader.read()
        writer.close()
        self.closed.set()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    fake = Server(tmp_path / "admin.sock")
    listening = await asyncio.start_unix_server(fake.serve, fake.path)
    yield fake
    listening.close()
    await listening.wait_closed()


async def failure(server: Server) -> str:
    with pytest.raises(AdminError) as caught:
        await asyncio.to_thread(AdminClient(server.path).status)
    return str(caught.value)


async def watched(server: Server) -> tuple[list[FeedItem], str]:
    """What came until the feed broke off, and why it did."""
    items: list[FeedItem] = []
    try:
        async with AdminClient(server.path).watch() as feed:
            while True:
                items.append(await anext(feed))
    except AdminError as error:
        return items, str(error)


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
        await asyncio.to_thread(client.requests, "waiting", "a b")
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
        server.data = answer(b'{"error":{"code":"NOT_FOUND","message":"no upstream x"}}', b"404 Not Found")
        assert await failure(server) == "no upstream x"

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
        monkeypatch.setattr(adminclient, "ANSWER_SECONDS", 0.02)
        server.stays = True
        assert "nothing was heard" in await failure(server)
        _, why = await watched(server)
        assert "nothing was heard" in why


class TestNobody:
    @pytest.fixture(autouse=True)
    def settings(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """The settings file that `llmgate serve` would read; it is there."""
        file = tmp_path / "settings" / "llmgate" / "llmgate.toml"
        file.parent.mkdir(parents=True)
        file.touch()
        monkeypatch.delenv("LLMGATE_CONFIG", raising=False)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
        return file

    def test_without_settings_it_names_what_needs_none(
        self, tmp_path: Path, settings: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("llmgate.config.paths.SYSTEM_SETTINGS", tmp_path / "none")
        settings.unlink()
        with pytest.raises(DaemonNotRunning) as caught:
            AdminClient(tmp_path / "admin.sock").status()
        line = "  start it now          llmgate serve --upstream NAME=http://127.0.0.1:8000"
        assert line in str(caught.value).split("\n")
        monkeypatch.setenv("LLMGATE_CONFIG", "/named")
        with pytest.raises(DaemonNotRunning, match=r"llmgate serve\n"):
            AdminClient(tmp_path / "admin.sock").status()

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(DaemonNotRunning) as caught:
            AdminClient(tmp_path / "admin.sock", command="ps").status()
        lines = str(caught.value).split("\n")
        assert lines[0] == f"No daemon answers on {tmp_path}/admin.sock"
        assert lines[2] == "The socket file does not exist."
        assert "  start it now          llmgate serve" in lines
        assert "  another socket        llmgate --socket PATH ps" in lines

    def test_no_folder(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(DaemonNotRunning, match="does not exist"):
            AdminClient(tmp_path / "file" / "admin.sock").status()

    def test_a_file_that_nobody_listens_on(self, tmp_path: Path) -> None:
        left = sockets.socket(sockets.AF_UNIX)
        left.bind(str(tmp_path / "admin.sock"))
        left.close()
        with pytest.raises(DaemonNotRunning, match="nobody listens on it"):
            AdminClient(tmp_path / "admin.sock").requests()

    async def test_the_feed_says_it_too(self, tmp_path: Path) -> None:
        with pytest.raises(DaemonNotRunning, match="does not exist"):
            await anext(AdminClient(tmp_path / "admin.sock").watch())

    def test_a_path_that_is_too_long(self) -> None:
        with pytest.raises(AdminError, match="too long"):
            AdminClient(Path("/tmp") / ("x" * 200)).status()  # noqa: S108


class TestPermission:
    def denied(self, path: Path) -> str:
        return str(adminclient.explain(PermissionError(13, "Permission denied"), path, "top"))

    def test_a_socket_of_one_user(self, tmp_path: Path) -> None:
        path = tmp_path / "admin.sock"
        path.touch(mode=0o600)
        user = adminclient._user_name(os.getuid())
        assert f"belongs to user {user}" in self.denied(path)
        assert f"sudo -u {user} llmgate --socket {path} top" in self.denied(path)

    def test_a_socket_of_a_group(self, tmp_path: Path) -> None:
        path = tmp_path / "admin.sock"
        path.touch()
        path.chmod(0o660)
        group = adminclient._group_name(path.stat().st_gid)
        assert f"sudo usermod -aG {group} $USER" in self.denied(path)

    def test_a_folder_that_may_not_be_entered(self, tmp_path: Path) -> None:
        assert f"You may not enter the folder {tmp_path}" in self.denied(tmp_path / "gone.sock")

    def test_ids_without_a_name(self) -> None:
        assert adminclient._user_name(2_000_000_001) == "2000000001"
        assert adminclient._group_name(2_000_000_001) == "2000000001"

    def test_it_is_no_daemon_not_running(self, tmp_path: Path) -> None:
        error = adminclient.explain(PermissionError(13, "Permission denied"), tmp_path, "top")
        assert not isinstance(error, DaemonNotRunning)


class TestFindSocket:
    def test_the_first_that_exists(self, tmp_path: Path) -> None:
        first, second, third = (tmp_path / name for name in "abc")
        second.touch()
        third.touch()
        assert find_socket([first, second, third]) == second

    def test_the_first_when_there_is_none(self, tmp_path: Path) -> None:
        assert find_socket([tmp_path / "a", tmp_path / "b"]) == tmp_path / "a"

    def test_one_that_we_may_not_see_counts(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        hidden = tmp_path / "b"
        real = Path.stat

        def stat(path: Path) -> os.stat_result:
            if path == hidden:
                raise PermissionError
            return real(path)

        monkeypatch.setattr(Path, "stat", stat)
        assert find_socket([tmp_path / "a", hidden]) == hidden


class TestWatch:
    async def test_items_until_the_end(self, server: Server) -> None:
        server.data = SSE + b"id: 3\ndata: %s\n\n: alive\n\ndata: %s\n\n" % (encode(ITEM), encode(ITEM))
        items, why = await watched(server)
        assert items == [ITEM, ITEM]
        assert "closed the connection" in why
        assert b"last-event-id" not in server.heard[0].lower()

    async def test_resuming(self, server: Server) -> None:
        server.data = SSE + b"data: %s\n\n" % encode(ITEM)
        async with AdminClient(server.path).watch(41) as feed:
            await anext(feed)
        assert b"last-event-id: 41\r\n" in server.heard[0].lower()

    async def test_leaving_closes_the_socket(self, server: Server) -> None:
        server.stays = True
        server.data = SSE + b"data: %s\n\n" % encode(ITEM)
        async with AdminClient(server.path).watch() as feed:
            async for _ in feed:
                break
        await asyncio.wait_for(server.closed.wait(), 5)

    async def test_cancelling_closes_the_socket(self, server: Server) -> None:
        server.stays = True
        server.data = SSE
        watch = AdminClient(server.path).watch()
        task = asyncio.create_task(anext(watch))
        await asyncio.wait_for(server.came.wait(), 5)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.closed.wait(), 5)
        assert watch._client is None

    async def test_silence_is_a_lost_connection(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(adminclient, "SILENCE_SECONDS", 0.02)
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
        monkeypatch.setattr(adminclient, "MAX_LINE", 1000)
        parser = FeedParser(PATH)
        assert parser.feed(b"x" * 1000) == []
        with pytest.raises(AdminError):
            parser.feed(b"x")


def test_importing_it_is_light() -> None:
    code = "import sys, llmgate.adminclient; print([m for m in sys.modules if m in sys.argv])"
    heavy = ["httpx", "uvicorn", "textual", "starlette", "pydantic", "rich"]
    ran = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
