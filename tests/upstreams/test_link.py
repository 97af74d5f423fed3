"""What a server may do to the framing of an answer, byte by byte."""

import asyncio
import socket
import tracemalloc

import pytest
from puppet import turn
from recorder import CHUNKED, OK, Recorder, ask, fetch

from llmgate.errors import UpstreamFailed
from llmgate.upstreams.answer import Done, Timeouts
from llmgate.upstreams.link import HEAD_LIMIT, JOIN_LIMIT, WRITE_STEP, Link
from llmgate.upstreams.wire import WireAnswer

SSE = b"".join(b'event: delta\ndata: {"n":%d}\n\n' % number for number in range(12))


def says(*pieces, close=False):
    """A script: these bytes to the first connection, a plain OK to every later one."""

    async def script(connection):
        await connection.read_request()
        await connection.send(*(pieces if connection.number == 0 else (OK,)))
        if close and connection.number == 0:
            connection.close()

    return script


async def tell(start_puppet, connect_to, *pieces, close=False):
    """One request to a server that says this; and that the connection is not used afterwards."""
    puppet = await start_puppet(says(*pieces, close=close))
    transport = connect_to(puppet.url)
    recorder = Recorder()
    try:
        answer = await ask(transport, recorder)
    except UpstreamFailed as error:
        recorder.error = error
    else:
        answer.start(recorder)
        await recorder.wait_ended()
    await puppet.wait_all_closed()
    assert await fetch(transport, Recorder()) == b"ok"
    assert len(puppet.connections) == 2
    assert bytes(puppet.connections[0].received).count(b"POST") == 1
    return recorder


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"hello\r\n", id="not HTTP"),
        pytest.param(b"HTTP/2.0 200 OK\r\ncontent-length: 2\r\n\r\nok", id="HTTP/2"),
        pytest.param(b"HTTP/1.1 099 ?\r\ncontent-length: 2\r\n\r\nok", id="status below 100"),
        pytest.param(b"HTTP/1.1 1000 ?\r\ncontent-length: 2\r\n\r\nok", id="status of four digits"),
        pytest.param(b"HTTP/1.1 101 Upgrade\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", id="101"),
        pytest.param(b"HTTP/1.1 101 Upgrade\r\n\r\n" + OK, id="101 without upgrade"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n", id="CL and TE"),
        pytest.param(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n", id="TE and CL"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nok", id="two CL"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 2, 2\r\n\r\nok", id="CL list"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\nok", id="CL with sign"),
        pytest.param(b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nok", id="TE gzip"),
        pytest.param(b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", id="TE gzip, chunked"),
        pytest.param(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, x\r\n\r\n0\r\n\r\n", id="TE chunked, x"),
        pytest.param(CHUNKED + b"zz\r\nok\r\n0\r\n\r\n", id="chunk size"),
        pytest.param(CHUNKED + b"-2\r\nok\r\n0\r\n\r\n", id="chunk sign"),
        pytest.param(CHUNKED + b"fffffffffffffffff\r\nok", id="chunk overflow"),
        pytest.param(CHUNKED + b"2\r\nokk\r\n0\r\n\r\n", id="chunk too long"),
        pytest.param(CHUNKED + b"2\nok\n0\n\n", id="chunk with LF"),
        pytest.param(b"HTTP/1.1 200 OK\ncontent-length: 2\n\nok", id="LF"),
        pytest.param(b"HTTP/1.1 200 OK\r\na: b\r\n c\r\ncontent-length: 2\r\n\r\nok", id="folded header"),
        pytest.param(OK + b"more", id="more than the length"),
        pytest.param(OK.replace(b"c", b"connection: close\r\nc", 1) + b"more", id="more than the length, closing"),
        pytest.param(OK + OK, id="two answers"),
        pytest.param(OK + b"HTTP/1.1 200 OK\r\n", id="one answer and a half"),
        pytest.param(CHUNKED + b"2\r\nok\r\n0\r\n\r\nmore", id="more than the last chunk"),
        pytest.param(b"HTTP/1.1 204 No\r\n\r\nmore", id="a body where none may be"),
    ],
)
@pytest.mark.parametrize("cut", [False, True])
async def test_bad_framing_is_a_failure_and_the_connection_is_dropped(start_puppet, connect_to, answer, cut):
    pieces = [answer[at : at + 1] for at in range(len(answer))] if cut else [answer]
    recorder = await tell(start_puppet, connect_to, *pieces)
    if cut and recorder.dones == [Done.ENDED]:
        # cut so, the message had ended before the rest came; then only the connection is dropped
        assert answer.startswith(OK) or b"close" in answer or b"204" in answer or b"\r\n0\r\n\r\nmore" in answer
        return
    assert isinstance(recorder.error, UpstreamFailed)
    assert recorder.dones == [Done.LOST]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"HTTP/1.1 200", id="half a status line"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n", id="half a head"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n", id="only a 1xx"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", id="a head with a length"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabcd", id="length too long"),
        pytest.param(CHUNKED, id="a head of chunks"),
        pytest.param(CHUNKED + b"2\r\nok\r\n", id="no last chunk"),
        pytest.param(CHUNKED + b"2\r\nok\r\n0\r\n", id="no end of trailers"),
    ],
)
async def test_an_answer_that_breaks_off_is_never_an_end(start_puppet, connect_to, answer):
    """F39, F46: with a length or chunks, the end of the connection is no end."""
    recorder = await tell(start_puppet, connect_to, answer, close=True)
    assert isinstance(recorder.error, UpstreamFailed)
    assert recorder.dones == [Done.LOST]
    assert "end" not in recorder.told


async def test_a_stream_cut_at_every_byte(start_puppet, connect_to):
    """F40: what came is pushed, then the error, wherever the server dies."""
    whole = CHUNKED + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in [SSE[:100], SSE[100:]]) + b"0\r\n\r\n"
    at = 0

    async def script(connection):
        await connection.read_request()
        await connection.send(whole[:at])
        connection.close()

    puppet = await start_puppet(script)
    transport = connect_to(puppet.url)
    for at in range(len(CHUNKED), len(whole)):  # noqa: B007 - the script reads it
        recorder = Recorder()
        answer = await ask(transport, recorder)
        answer.start(recorder)
        await recorder.wait_ended()
        assert recorder.told == ["done:lost", "error:UPSTREAM_ERROR"]
        assert SSE.startswith(recorder.body)
    assert recorder.body == SSE


async def test_a_reset_in_a_body_without_length_is_no_end(start_puppet, connect_to):
    async def script(connection):
        await connection.read_request()
        await connection.send(b"HTTP/1.1 200 OK\r\n\r\n", b"ab")
        await turn(5)
        connection.reset()

    recorder = Recorder()
    answer = await ask(connect_to((await start_puppet(script)).url), recorder)
    answer.start(recorder)
    await recorder.wait_ended()
    assert recorder.told == ["done:lost", "error:UPSTREAM_ERROR"]


async def test_a_body_until_the_end_of_the_connection(start_puppet, connect_to):
    recorder = await tell(start_puppet, connect_to, b"HTTP/1.1 200 OK\r\n\r\n", b"ab", b"cd", close=True)
    assert recorder.body == b"abcd"
    assert recorder.told == ["done:ended", "end"]


async def test_1xx_heads_are_skipped(start_puppet, connect_to):
    async def script(connection):
        while True:
            await connection.read_request()
            await connection.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: a\r\n", b"\r\n" + OK)

    puppet = await start_puppet(script)
    transport = connect_to(puppet.url)
    for _ in range(2):
        answer = await ask(transport, Recorder())
        assert (answer.status, answer.headers) == (200, [(b"content-length", b"2")])
        assert await answer.read(10) == b"ok"
    assert len(puppet.connections) == 1


@pytest.mark.parametrize("size", [1, 7, 8_000_000])
async def test_chunks_of_any_kind(start_puppet, connect_to, size):
    """F45: extensions, leading zeros, trailers, chunks of one byte and one of 8 MB."""
    body = SSE if size < 100 else bytes(size)
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    chunks = b"".join(b'000%x;a=b;c="d"\r\n%b\r\n' % (len(part), part) for part in parts)
    puppet = await start_puppet(says(CHUNKED, chunks, b"0;x\r\nx-trailer: 1\r\n\r\n"))
    transport = connect_to(puppet.url)
    answer = await ask(transport, Recorder())
    assert await answer.read(len(body)) == body
    assert answer.headers == [(b"transfer-encoding", b"chunked")]
    assert len(transport._idle) == 1


async def test_what_came_in_one_read_is_one_piece(start_puppet, connect_to):
    puppet = await start_puppet(says(CHUNKED, b"1\r\na\r\n2\r\nbc\r\n3\r\ndef\r\n", b"1\r\ng\r\n", b"0\r\n\r\n"))
    recorder = Recorder()
    answer = await ask(connect_to(puppet.url), recorder)
    answer.start(recorder)
    await recorder.wait_ended()
    assert recorder.story == [b"abcdef", b"g", "done:ended", "end"]


@pytest.mark.parametrize(
    ("opening", "forever"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nx: ", b"a" * 8000, id="header"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", b"a: b\r\n" * 1000, id="headers"),
        pytest.param(b"HTTP/1.1 200 ", b"a" * 8000, id="reason"),
        pytest.param(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 200, id="1xx"),
        pytest.param(CHUNKED + b"2\r\nok\r\n0\r\nx: ", b"a" * 8000, id="trailer"),
        pytest.param(CHUNKED + b"2;", b"a" * 8000, id="chunk extension"),
    ],
)
async def test_what_never_ends_is_bounded(start_puppet, connect_to, opening, forever):
    """F49: with no byte of the body in it, the parser would gather or skip it for ever."""

    async def script(connection):
        await connection.read_request()
        await connection.send(opening)
        while True:
            await connection.send(forever)

    puppet = await start_puppet(script)
    recorder = Recorder()
    with pytest.raises(UpstreamFailed):
        await fetch(connect_to(puppet.url), recorder)
    await recorder.wait_done()
    assert recorder.dones == [Done.LOST]
    await puppet.wait_all_closed()


@pytest.mark.parametrize(("size", "fine"), [(HEAD_LIMIT - 1000, True), (HEAD_LIMIT + 1000, False)])
async def test_a_long_head_in_one_read(start_puppet, connect_to, size, fine):
    head = b"HTTP/1.1 200 OK\r\n" + b"x: %b\r\n" % (b"a" * 990) * (size // 994) + b"content-length: 2\r\n\r\nok"
    puppet = await start_puppet(says(head))
    transport = connect_to(puppet.url)
    if fine:
        assert await fetch(transport, Recorder()) == b"ok"
    else:
        with pytest.raises(UpstreamFailed):
            await fetch(transport, Recorder())


async def test_an_endless_body_nobody_reads_stays_in_the_socket(start_puppet, connect_to):
    """F49: before `start` and while paused, reading stops and the server blocks."""
    blocked = asyncio.Event()

    async def script(connection):
        await connection.read_request()
        await connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
        while connection.is_open:
            connection.transport.write(bytes(1_000_000))
            if not connection._writable.is_set():
                blocked.set()
            await connection._writable.wait()
            await turn()

    puppet = await start_puppet(script)
    transport = connect_to(puppet.url)
    recorder = Recorder()
    answer = await ask(transport, recorder)
    await blocked.wait()
    await turn(300)
    assert answer._held_bytes <= 64 * 1024 + 256 * 1024
    assert puppet.connections[0].transport.get_write_buffer_size() > 0
    blocked.clear()
    answer.start(recorder)
    answer.pause()
    seen = len(recorder.body)
    await turn(300)
    assert len(recorder.body) == seen
    answer.resume()
    await puppet.wait(lambda: len(recorder.body) > seen + 5_000_000)
    answer.close()
    await recorder.wait_done()
    assert recorder.told == ["done:cut"]
    await puppet.wait_all_closed()


class Discard(Recorder):
    def feed(self, data):
        pass


async def pour(start_puppet, connect_to, size):
    block = bytes(1_000_000)

    async def script(connection):
        await connection.read_request()
        await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        for _ in range(size // len(block)):
            await connection.send(block)

    puppet = await start_puppet(script)
    recorder = Discard()
    answer = await ask(connect_to(puppet.url), recorder)
    tracemalloc.start()
    answer.start(recorder)
    while not recorder.ended.is_set():
        await puppet.wait(recorder.ended.is_set)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert recorder.told == ["done:ended", "end"]
    assert peak < 8_000_000


async def test_a_long_body_needs_no_memory(start_puppet, connect_to):
    await pour(start_puppet, connect_to, 64_000_000)


@pytest.mark.slow
async def test_a_body_of_a_gigabyte_needs_no_memory(start_puppet, connect_to, monkeypatch):
    monkeypatch.setattr("puppet.LIVENESS_SECONDS", 100)
    await pour(start_puppet, connect_to, 1_000_000_000)


class FakeSocketTransport:
    """Takes what is written until it is told to be full."""

    def get_extra_info(self, name):
        return self if name == "socket" else None

    def setsockopt(self, *option):
        self.options.append(option)

    family = socket.AF_INET

    def __init__(self, link, room):
        self.link, self.room, self.written, self.aborted = link, room, [], False
        self.options = []

    def write(self, data):
        self.written.append(data)
        self.room -= 1
        if self.room == 0:
            self.link.pause_writing()

    def is_closing(self):
        return self.aborted

    def abort(self):
        self.aborted = True


class FakeKeeper:
    def on_made(self, link):
        return True

    def on_lost(self, link):
        pass


async def test_a_large_body_is_written_in_slices_of_itself_as_the_socket_takes_them():
    link = Link(FakeKeeper())
    transport = FakeSocketTransport(link, 3)
    link.connection_made(transport)
    body = bytes(WRITE_STEP * 4 + 5)
    link.begin(WireAnswer(Timeouts(), Recorder().on_done), b"head", body, head_only=False)
    assert [len(data) for data in transport.written] == [4, WRITE_STEP, WRITE_STEP]
    link.resume_writing()
    assert [len(data) for data in transport.written[3:]] == [WRITE_STEP, WRITE_STEP, 5]
    assert all(data.obj is body for data in transport.written[1:])
    link.resume_writing()
    assert len(transport.written) == 6


async def test_a_small_body_goes_out_with_its_head():
    link = Link(FakeKeeper())
    transport = FakeSocketTransport(link, 9)
    link.connection_made(transport)
    link.begin(WireAnswer(Timeouts(), Recorder().on_done), b"head", bytes(JOIN_LIMIT), head_only=False)
    assert len(transport.written) == 1


async def test_a_link_that_is_not_wanted_closes_itself_when_it_is_made():
    link = Link(FakeKeeper())
    transport = FakeSocketTransport(link, 9)
    link.give_up()
    link.connection_made(transport)
    assert transport.aborted
    assert not link.is_open


async def test_a_host_that_vanishes_is_noticed_by_the_kernel(start_puppet, connect_to):
    async def script(connection):
        await connection.read_request()
        await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no")

    transport = connect_to((await start_puppet(script)).url)
    answer = await ask(transport, Recorder())
    (link,) = transport._links
    connection = link._transport.get_extra_info("socket")
    assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    answer.close()
