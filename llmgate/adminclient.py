"""Typed calls over the daemon's admin socket, with errors that tell a person what to do next.

httpx is imported by the first call, not with this module: `llmgate --help` must not pay for it.
"""

import asyncio
import errno
import grp
import json
import os
import pwd
import socket as sockets
import ssl
import stat
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

import msgspec

from llmgate.adminapi import SCHEMA, FeedItem, Requests, Status, View
from llmgate.config.paths import named_settings_file, settings_files
from llmgate.errors import AdminError, DaemonNotRunning

if TYPE_CHECKING:
    from types import TracebackType

    import httpx

ORIGIN = "http://localhost"
ANSWER_SECONDS = 5.0
SILENCE_SECONDS = 15.0
"""The feed says `: alive` every 5 s, so three missed ones mean that the connection is dead."""
MAX_LINE = 64 * 1024 * 1024
TIMEOUTS = frozenset(("ReadTimeout", "ConnectTimeout", "WriteTimeout", "PoolTimeout"))
"""httpx's names for them, which need no import of httpx."""

ViewT = TypeVar("ViewT", bound=View)


def find_socket(candidates: Iterable[Path]) -> Path:
    """The first candidate that exists, else the first: so that an error names the one that is expected.

    One in a folder that we may not enter counts as existing: the error then says what to do about that.
    """
    paths = list(candidates)
    return next((path for path in paths if _may_exist(path)), paths[0])


def _may_exist(path: Path) -> bool:
    try:
        path.stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return True


class AdminClient:
    """The daemon behind one admin socket. `command` is what the advice in errors tells to run again.

    Every call raises DaemonNotRunning when nobody answers, AdminError for everything else.
    """

    def __init__(self, socket: Path, *, command: str = "status") -> None:
        self.socket = socket
        self._command = command

    def status(self) -> Status:
        return self._get("/v1/status", {}, Status)

    def requests(self, state: str | None = None, upstream: str | None = None) -> Requests:
        """The requests that wait, run or drain, or those of one state (a REQUEST_STATES word) or upstream."""
        wanted = {"state": state, "upstream": upstream}
        return self._get("/v1/requests", {key: value for key, value in wanted.items() if value is not None}, Requests)

    def watch(self, last_event_id: int | None = None) -> "Watch":
        """The feed from now on, or from after that event. Use it as `async with` and `async for`."""
        return Watch(self.socket, self._command, last_event_id)

    def _get(self, path: str, query: Mapping[str, str], kind: type[ViewT]) -> ViewT:
        import httpx

        try:
            _knock(self.socket)
            transport = httpx.HTTPTransport(uds=os.fspath(self.socket), verify=_no_tls())
            with httpx.Client(transport=transport, trust_env=False, timeout=ANSWER_SECONDS) as client:
                answer = client.get(ORIGIN + path, params=dict(query))
        except (httpx.HTTPError, OSError) as error:
            raise explain(error, self.socket, self._command) from error
        check_answer(answer.status_code, answer.content, self.socket)
        return decode(answer.content, kind, self.socket)


def _knock(path: Path) -> None:
    """Connects and hangs up: httpcore 1.0 leaves a Unix socket open on which it could not connect."""
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as knocking:
        knocking.settimeout(ANSWER_SECONDS)
        knocking.connect(os.fspath(path))


class Watch:
    """One connection to the feed: an iterator of FeedItem that connects at the first item asked for.

    It never ends by itself: the end of the connection, 15 s of silence and garbage raise AdminError.
    An object and not a generator, so that leaving the `async with` closes the socket there and then.
    """

    def __init__(self, socket: Path, command: str, last_event_id: int | None) -> None:
        self._socket = socket
        self._command = command
        self._last_event_id = last_event_id
        self._parser = FeedParser(socket)
        self._items: deque[FeedItem] = deque()
        self._client: httpx.AsyncClient | None = None
        self._chunks: AsyncIterator[bytes] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: "TracebackType | None"
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> FeedItem:
        try:
            while not self._items:
                self._items.extend(self._parser.feed(await self._chunk()))
        except BaseException:
            await self.aclose()
            raise
        return self._items.popleft()

    async def aclose(self) -> None:
        client, self._client, self._chunks = self._client, None, None
        if client is not None:
            await client.aclose()

    async def _chunk(self) -> bytes:
        import httpx

        try:
            if self._chunks is None:
                self._chunks = await self._connect()
            return await anext(self._chunks)
        except StopAsyncIteration:
            raise _closed(self._socket) from None
        except (httpx.HTTPError, OSError) as error:
            raise explain(error, self._socket, self._command) from error

    async def _connect(self) -> AsyncIterator[bytes]:
        import httpx

        transport = httpx.AsyncHTTPTransport(uds=os.fspath(self._socket), verify=_no_tls())
        timeout = httpx.Timeout(ANSWER_SECONDS, read=SILENCE_SECONDS)
        self._client = client = httpx.AsyncClient(transport=transport, trust_env=False, timeout=timeout)
        headers = {"accept": "text/event-stream"}
        if self._last_event_id is not None:
            headers["last-event-id"] = str(self._last_event_id)
        request = client.build_request("GET", f"{ORIGIN}/v1/events", headers=headers)
        async with asyncio.timeout(ANSWER_SECONDS):
            answer = await client.send(request, stream=True)
        if answer.status_code != 200:
            check_answer(answer.status_code, await answer.aread(), self._socket)
        return answer.aiter_raw()


class FeedParser:
    """The server-sent events of the feed, taken apart: `feed(bytes)` gives the items that are now complete."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._rest = bytearray()
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[FeedItem]:
        start = len(self._rest)
        self._rest += chunk
        end = self._rest.rfind(b"\n", start)
        if end < 0:
            if len(self._rest) > MAX_LINE:
                raise garbage(self._socket)
            return []
        lines = bytes(self._rest[:end]).split(b"\n")
        del self._rest[: end + 1]
        return [item for line in lines if (item := self._line(line.removesuffix(b"\r"))) is not None]

    def _line(self, line: bytes) -> FeedItem | None:
        if line.startswith(b"data:"):
            self._data.append(line[5:])
        elif not line and self._data:
            data, self._data = b"\n".join(self._data), []
            return self._item(data)
        elif line and not line.startswith((b":", b"id:", b"event:", b"retry:")):
            raise garbage(self._socket)
        return None

    def _item(self, data: bytes) -> FeedItem | None:
        try:
            return decode(data, FeedItem, self._socket)
        except AdminError:
            if _is_unknown_item(data):
                return None
            raise


def _is_unknown_item(data: bytes) -> bool:
    """Whether a newer daemon sent a kind of item that we have never heard of, in whatever shape."""
    try:
        plain = json.loads(data)
        return bool(plain["schema"] > SCHEMA) and plain["type"] not in ("snapshot", "event", "progress")
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def decode(data: bytes, kind: type[ViewT], socket: Path) -> ViewT:
    """The view in an answer; fields that we do not know are passed over."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        schema = _schema(data)
        if schema > SCHEMA:
            raise AdminError(
                f"The daemon on {socket} is newer than this llmgate (schema {schema}, known {SCHEMA})\n"
                "and its answer can not be read.\n\nInstall the llmgate of the daemon's version."
            ) from error
        raise garbage(socket) from error


def _schema(data: bytes) -> int:
    try:
        return int(json.loads(data)["schema"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0


def check_answer(status: int, body: bytes, socket: Path) -> None:
    """Raises AdminError with the daemon's own sentence for an answer other than 200."""
    if status == 200:
        return
    try:
        message = str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise garbage(socket) from None
    raise AdminError(message)


def _closed(socket: Path) -> AdminError:
    return AdminError(f"The daemon closed the connection on {socket}")


def garbage(socket: Path) -> AdminError:
    return AdminError(
        f"What answers on {socket} does not speak as llmgate does.\n\nIs it the socket of another program?"
    )


def explain(error: Exception, socket: Path, command: str) -> AdminError:
    """The error of a call that got no answer: what was tried, what is wrong with it, and the lines that help.

    The first line names the socket, the second paragraph the cause; then come the indented lines to run.
    """
    code = _errno(error)
    if code in (errno.EACCES, errno.EPERM):
        return AdminError("\n".join([f"Permission denied on {socket}", "", *_permission_lines(socket, command)]))
    if code in (errno.ENOENT, errno.ENOTDIR):
        return _not_running(socket, "The socket file does not exist.", command)
    if code == errno.ECONNREFUSED:
        return _not_running(socket, "The file is there, but nobody listens on it.", command)
    if isinstance(error, TimeoutError) or type(error).__name__ in TIMEOUTS:
        return AdminError(f"The daemon on {socket} does not answer: nothing was heard from it in time.")
    if type(error).__name__ == "RemoteProtocolError" and code is None:
        return _closed(socket) if "connect" in str(error) else garbage(socket)
    return AdminError(f"The connection on {socket} failed: {_root(error) or type(error).__name__}")


def _not_running(socket: Path, cause: str, command: str) -> DaemonNotRunning:
    return DaemonNotRunning("\n".join([f"No daemon answers on {socket}", "", cause, "", *_start_lines(command)]))


def _start_lines(command: str) -> list[str]:
    settings = "" if _finds_settings() else " --upstream NAME=http://127.0.0.1:8000"
    return [
        f"  start it now          llmgate serve{settings}",
        "  only to try it        llmgate demo",
        f"  another socket        llmgate --socket PATH {command}",
        "  a remote machine      ssh -L ~/gate.sock:/run/llmgate/admin.sock host",
        f"                        llmgate --socket ~/gate.sock {command}",
    ]


def _finds_settings() -> bool:
    """Whether `llmgate serve` alone would read a settings file."""
    return bool(named_settings_file(os.environ)) or any(map(os.path.lexists, settings_files(os.environ)))


def _permission_lines(socket: Path, command: str) -> list[str]:
    try:
        found = socket.stat()
    except OSError:
        return [f"You may not enter the folder {socket.parent}."]
    group, user = _group_name(found.st_gid), _user_name(found.st_uid)
    if found.st_mode & stat.S_IWGRP:
        return [
            f"The socket belongs to group {group}, and you are not in it.",
            "",
            f"  join the group        sudo usermod -aG {group} $USER   (then log in again)",
        ]
    return [
        f"The socket belongs to user {user}, and only that user may use it.",
        "",
        f"  as that user          sudo -u {user} llmgate --socket {socket} {command}",
    ]


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _errno(error: BaseException) -> int | None:
    root = _root(error)
    return None if root is None else root.errno


def _root(error: BaseException) -> OSError | None:
    """The operating system's error under what httpx made of it."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, OSError):
        seen = seen.__cause__ or seen.__context__
    return seen


def _no_tls() -> ssl.SSLContext:
    """An empty context: httpx would otherwise read all certificate authorities, for a socket without TLS."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
