"""The contract of a transport, kept by stock httpx."""

import asyncio

import pytest
from puppet import deaf_port, refusing_port, turn
from recorder import CHUNKED, OK, Recorder, ask, fetch

from llmgate.errors import UpstreamDown, UpstreamFailed, UpstreamTimeout
from llmgate.upstreams.answer import Done, Timeouts
from llmgate.upstreams.stock import StockTransport

SOON = 0.03


async def serve_ok(connection):
    await connection.read_request()
    await connection.send(OK)


@pytest.fixture
async def stock():
    """`stock(url)`: a StockTransport that is closed after the test."""
    made = []

    def make(url, **options):
        made.append(StockTransport(url, **options))
        return made[-1]

    yield make
    for transport in made:
        await transport.aclose()
        assert not transport._tasks


async def test_a_request_and_its_answer(start_puppet, stock):
    puppet = await start_puppet(serve_ok)
    recorder = Recorder()
    answer = await ask(stock(puppet.url), recorder, headers=[(b"X-A", b"b")], body=b'{"a":1}', target=b"/v1?beta=true")
    assert (answer.status, answer.headers) == (200, [(b"content-length", b"2")])
    assert await answer.read(10) == b"ok"
    (request,) = puppet.requests
    assert (request.line, request.body, request.header(b"x-a")) == (b"POST /v1?beta=true HTTP/1.1", b'{"a":1}', b"b")
    assert request.header(b"host") == b"127.0.0.1:%d" % puppet.port
    assert recorder.dones == [Done.ENDED]
    await puppet.wait_all_closed()


async def test_pieces_are_pushed_as_they_come(start_puppet, stock):
    more = asyncio.Event()

    async def script(connection):
        await connection.read_request()
        await connection.send(CHUNKED + b"1\r\na\r\n")
        await more.wait()
        await connection.send(b"1\r\nb\r\n0\r\n\r\n")

    puppet = await start_puppet(script)
    recorder = Recorder()
    answer = await ask(stock(puppet.url), recorder)
    answer.start(recorder)
    await puppet.wait(lambda: recorder.story == [b"a"])
    more.set()
    await recorder.wait_ended()
    assert recorder.story == [b"a", b"b", "done:ended", "end"]


async def test_a_paused_reader_gets_nothing(start_puppet, stock):
    async def script(connection):
        await connection.read_request()
        await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 30000000\r\n\r\n", bytes(30_000_000))

    puppet = await start_puppet(script)
    recorder = Recorder()
    answer = await ask(stock(puppet.url), recorder)
    answer.start(recorder)
    answer.pause()
    await turn(200)
    assert len(recorder.body) < 1_000_000
    answer.resume()
    await recorder.wait_ended()
    assert len(recorder.body) == 30_000_000


async def test_a_bad_header_is_refused_before_anything_is_sent(start_puppet, stock):
    puppet = await start_puppet(serve_ok)
    recorder = Recorder()
    with pytest.raises(ValueError, match="CR, LF or NUL"):
        await ask(stock(puppet.url), recorder, headers=[(b"a", b"b\nc: d")])
    assert recorder.told == ["done:unsent"]
    assert puppet.connections == []


async def test_refused(stock):
    recorder = Recorder()
    with refusing_port() as port, pytest.raises(UpstreamDown):
        await ask(stock(f"http://127.0.0.1:{port}"), recorder)
    assert recorder.told == ["done:unsent"]


@pytest.mark.parametrize(
    ("timeouts", "error"), [(Timeouts(connect=SOON), UpstreamDown), (Timeouts(total=SOON), UpstreamTimeout)]
)
async def test_a_connection_that_hangs(stock, timeouts, error):
    recorder = Recorder()
    with deaf_port() as port, pytest.raises(error):
        await ask(stock(f"http://127.0.0.1:{port}"), recorder, timeouts=timeouts)
    assert recorder.told == ["done:unsent"]


@pytest.mark.parametrize("sent", [b"", b"hello\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab"])
async def test_an_answer_that_breaks_off(start_puppet, stock, sent):
    async def script(connection):
        await connection.read_request()
        await connection.send(sent)
        connection.close()

    recorder = Recorder()
    with pytest.raises(UpstreamFailed):
        await fetch(stock((await start_puppet(script)).url), recorder)
    assert recorder.dones == [Done.LOST]


@pytest.mark.parametrize(
    ("sent", "timeouts"), [(CHUNKED, Timeouts(first_byte=SOON)), (CHUNKED + b"1\r\na\r\n", Timeouts(idle=SOON))]
)
async def test_a_clock_that_runs_out_cuts(start_puppet, stock, sent, timeouts):
    async def script(connection):
        await connection.read_request()
        await connection.send(sent)

    puppet = await start_puppet(script)
    recorder = Recorder()
    with pytest.raises(UpstreamTimeout):
        await fetch(stock(puppet.url), recorder, timeouts=timeouts)
    await puppet.wait_all_closed()
    # on a very busy machine the clock may run out before there was a connection
    assert recorder.dones == [Done.CUT] or (recorder.dones == [Done.UNSENT] and not puppet.requests)


async def test_idle_stands_still_until_somebody_reads(start_puppet, stock):
    async def script(connection):
        await connection.read_request()
        await connection.send(CHUNKED + b"1\r\na\r\n", b"0\r\n\r\n")

    recorder = Recorder()
    answer = await ask(stock((await start_puppet(script)).url), recorder, timeouts=Timeouts(idle=SOON))
    await asyncio.sleep(1.5 * SOON)
    assert recorder.dones == []
    assert await answer.read(10) == b"a"


async def test_the_end_of_an_empty_body_waits_for_a_reader_or_a_close(start_puppet, stock):
    async def script(connection):
        await connection.read_request()
        await connection.send(b"HTTP/1.1 204 No Content\r\n\r\n")

    transport = stock((await start_puppet(script)).url)
    for take in ("start", "close"):
        recorder = Recorder()
        answer = await ask(transport, recorder, timeouts=Timeouts(idle=SOON))
        await asyncio.sleep(1.5 * SOON)
        assert recorder.dones == []
        if take == "start":
            answer.start(recorder)
        else:
            answer.close()
        await recorder.wait_done()
        await turn(10)
        assert recorder.told == (["done:ended", "end"] if take == "start" else ["done:ended"])


async def test_an_exchange_that_is_given_up_before_its_first_step_is_unsent(start_puppet):
    puppet = await start_puppet(serve_ok)
    transport = StockTransport(puppet.url)
    recorder = Recorder()
    opening = transport.open(b"POST", b"/", [], b"", Timeouts(), recorder.on_done)
    opening.send(None)
    opening.close()
    await recorder.wait_done()
    assert recorder.dones == [Done.UNSENT]
    await transport.aclose()
    assert puppet.connections == []


async def test_a_closed_answer_is_cut_when_its_socket_is_closed(start_puppet, stock):
    async def script(connection):
        await connection.read_request()
        await connection.send(CHUNKED + b"1\r\na\r\n")

    puppet = await start_puppet(script)
    recorder = Recorder()
    answer = await ask(stock(puppet.url), recorder)
    answer.start(recorder)
    await puppet.wait(lambda: recorder.story == [b"a"])
    answer.close()
    answer.close()
    await recorder.wait_done()
    await puppet.wait_all_closed()
    assert recorder.story == [b"a", "done:cut"]


async def test_closing_the_transport_cuts_what_runs(start_puppet):
    async def script(connection):
        await connection.read_request()
        await connection.send(CHUNKED + b"1\r\na\r\n")

    puppet = await start_puppet(script)
    transport = StockTransport(puppet.url)
    recorder = Recorder()
    answer = await ask(transport, recorder)
    answer.start(recorder)
    await transport.aclose()
    await recorder.wait_ended()
    assert recorder.told == ["done:cut", "error:UPSTREAM_ERROR"]
    await puppet.wait_all_closed()
    later = Recorder()
    with pytest.raises(UpstreamDown):
        await ask(transport, later)
    assert later.told == ["done:unsent"]


async def test_tls(start_puppet, stock, tls):
    puppet = await start_puppet(serve_ok, ssl_context=tls.server)
    assert await fetch(stock(puppet.url, ssl_context=tls.client), Recorder()) == b"ok"
    with pytest.raises(UpstreamDown):
        await ask(stock(puppet.url), Recorder())


async def test_a_close_while_the_connection_is_being_closed_disturbs_nothing(start_puppet, stock, monkeypatch):
    closing, closed = asyncio.Event(), []

    async def slow_aclose(self):
        closing.set()
        await turn(20)
        closed.append(self)

    async def script(connection):
        await connection.read_request()
        await connection.send(CHUNKED + b"1\r\na\r\n")
        connection.close()

    monkeypatch.setattr("httpx.AsyncHTTPTransport.aclose", slow_aclose)
    recorder = Recorder()
    answer = await ask(stock((await start_puppet(script)).url), recorder)
    answer.start(recorder)
    await closing.wait()
    answer.close()
    answer.close()
    await recorder.wait_done()
    assert recorder.dones == [Done.LOST]
    assert len(closed) == 1
