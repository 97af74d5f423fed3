"""TLS under the HTTP protocol: nothing that holds of a plain connection is lost, and strangers cost nothing."""

import asyncio
import contextlib
import gc
import logging
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from certificates import Pem, make_pem
from hypothesis import given
from hypothesis import strategies as st
from rawclient import Client

from llmgate.config.certificate import Certificate, CertificateFiles
from llmgate.config.settings import Server
from llmgate.server import tls
from llmgate.server.asgi import CONNECTION, Connection
from llmgate.server.http_server import HttpServer, WireLimits
from llmgate.server.sockets import UnixSocket, bind_listen
from llmgate.server.tls import ALERT, TlsConnection

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
BOUND = 20.0
PEM = make_pem()


def load(folder: Path, pem: Pem = PEM) -> Certificate:
    found = CertificateFiles(Server.model_validate(pem.write(folder))).certificate
    assert found is not None
    return found


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return load(tmp_path_factory.mktemp("tls"))


class App:
    """Answers with the body of the request, once it may; tells of clients that left."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.go.set()
        self.scopes: list[Any] = []
        self.connections: list[Connection] = []
        self.left = asyncio.Event()
        self.answer: bytes | None = None
        self.instead: Callable[[Any], Awaitable[None]] | None = None
        """Answers with this `send`."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self.instead is not None:
            await self.instead(send)
            return
        self.scopes.append(scope)
        self.connections.append(scope["extensions"][CONNECTION])
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        if not self.go.is_set():
            await receive()
            self.left.set()
            return
        answer = self.answer if self.answer is not None else body
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": answer, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


class Served:
    def __init__(self, certificate: Certificate, folder: Path, limits: WireLimits | None = None) -> None:
        self.app = App()
        tcp = bind_listen("127.0.0.1:0")
        self.port = tcp.getsockname()[1]
        self.path = str(folder / "s")
        self._unix = UnixSocket(folder / "s", mode=0o600, private=False)
        self._unix.open()
        self.server = HttpServer(self.app, [tcp, self._unix.bound], limits=limits)
        self.server.set_tls(certificate.context)

    @property
    def connections(self) -> set[Any]:
        return self.server._server.server_state.connections

    async def connect(self, pem: Pem = PEM, **options: Any) -> Client:
        return await Client.connect(self.port, tls=pem.trusted(), **options)

    async def wait(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(BOUND):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    async def close(self) -> None:
        await Client.close_all()
        await self.server.stop()
        self._unix.close()
        assert not self.connections


Serve = Callable[..., Awaitable[Served]]


@pytest.fixture
async def serve(certificate: Certificate, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Serve]:
    """A server that has logged nothing from info on, and of which the loop did not complain, when the test is over."""
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    caplog.set_level(logging.INFO, "llmgate")
    async with contextlib.AsyncExitStack() as stack:

        async def start(limits: WireLimits | None = None) -> Served:
            served = Served(certificate, tmp_path, limits)
            await served.server.start()
            stack.push_async_callback(served.close)
            return served

        yield start
    assert complaints == []
    assert [record for record in caplog.records if record.getMessage() not in ANNOUNCED] == []


ANNOUNCED = ["max_connections is reached (1): others are turned away"]


@contextlib.contextmanager
def blocking(served: Served, context: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
    """For a thread: what a client sees to the last byte."""
    raw = socket.create_connection(("127.0.0.1", served.port), BOUND)
    with raw, context.wrap_socket(raw, server_hostname="127.0.0.1", suppress_ragged_eofs=False) as wrapped:
        yield wrapped


async def in_thread(work: Callable[[], Any]) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, work)


# ---- requests


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_an_answer_and_another_on_the_same_connection(serve: Serve, version: ssl.TLSVersion) -> None:
    served = await serve()
    context = PEM.trusted()
    context.maximum_version = context.minimum_version = version
    client = await Client.connect(served.port, tls=context)
    for number in range(3):
        client.next_answer()
        client.post("/", b"hello %d" % number)
        assert (await client.head()).status == 200
        assert await client.body() == b"hello %d" % number
    assert [scope["scheme"] for scope in served.app.scopes] == ["https"] * 3
    assert served.app.scopes[0]["client"][0] == "127.0.0.1"


async def test_http_1_1_is_agreed_on_and_older_versions_are_not(serve: Serve) -> None:
    served = await serve()
    context = PEM.trusted()
    context.set_alpn_protocols(["h2", "http/1.1"])

    def agree() -> str | None:
        with blocking(served, context) as wrapped:
            return wrapped.selected_alpn_protocol()

    assert await in_thread(agree) == "http/1.1"
    context.set_alpn_protocols(["h2"])
    assert await in_thread(agree) is None
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1

    def try_old() -> None:
        with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"), blocking(served, old):
            raise AssertionError("TLS 1.1")

    await in_thread(try_old)


async def test_unix_sockets_stay_plain(serve: Serve) -> None:
    served = await serve()
    client = await Client.connect(served.path)
    client.post("/", b"hello")
    assert await client.body() == b"hello"
    assert served.app.scopes[0]["scheme"] == "http"


async def test_large_bodies_both_ways(serve: Serve) -> None:
    served = await serve()
    client = await served.connect()
    body = bytes(range(256)) * 40_000
    client.post("/", body)
    assert await client.body() == body


async def test_a_client_that_reads_nothing_holds_the_answer_up(serve: Serve) -> None:
    """What it has not taken is known, in the kernel as well."""
    served = await serve()
    served.app.answer = b"x" * (8 << 20)
    client = await served.connect(receive_buffer=4096)
    client.send(GET)
    await served.wait(lambda: bool(served.app.connections) and served.app.connections[0].is_behind)
    assert served.app.connections[0].unsent > 4 << 20
    assert len(await client.body()) == 8 << 20
    await served.wait(lambda: served.app.connections[0].unsent == 0)
    assert not served.app.connections[0].is_behind


async def test_a_chunk_is_there_before_the_next(serve: Serve) -> None:
    served = await serve()
    go = asyncio.Event()

    async def in_steps(send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number in range(5):
            await send({"type": "http.response.body", "body": b"%d" % number, "more_body": True})
            await go.wait()
            go.clear()
        await send({"type": "http.response.body", "body": b""})

    served.app.instead = in_steps
    client = await served.connect()
    client.send(GET)
    async with asyncio.timeout(BOUND):
        for number in range(5):
            assert await client.chunk() == b"%d" % number
            go.set()
        assert await client.chunk() == b""


# ---- ends


@pytest.mark.parametrize("how", ["fin", "reset"])
async def test_a_client_that_leaves_is_noticed(serve: Serve, how: str) -> None:
    served = await serve()
    served.app.go.clear()
    client = await served.connect()
    client.send(GET)
    await served.wait(lambda: bool(served.app.scopes))
    getattr(client, how)()
    async with asyncio.timeout(BOUND):
        await served.app.left.wait()
    await served.wait(lambda: not served.connections)


@pytest.mark.parametrize("how", ["goodbye", "end of the connection", "reset", "rubbish"])
async def test_whichever_end_comes_first(serve: Serve, how: str) -> None:
    served = await serve()
    served.app.go.clear()
    gone = asyncio.Event()
    loop = asyncio.get_running_loop()

    def leave() -> None:
        with blocking(served, PEM.trusted()) as wrapped:
            wrapped.sendall(GET)
            asyncio.run_coroutine_threadsafe(served.wait(lambda: bool(served.app.scopes)), loop).result()
            if how == "goodbye":
                with contextlib.suppress(OSError):
                    wrapped.unwrap()  # and its connection stays
                asyncio.run_coroutine_threadsafe(served.app.left.wait(), loop).result()
                return
            raw = socket.socket(fileno=wrapped.detach())
            if how == "reset":
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if how == "rubbish":
                raw.sendall(b"\x17\x03\x03\x00\x20" + b"x" * 32)
                asyncio.run_coroutine_threadsafe(served.app.left.wait(), loop).result()
            raw.close()
            gone.set()

    async with asyncio.timeout(BOUND):
        await in_thread(leave)
        await served.app.left.wait()
    await served.wait(lambda: not served.connections)


async def test_the_end_of_an_answer_is_said_and_that_of_one_that_is_cut_is_not(serve: Serve) -> None:
    """Where its end is that of the connection, a client would take the half for the whole."""
    served = await serve()

    def last_read(request: bytes) -> bytes:
        with blocking(served, PEM.trusted()) as wrapped:
            wrapped.sendall(request)
            told = b""
            while data := wrapped.recv(1000):
                told += data
            return told

    served.app.answer = b"whole"
    assert (await in_thread(lambda: last_read(b"GET / HTTP/1.0\r\n\r\n"))).endswith(b"whole")
    served.app.go.clear()
    cut = asyncio.ensure_future(in_thread(lambda: last_read(GET)))
    await served.wait(lambda: len(served.app.connections) == 2)
    served.app.connections[1].abort()
    with pytest.raises((ssl.SSLEOFError, ConnectionResetError)):
        await cut


async def test_an_early_answer_can_be_read_by_who_still_sends(serve: Serve) -> None:
    served = await serve(WireLimits(max_bodies=10))
    client = await served.connect()
    client.send(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9000000\r\n\r\n")
    for _ in range(100):
        client.send(b"x" * 10_000)
        await asyncio.sleep(0)
    assert (await client.head()).headers["llmgate-code"] == "TOO_MANY_BODIES"
    client.send(b"x" * 10_000)
    client.fin()
    await served.wait(lambda: not served.connections)


async def test_stopping_closes_what_is_idle_and_what_is_in_its_handshake(serve: Serve) -> None:
    served = await serve()
    idle = await served.connect()
    idle.send(GET)
    await idle.body()
    silent = await Client.connect(served.port)
    await served.wait(lambda: len(served.connections) == 2)
    async with asyncio.timeout(BOUND):
        await served.server.stop()
        assert await silent.wait_closed() == b""


# ---- other certificates


async def test_another_certificate_is_shown_to_who_connects_from_then_on(serve: Serve, tmp_path: Path) -> None:
    served = await serve()
    before = await served.connect()
    other = make_pem(1)
    served.server.set_tls(load(tmp_path, other).context)
    with pytest.raises(ssl.SSLCertVerificationError):
        await served.connect()
    after = await served.connect(other)
    for client in (before, after):
        client.post("/", b"hello")
        assert await client.body() == b"hello"
    served.server.set_tls(None)
    plain = await Client.connect(served.port)
    plain.post("/", b"hello")
    assert await plain.body() == b"hello"


# ---- strangers


@pytest.mark.parametrize("rest", [b"", b"content-length: 3000000\r\n\r\n" + b"x" * 3_000_000])
async def test_plain_http_is_told(serve: Serve, rest: bytes) -> None:
    served = await serve()
    client = await Client.connect(served.port)
    client.send(b"POST / HTTP/1.1\r\nhost: x\r\n" + rest)
    head = await client.head()
    assert (head.status, head.headers["connection"]) == (400, "close")
    assert "this port speaks HTTPS" in (await client.json())["error"]["message"]
    client.fin()
    await served.wait(lambda: not served.connections)
    assert served.app.scopes == []


@pytest.mark.parametrize("rubbish", [b"\x00", b"\x80\x2e\x01\x00\x02", b"\x05\x01\x00"])
async def test_other_protocols_hear_nothing(serve: Serve, rubbish: bytes) -> None:
    served = await serve()
    client = await Client.connect(served.port)
    client.send(rubbish)
    assert await client.wait_closed() == b""


@pytest.mark.parametrize("broken", [b"\x16\x03\x01\x00\x04xxxx", b"\x16\x03\x01\xff\xff" + b"x" * 70_000])
async def test_a_broken_handshake_gets_an_alert(serve: Serve, broken: bytes) -> None:
    served = await serve(WireLimits(header_timeout=None))
    client = await Client.connect(served.port)
    client.send(broken)
    with contextlib.suppress(ConnectionResetError):
        assert (await client.wait_closed())[:1] == b"\x15"
    await served.wait(lambda: not served.connections)


async def test_a_client_that_does_not_trust_us_is_told_of_at_debug_only(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    served = await serve()
    with pytest.raises(ssl.SSLCertVerificationError):
        await Client.connect(served.port, tls=make_pem(1).trusted())
    await served.wait(lambda: not served.connections)
    caplog.set_level(logging.DEBUG, "llmgate")
    with pytest.raises(ssl.SSLCertVerificationError):
        await Client.connect(served.port, tls=make_pem(1).trusted())
    await served.wait(lambda: not served.connections)
    (record,) = caplog.records
    assert record.levelno == logging.DEBUG
    assert record.getMessage().startswith("no request from 127.0.0.1:")
    caplog.clear()


async def test_handshakes_that_do_not_end_are_ended_and_hold_nobody_up(serve: Serve) -> None:
    served = await serve(WireLimits(header_timeout=0.5))
    silent = await Client.connect(served.port)
    half = await Client.connect(served.port)
    half.send(b"\x16\x03\x01")
    await served.wait(lambda: len(served.connections) == 2)
    quick = await served.connect()
    quick.post("/", b"hello")
    assert await quick.body() == b"hello"
    async with asyncio.timeout(BOUND):
        assert await silent.wait_closed() == await half.wait_closed() == b""


async def test_without_a_header_timeout_a_handshake_may_take_for_ever(serve: Serve) -> None:
    served = await serve(WireLimits(header_timeout=None))
    await Client.connect(served.port)
    await served.wait(lambda: len(served.connections) == 1)
    (one,) = served.connections
    assert one._timer is None


async def test_who_has_not_shaken_hands_counts_and_others_get_an_alert(serve: Serve) -> None:
    served = await serve(WireLimits(max_connections=1))
    await Client.connect(served.port)
    await served.wait(lambda: len(served.connections) == 1)
    late = await Client.connect(served.port)
    assert await late.wait_closed() == ALERT
    local = await Client.connect(served.path)
    assert (await local.wait_closed()).startswith(b"HTTP/1.1 503 ")


async def test_an_alert_of_our_own_can_be_read(serve: Serve) -> None:
    served = await serve(WireLimits(max_connections=1))
    await Client.connect(served.port)
    await served.wait(lambda: len(served.connections) == 1)
    with pytest.raises(ssl.SSLError, match="TLSV1_ALERT_INTERNAL_ERROR"):
        await served.connect()


async def test_nothing_is_left_of_a_connection_without_the_collector(serve: Serve) -> None:
    served = await serve()
    gc.collect()
    gc.disable()
    try:
        client = await served.connect()
        client.post("/", b"hello")
        await client.body()
        client.fin()
        plain = await Client.connect(served.port)
        plain.send(GET)
        await plain.wait_closed()
        silent = await Client.connect(served.port)
        await served.wait(lambda: bool(served.connections))
        silent.fin()
        with contextlib.suppress(ssl.SSLError):
            await Client.connect(served.port, tls=make_pem(1).trusted())
        await served.wait(lambda: not served.connections)
        served.app.scopes.clear()
        served.app.connections.clear()
        await served.wait(lambda: not [one for one in gc.get_objects() if isinstance(one, TlsConnection)])
    finally:
        gc.enable()


# ---- without a network


class Lower(asyncio.Transport):
    """The loop's transport, as far as it is used."""

    def __init__(self) -> None:
        super().__init__({"socket": socket.socket(socket.AF_INET), "peername": ("192.0.2.1", 1)})
        self.get_extra_info("socket").close()
        self.written = bytearray()
        self.half = False
        self.ended = ""

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return bool(self.ended)

    def write_eof(self) -> None:
        self.half = True

    def close(self) -> None:
        self.ended = self.ended or "closed"

    def abort(self) -> None:
        self.ended = "aborted"


class Inner(asyncio.Protocol):
    def __init__(self) -> None:
        self.transport: Any = None
        self.got = bytearray()
        self.ends = 0
        self.lost = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.got += data

    def eof_received(self) -> bool | None:
        self.ends += 1
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost += 1

    def refuse(self, error: Exception) -> None:
        raise AssertionError(error)


class Pair:
    """A client's engine, and our side of its connection."""

    def __init__(self, certificate: Certificate, seconds: float | None = None) -> None:
        self.lower, self.inner, self.connections = Lower(), Inner(), set[Any]()
        self.ours = TlsConnection(self.inner, certificate.context, self.connections, seconds)  # type: ignore[arg-type]
        self.ours.connection_made(self.lower)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = PEM.trusted().wrap_bio(self._in, self._out, server_hostname="127.0.0.1")

    def take(self) -> None:
        """What we wrote reaches the client."""
        self._in.write(bytes(self.lower.written))
        self.lower.written.clear()

    def flight(self) -> bytes:
        return self._out.read()

    def shake(self, deliver: Callable[[bytes], None]) -> None:
        while True:
            try:
                self.client.do_handshake()
            except ssl.SSLWantReadError:
                deliver(self.flight())
                self.take()
            else:
                deliver(self.flight())
                return


@given(sizes=st.lists(st.integers(1, 700), min_size=1, max_size=9), parts=st.lists(st.binary(min_size=1), max_size=5))
def test_it_does_not_matter_how_the_bytes_are_cut(
    certificate: Certificate, sizes: list[int], parts: list[bytes]
) -> None:
    pair = Pair(certificate)

    def deliver(data: bytes) -> None:
        number = 0
        while data:
            size = sizes[number % len(sizes)]
            pair.ours.data_received(data[:size])
            data, number = data[size:], number + 1

    pair.shake(deliver)
    for part in parts:
        pair.client.write(part)
    deliver(pair.flight())
    assert bytes(pair.inner.got) == b"".join(parts)
    assert (pair.inner.transport, pair.connections) == (pair.ours, set())
    pair.ours.writelines([b"a", b"b"])
    pair.ours.write(b"")
    pair.take()
    assert pair.client.read(10) == b"ab"
    pair.ours.close()
    pair.take()
    assert pair.client.read(10) == b""
    assert pair.lower.ended == "closed"
    pair.ours.write(b"late")
    assert not pair.lower.written


def test_what_came_with_the_goodbye_is_read_before(certificate: Certificate) -> None:
    pair = Pair(certificate)
    pair.shake(pair.ours.data_received)
    pair.client.write(b"last words")
    with contextlib.suppress(ssl.SSLWantReadError):
        pair.client.unwrap()
    pair.ours.data_received(pair.flight())
    assert (bytes(pair.inner.got), pair.inner.ends, pair.lower.ended) == (b"last words", 1, "closed")
    pair.ours.connection_lost(None)
    assert pair.inner.lost == 1


async def test_a_clock_that_rings_late_lets_what_came_be_read_first(
    certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "REREAD_SECONDS", 0.01)
    pair = Pair(certificate, 1000.0)
    pair.ours._time_out(asyncio.get_running_loop().time() - 10)
    assert pair.lower.ended == ""
    async with asyncio.timeout(BOUND):
        while not pair.lower.ended:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert pair.lower.ended == "aborted"
    pair.ours.connection_lost(None)
    assert pair.inner.lost == 0, "it never knew of it"


async def test_the_clock_of_the_handshake_stops_with_it(certificate: Certificate) -> None:
    pair = Pair(certificate, 1000.0)
    timer = pair.ours._timer
    assert timer is not None
    pair.shake(pair.ours.data_received)
    assert timer.cancelled()
    pair.ours.connection_lost(None)


def test_what_tls_itself_has_to_say_goes_out_at_once(certificate: Certificate) -> None:
    """It answers a change of keys while it reads."""
    pair = Pair(certificate)
    pair.shake(pair.ours.data_received)
    pair.take()
    pair.client.write(b"x")
    pair.ours._outgoing.write(b"of its own")
    pair.ours.data_received(pair.flight())
    assert pair.lower.written == b"of its own"


def test_what_comes_behind_our_end_is_told_of_and_not_kept(certificate: Certificate) -> None:
    """How much of it may come is not ours to say."""
    pair = Pair(certificate)
    pair.shake(pair.ours.data_received)
    pair.ours.write_eof()
    pair.take()
    assert (pair.client.read(10), pair.lower.half, pair.lower.ended) == (b"", True, "")
    pair.client.write(b"x" * 1000)
    pair.ours.data_received(pair.flight())
    assert len(pair.inner.got) >= 1000
    assert pair.ours._incoming.pending == 0
