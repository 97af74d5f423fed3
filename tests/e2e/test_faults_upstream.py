"""What an upstream may send or leave out, byte by byte, and what that may cost: through a whole daemon, by fault.

Their simpler relatives are in test_upstream_faults.py and test_client_gone.py.
"""

import asyncio
import contextlib
import hashlib
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateprocess import CHAT, MESSAGES, GateProcess, request_body
from hands import ANSWER, CHAT_ANSWER, START, STOP, STREAM_HEAD, WHOLE, Hands, Turn, chunk, delta, hold_port
from puppet import deaf_port
from rawclient import Client, data_of, name_of, post

RECORDED = Path(__file__).parents[1] / "protocols" / "recorded"
MIB = 1 << 20

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's figures of a process are in /proc")


def one_upstream(url: str, **upstream: Any) -> dict[str, Any]:
    return {"upstreams": {"a": {"url": url, "models": ["m"], "max_concurrent": 1, "release_timeout": 0} | upstream}}


class Figures:
    """What the kernel counts of a process."""

    def __init__(self, gate: GateProcess) -> None:
        self._folder = Path("/proc") / str(gate.pid)

    @property
    def open_files(self) -> int:
        return len(list((self._folder / "fd").iterdir()))

    @property
    def processor_seconds(self) -> float:
        fields = (self._folder / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    @property
    def memory(self) -> int:
        """Bytes that it has now."""
        return self._bytes("VmRSS")

    @property
    def most_memory(self) -> int:
        """Bytes that it ever had."""
        return self._bytes("VmHWM")

    def _bytes(self, name: str) -> int:
        lines = (self._folder / "status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":"))


# ---- connecting


@linux_only
async def test_f08_who_leaves_while_connecting_hangs_gives_the_slot_on(folder: Path) -> None:
    """Nothing accepts there: no request is written, and the socket is gone with the client."""
    with deaf_port() as port:
        upstream = one_upstream(f"http://127.0.0.1:{port}", connect_timeout="60s", kind="anthropic", on_down="fail")
        with GateProcess(folder, upstream) as gate:
            before = Figures(gate).open_files
            for _ in range(10):
                leaver = await gate.ask("m")
                await gate.wait(lambda: gate.upstream("a")["running"] == 1)
                waiting = await gate.ask("m")
                await waiting.frame()
                assert gate.upstream("a")["waiting"] == 1
                leaver.reset()
                await gate.wait(lambda: gate.upstream("a")["waiting"] == 0)
                assert gate.upstream("a")["running"] == 1
                waiting.reset()
                await gate.wait(gate.is_idle)
            await gate.wait(lambda: Figures(gate).open_files <= before + 2)
            assert {request["outcome"] for request in gate.requests("done")} == {"client_gone"}


@linux_only
async def test_f33_twenty_who_wait_for_a_server_that_is_gone_are_told_at_once(folder: Path) -> None:
    """on_down = "fail": each is tried once and told."""
    with hold_port() as holder:
        port = holder.getsockname()[1]
        with GateProcess(folder, one_upstream(f"http://127.0.0.1:{port}", on_down="fail")) as gate:
            async with Hands(port) as hands:
                running = await gate.ask("m")
                await (await hands.turn()).begin()
                await running.until("content_block_start")
                clients = [(await gate.ask("m", stream=stream), stream) for stream in (True, False) * 10]
                await gate.wait_waiting("a", 20)
            for client, stream in clients:
                if stream:
                    assert b"UPSTREAM_DOWN" in (await client.frames())[-1]
                else:
                    head = await client.head()
                    assert (head.status, head.headers["llmgate-code"]) == (503, "UPSTREAM_DOWN")
            await gate.wait(gate.is_idle)
            assert gate.upstream("a")["failed"] == 21
            used = Figures(gate).processor_seconds
            await asyncio.sleep(2)
            assert Figures(gate).processor_seconds - used < 0.4, "something goes round and round"


@linux_only
async def test_f33_twenty_who_wait_for_a_server_that_is_gone_are_held_and_served(folder: Path) -> None:
    """on_down = "hold", which is the default: they are told, and are served in their order once it is back."""
    with hold_port() as holder:
        port = holder.getsockname()[1]
        with GateProcess(folder, one_upstream(f"http://127.0.0.1:{port}")) as gate:
            clients = []
            for number in range(20):
                clients.append(await gate.ask("m", number=number))
                await gate.wait_waiting("a", number + 1)
            for client in clients:  # the first one too, which found that out
                assert data_of(await client.frame())["state"] == "upstream_down"
            used = Figures(gate).processor_seconds
            await asyncio.sleep(2)
            assert Figures(gate).processor_seconds - used < 0.4, "something goes round and round"
            async with Hands(port) as hands:
                for number, client in enumerate(clients):
                    turn = await hands.turn()
                    assert turn.fields["number"] == number
                    await turn.complete()
                    assert (await client.frames())[-1].startswith(b"event: message_stop")
                assert hands.untaken == 0


async def test_f36_a_server_that_loads_its_model_is_waited_for(folder: Path) -> None:
    """Whom it sent away with its 503 is the first that it gets once it is ready."""
    loading = b'{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}'
    async with Hands() as hands:
        with GateProcess(folder, one_upstream(hands.url)) as gate:
            clients = []
            for number, stream in enumerate((True, False, True)):
                clients.append(await gate.ask("m", number=number, stream=stream))
                await gate.wait_waiting("a", number)
            turn = await hands.turn()
            await turn.answer(503, loading)
            assert turn.fields["number"] == 0
            for number, client in enumerate(clients):
                turn = await hands.turn()
                assert turn.fields["number"] == number
                await turn.complete()
                assert (await client.head()).status == 200
                assert b"error" not in await client.body()
            await gate.wait(gate.is_idle)
            assert [request["outcome"] for request in gate.requests("done")] == ["completed"] * 3


# ---- several servers behind one queue


@contextlib.contextmanager
def two_ports() -> Iterator[list[int]]:
    with hold_port() as left, hold_port() as right:
        yield [left.getsockname()[1], right.getsockname()[1]]


def two_servers(ports: list[int], **upstream: Any) -> dict[str, Any]:
    endpoints = [{"url": f"http://127.0.0.1:{port}", "max_concurrent": 2} for port in ports]
    return {"upstreams": {"a": {"endpoints": endpoints, "models": ["m"], "release_timeout": 0} | upstream}}


async def test_the_least_busy_of_two_servers_takes_the_next(folder: Path) -> None:
    with two_ports() as ports:
        async with Hands(ports[0]) as left, Hands(ports[1]) as right:
            with GateProcess(folder, two_servers(ports)) as gate:
                clients, turns = [], []
                for hands in (left, right, left, right):
                    clients.append(await gate.ask("m"))
                    turns.append(await hands.turn())
                waiting = await gate.ask("m")
                await waiting.frame()
                assert (gate.upstream("a")["running"], gate.upstream("a")["waiting"]) == (4, 1)
                await turns[1].complete()
                await (await right.turn()).complete()
                assert (await waiting.frames())[-1].startswith(b"event: message_stop")
                for turn in (turns[0], turns[2], turns[3]):
                    await turn.complete()
                assert [await client.body() for client in clients] == [ANSWER] * 4


async def test_a_session_stays_where_it_was_while_there_is_room(folder: Path) -> None:
    with two_ports() as ports:
        async with Hands(ports[0]) as left, Hands(ports[1]) as right:
            with GateProcess(folder, two_servers(ports)) as gate:

                async def ask(session: str) -> Client:
                    return await gate.ask("m", headers={"llmgate-session": session})

                await ask("other")
                first = await left.turn()
                await ask("ours")
                await (await right.turn()).complete()
                await first.complete()
                await gate.wait(gate.is_idle)
                for _ in range(3):
                    await ask("ours")
                    await (await right.turn()).complete()
                    await gate.wait(gate.is_idle)
                full = []
                for _ in range(2):
                    await ask("ours")
                    full.append(await right.turn())
                await ask("ours")
                full.append(await left.turn())
                for turn in full:
                    await turn.complete()
                await gate.wait(gate.is_idle)


async def test_one_of_two_servers_dies_and_its_waiters_go_to_the_other(folder: Path) -> None:
    """And when it is back it is used again."""
    with two_ports() as ports:
        async with Hands(ports[0]) as left, contextlib.AsyncExitStack() as there:
            right = await there.enter_async_context(Hands(ports[1]))
            with GateProcess(folder, two_servers(ports)) as gate:
                async with there:
                    clients, turns = [], []
                    for hands in (left, right, left, right):
                        clients.append(await gate.ask("m"))
                        turns.append(await hands.turn())
                    for turn in turns:
                        await turn.begin()
                    waiting = [await gate.ask("m", number=number) for number in range(3)]
                    await gate.wait_waiting("a", 3)
                for client in clients[1::2]:
                    assert name_of((await client.frames())[-1]) == "error"
                assert gate.upstream("a")["waiting"] == 3
                for number, client in enumerate(waiting):
                    await turns[0].end(STOP)
                    turns[0] = await left.turn()
                    assert turns[0].fields["number"] == number
                    await turns[0].begin()
                    await client.until("content_block_start")

                last = await gate.ask("m", number=3)
                await last.frame()
                async with Hands(ports[1]) as right:
                    turn = await right.turn()
                    assert turn.fields["number"] == 3
                    await turn.complete()
                    assert (await last.frames())[-1].startswith(b"event: message_stop")
                    for turn in (turns[0], turns[2]):
                        await turn.end(STOP)
                    await gate.wait(gate.is_idle)
                outcomes = sorted(request["outcome"] for request in gate.requests("done"))
                assert outcomes == ["completed"] * 6 + ["upstream_error"] * 2


# ---- the bytes of a stream


def wire_of(stream: bytes) -> bytes:
    """Head and body, in chunks of no meaning."""
    pieces = [stream[start : start + 71] for start in range(0, len(stream), 71)]
    return STREAM_HEAD + b"".join(map(chunk, pieces)) + b"0\r\n\r\n"


async def pass_through(gate: GateProcess, hands: Hands, path: str, *pieces: bytes) -> bytes:
    client = await gate.ask("one", path=path)
    turn = await hands.turn()
    sending = asyncio.ensure_future(turn.connection.send(*pieces))
    body = await client.body()
    await sending
    return body


SPOKEN = pytest.mark.parametrize(("path", "name"), [(MESSAGES, "messages"), (CHAT, "chat")])


@SPOKEN
async def test_f41_a_stream_in_segments_of_one_byte_is_passed_on_unchanged(
    gate: GateProcess, hands: Hands, path: str, name: str
) -> None:
    stream = (RECORDED / f"{name}.sse").read_bytes()
    wire = wire_of(stream)
    assert await pass_through(gate, hands, path, *(wire[at : at + 1] for at in range(len(wire)))) == stream


@SPOKEN
@pytest.mark.parametrize("step", [61, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
async def test_f41_a_stream_in_two_segments_is_passed_on_unchanged(
    gate: GateProcess, hands: Hands, path: str, name: str, step: int
) -> None:
    stream = (RECORDED / f"{name}.sse").read_bytes()
    wire = wire_of(stream)
    for at in range(1, len(wire), step):
        assert await pass_through(gate, hands, path, wire[:at], wire[at:]) == stream, at


def with_ends(stream: bytes, end: bytes) -> bytes:
    return stream.replace(b"\n", end)


STRANGE = {
    "CRLF": lambda stream: with_ends(stream, b"\r\n"),
    "CR": lambda stream: with_ends(stream, b"\r"),
    "mixed": lambda stream: with_ends(stream[: len(stream) // 2], b"\r\n") + stream[len(stream) // 2 :],
    "a byte order mark": lambda stream: b"\xef\xbb\xbf" + stream,
    "comments in events": lambda stream: b": hello\n" + stream.replace(b"\ndata: ", b"\n:between\ndata: "),
    "no space": lambda stream: stream.replace(b"data: ", b"data:"),
    "data of many lines": lambda stream: stream.replace(b'data: {"type"', b'data: {\ndata: "type"'),
    "id and retry": lambda stream: b"retry: 100\n\n" + stream.replace(b"\ndata: ", b"\nid: 7\nretry: 5\ndata: "),
}


@pytest.mark.parametrize("change", STRANGE.values(), ids=STRANGE.keys())
@pytest.mark.parametrize(("path", "stream"), [(MESSAGES, ANSWER), (CHAT, CHAT_ANSWER)], ids=["messages", "chat"])
async def test_f42_what_the_event_stream_format_allows_is_passed_on_unchanged(
    gate: GateProcess, hands: Hands, path: str, stream: bytes, change: Any
) -> None:
    """And what llmgate reads in it is read: the request is completed, no error is put behind it."""
    sent = change(stream)
    assert await pass_through(gate, hands, path, STREAM_HEAD + chunk(sent), b"0\r\n\r\n") == sent
    await gate.wait(gate.is_idle)
    done = gate.requests("done")[0]
    assert done["outcome"] == "completed"
    if path == MESSAGES:
        assert done["output_tokens"] == 2, "the usage in it is read"


async def test_f42_comments_between_events_are_swallowed(gate: GateProcess, hands: Hands) -> None:
    """Clients break on a blank line that ends no event; llmgate gives signs of life of its own."""
    sent = b": hello\n\n" + ANSWER.replace(b"\n\n", b"\n\n:\n\n: between\n\n")
    assert await pass_through(gate, hands, MESSAGES, STREAM_HEAD + chunk(sent), b"0\r\n\r\n") == ANSWER


# ---- the framing of an answer


CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("size", [1, 7, 8_000_000])
async def test_f45_chunks_of_any_kind_are_read(gate: GateProcess, hands: Hands, size: int) -> None:
    """Extensions, zeros in front of a size, trailers; chunks of one byte and one of 8 MB."""
    text = delta("x" * 8_000_000) if size > 100 else delta("Hello")
    stream = START + text + STOP
    pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
    chunks = b"".join(b'000%x;a=b;c="d"\r\n%b\r\n' % (len(piece), piece) for piece in pieces)
    client = await gate.ask("one")
    turn = await hands.turn()
    sending = asyncio.ensure_future(turn.connection.send(STREAM_HEAD + chunks + b"0;x\r\nx-trailer: 1\r\n\r\n"))
    assert hashlib.sha256(await client.body()).digest() == hashlib.sha256(stream).digest()
    await sending
    await gate.wait(gate.is_idle)
    assert gate.requests("done")[0]["outcome"] == "completed"


BROKEN = {
    "too short": b"content-length: 1\r\n\r\n{}",
    "too long": b"content-length: 100\r\n\r\n{}",
    "two lengths": b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}",
    "length and chunks": b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "no number": b"content-length: two\r\n\r\n{}",
    "no chunk": b"transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n",
}


@pytest.mark.parametrize("framing", BROKEN.values(), ids=BROKEN.keys())
async def test_f46_broken_framing_is_an_error_and_its_connection_is_never_used_again(
    gate: GateProcess, hands: Hands, framing: bytes
) -> None:
    client = await gate.ask("one", stream=False)
    turn = await hands.turn()
    await turn.connection.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n" + framing)
    if framing == BROKEN["too long"]:
        turn.connection.close()
    assert ((await client.head()).status, (await client.head()).headers["llmgate-code"]) == (502, "UPSTREAM_ERROR")
    await assert_dropped(gate, hands, turn)


async def test_f46_what_comes_behind_an_answer_is_no_answer_to_the_next_request(
    gate: GateProcess, hands: Hands
) -> None:
    """Together with the answer it makes that one an error; later it finds a connection that is not used again."""
    more = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
    client = await gate.ask("one", stream=False)
    turn = await hands.turn()
    await turn.connection.send(more + more)
    assert (await client.head()).status == 502
    await assert_dropped(gate, hands, turn)

    client = await gate.ask("one", stream=False)
    turn = await hands.turn()
    await turn.connection.send(more)
    assert await client.body() == b"{}"
    await turn.connection.send(more)
    await assert_dropped(gate, hands, turn)


async def assert_dropped(gate: GateProcess, hands: Hands, broken: Turn) -> None:
    await broken.wait_closed()
    await gate.wait(gate.is_idle)
    client = await gate.ask("one")
    turn = await hands.turn()
    assert turn.connection is not broken.connection
    await turn.complete()
    assert await client.body() == ANSWER


# ---- what all of this costs


@linux_only
async def test_f16_clients_that_read_nothing_of_a_large_answer_cost_next_to_nothing(folder: Path) -> None:
    """20 of them with 4 KB for 20 MB: the server is slowed down, and they are cut in their time."""
    async with Hands() as hands:
        settings = one_upstream(hands.url, max_concurrent=20) | {"server": {"client_stall_timeout": "2s"}}
        with GateProcess(folder, settings) as gate:
            await gate.wait(lambda: " speaks Messages" in gate.log)
            figures = Figures(gate)
            before = figures.memory
            turns = []
            for _ in range(20):
                client = await Client.connect(gate.port, receive_buffer=4096)
                client.post(MESSAGES, request_body("m"))
                turns.append(await hands.turn())
            sent = await asyncio.gather(*map(flood, turns))
            assert max(sent) < 20 * MIB, "the server was never slowed down"
            assert figures.most_memory - before < 20 * MIB
            await gate.wait(gate.is_idle)
            assert [request["outcome"] for request in gate.requests("done")] == ["client_stalled"] * 20


async def flood(turn: Turn) -> int:
    """Sends 20 MB or until it is cut; how much the kernel took."""
    await turn.begin()
    piece, sent = delta("x" * 65_000), 0
    with contextlib.suppress(ConnectionError):
        while sent < 20 * MIB:
            await turn.say(piece)
            sent += len(piece)
    return sent


@pytest.mark.parametrize(
    ("reads", "pause", "stall"), [(100, 0.03, "1s"), pytest.param(60, 1.0, "10s", marks=pytest.mark.slow)]
)
async def test_f17_a_client_that_reads_slowly_is_never_cut(folder: Path, reads: int, pause: float, stall: str) -> None:
    """1 KB at a time of 24 MB, for longer than the stall timeout: the kernel's buffers are full all the time."""
    stream = START + delta("x" * 60_000) * 400 + STOP
    async with Hands() as hands:
        settings = one_upstream(hands.url) | {"server": {"client_stall_timeout": stall}}
        with GateProcess(folder, settings) as gate, socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(slow, ("127.0.0.1", gate.port))
            await loop.sock_sendall(slow, post(MESSAGES, request_body("m"), {"connection": "close"}))
            turn = await hands.turn()
            sending = asyncio.ensure_future(turn.connection.send(STREAM_HEAD + chunk(stream), b"0\r\n\r\n"))
            waiting = await gate.ask("m")
            assert data_of(await waiting.frame())["position"] == 1
            got = bytearray()
            for _ in range(reads):
                got += await loop.sock_recv(slow, 1024)
                await asyncio.sleep(pause)
            assert (gate.upstream("a")["running"], gate.upstream("a")["waiting"]) == (1, 1)
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * MIB)
            while piece := await loop.sock_recv(slow, MIB):
                got += piece
            await sending
            await (await hands.turn()).complete()
            assert (await waiting.frames())[-1].startswith(b"event: message_stop")
    assert unchunked(bytes(got)) == stream


def unchunked(answer: bytes) -> bytes:
    """The body of a whole answer in chunks."""
    rest, body = answer.partition(b"\r\n\r\n")[2], []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        body.append(rest[:length])
        rest = rest[length + 2 :]
    return b"".join(body)


@linux_only
@pytest.mark.parametrize("mebibytes", [48, pytest.param(1024, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
async def test_f49_an_endless_event_is_passed_on_in_little_memory(folder: Path, mebibytes: int) -> None:
    """No line of it ends; when the server gives up nothing of it looks complete."""
    async with Hands() as hands:
        with GateProcess(folder, one_upstream(hands.url)) as gate:
            await gate.wait(lambda: " speaks Messages" in gate.log)
            before = Figures(gate).memory
            reader, writer = await asyncio.open_connection("127.0.0.1", gate.port)
            writer.write(post(MESSAGES, request_body("m")))
            turn = await hands.turn()
            await turn.begin(b"data: ")
            sending = asyncio.ensure_future(say_often(turn, mebibytes))
            got, end = 0, b""
            while piece := await reader.read(MIB):
                got += len(piece)
                end = (end + piece)[-5:]
            await sending
            assert got > mebibytes * MIB
            assert end != b"0\r\n\r\n"
            assert Figures(gate).most_memory - before < 24 * MIB
            await gate.wait(gate.is_idle)
            assert gate.requests("done")[0]["outcome"] == "upstream_error"
            writer.close()


async def say_often(turn: Turn, mebibytes: int) -> None:
    for _ in range(mebibytes):
        await turn.say(b"x" * MIB)
    turn.connection.close()


@linux_only
async def test_f49_a_whole_answer_beyond_all_bounds_is_an_error(folder: Path) -> None:
    """It is held whole, up to 64 MiB; then the connection to the server is closed."""
    async with Hands() as hands:
        with GateProcess(folder, one_upstream(hands.url)) as gate:
            await gate.wait(lambda: " speaks Messages" in gate.log)
            before = Figures(gate).memory
            client = await gate.ask("m", stream=False)
            turn = await hands.turn()
            await turn.connection.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n[")
            with contextlib.suppress(ConnectionError):
                for _ in range(1024):
                    await turn.connection.send(b" " * MIB)
            assert (await client.head()).status == 502
            assert "too long" in (await client.json())["error"]["message"]
            await turn.wait_closed()
            assert Figures(gate).most_memory - before < 200 * MIB
            await gate.wait(gate.is_idle)
            await gate.ask("m", stream=False)
            await (await hands.turn()).answer(body=WHOLE)
            await gate.wait(gate.is_idle)
