"""How an answer is handed on: order, holding, back-pressure, clocks, closing."""

import asyncio

import pytest
from puppet import deaf_port, turn
from recorder import CHUNKED, OK, Recorder, ask, fetch

from llmgate.core.work import Look, Work
from llmgate.errors import UpstreamDown, UpstreamFailed, UpstreamTimeout
from llmgate.upstreams.answer import Done, Timeouts
from llmgate.upstreams.deadlines import LOOK_SECONDS
from llmgate.upstreams.pulse import Pulse
from llmgate.upstreams.wire import HOLD_BYTES, WireAnswer

SOON = 0.03


class TestOrder:
    async def test_whoever_waits_for_the_server_runs_between_the_last_piece_and_the_end(self, start_puppet, connect_to):
        async def script(connection):
            while True:
                await connection.read_request()
                await connection.send(CHUNKED + b"1\r\na\r\n", b"1\r\nz\r\n0\r\n\r\n")

        transport = connect_to((await start_puppet(script)).url)
        recorder = Recorder()
        free = asyncio.get_running_loop().create_future()
        idle_when_told = []

        def on_done(done, error):
            recorder.on_done(done, error)
            idle_when_told.append(len(transport._idle))
            free.set_result(None)

        async def next_one():
            await free
            recorder.story.append("next one runs")
            await fetch(transport, Recorder())

        next_task = asyncio.get_running_loop().create_task(next_one())
        answer = await transport.open(b"POST", b"/", [], b"", Timeouts(), on_done)
        answer.start(recorder)
        await recorder.wait_ended()
        assert recorder.story == [b"a", b"z", "done:ended", "next one runs", "end"]
        assert answer.ended
        assert idle_when_told == [1]
        await next_task
        assert len(transport._links) == 1

    @pytest.mark.parametrize("ask_for_it", ["start", "read", "close"])
    async def test_an_answer_that_came_in_one_read_ends_when_somebody_asks(self, start_puppet, connect_to, ask_for_it):
        async def script(connection):
            await connection.read_request()
            await connection.send(OK)

        recorder = Recorder()
        answer = await ask(connect_to((await start_puppet(script)).url), recorder)
        assert recorder.story == []
        if ask_for_it == "start":
            answer.start(recorder)
        elif ask_for_it == "read":
            await answer.read(100)
        else:
            answer.close()
        assert "done:ended" in recorder.story
        await turn(5)
        answer.close()
        assert recorder.story.count("done:ended") == 1

    async def test_the_last_piece_is_known_as_such(self, start_puppet, connect_to):
        async def script(connection):
            await connection.read_request()
            await connection.send(CHUNKED + b"1\r\na\r\n", b"1\r\nz\r\n0\r\n\r\n")

        fed = []

        class Sink(Recorder):
            def feed(self, data):
                fed.append((data, answer.ended))

        recorder = Sink()
        answer = await ask(connect_to((await start_puppet(script)).url), recorder)
        answer.start(recorder)
        await recorder.wait_ended()
        assert fed == [(b"a", False), (b"z", True)]

    async def test_the_next_request_may_begin_inside_on_done(self, start_puppet, connect_to):
        async def script(connection):
            while True:
                request = await connection.read_request()
                await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n", request.body)

        puppet = await start_puppet(script)
        transport = connect_to(puppet.url)
        second = Recorder()
        opened = []

        def begin_next(done, error):
            coroutine = transport.open(b"POST", b"/", [], b"22", Timeouts(), second.on_done)
            opened.append((coroutine, coroutine.send(None)))  # as far as its first await: written already

        answer = await transport.open(b"POST", b"/", [], b"11", Timeouts(), begin_next)
        assert await answer.read(10) == b"11"
        opened[0][1]._asyncio_future_blocking = False
        await opened[0][1]
        with pytest.raises(StopIteration) as returned:
            opened[0][0].send(None)
        assert await returned.value.value.read(10) == b"22"
        assert second.story == ["done:ended"]
        assert len(puppet.connections) == 1

    async def test_done_comes_before_the_error(self, start_puppet, connect_to):
        async def script(connection):
            await connection.read_request()
            await connection.send(CHUNKED + b"1\r\na\r\n")
            connection.close()

        recorder = Recorder()
        answer = await ask(connect_to((await start_puppet(script)).url), recorder)
        answer.start(recorder)
        await recorder.wait_ended()
        assert recorder.story == [b"a", "done:lost", "error:UPSTREAM_ERROR"]


class TestStart:
    async def test_what_is_there_is_pushed_before_it_returns(self, start_puppet, connect_to):
        async def script(connection):
            await connection.read_request()
            await connection.send(CHUNKED + b"1\r\na\r\n", b"1\r\nb\r\n")

        answer = await ask(connect_to((await start_puppet(script)).url), Recorder())
        await turn(20)
        recorder = Recorder()
        answer.start(recorder)
        assert recorder.story == [b"ab"]

    async def test_the_end_follows_through_the_loop(self, start_puppet, connect_to):
        async def script(connection):
            await connection.read_request()
            await connection.send(OK)

        answer = await ask(connect_to((await start_puppet(script)).url), Recorder())
        await turn(20)
        recorder = Recorder()
        answer.start(recorder)
        assert recorder.story == [b"ok"]
        await turn(2)
        assert recorder.story == [b"ok", "end"]

    async def test_a_sink_that_closes_at_the_first_piece_hears_nothing_more(self, start_puppet, connect_to):
        async def script(connection):
            await connection.read_request()
            await connection.send(OK)

        answer = await ask(connect_to((await start_puppet(script)).url), Recorder())

        class Leaver(Recorder):
            def feed(self, data):
                super().feed(data)
                answer.close()

        leaver = Leaver()
        answer.start(leaver)
        await turn(20)
        assert leaver.story == [b"ok"]


class TestClose:
    async def test_a_running_answer_is_cut_when_its_socket_is_closed(self, start_puppet, connect_to):
        async def script(connection):
            await connection.read_request()
            await connection.send(CHUNKED + b"1\r\na\r\n")

        puppet = await start_puppet(script)
        transport = connect_to(puppet.url)
        recorder = Recorder()
        answer = await ask(transport, recorder)
        answer.start(recorder)
        answer.close()
        answer.close()
        assert recorder.dones == []
        await recorder.wait_done()
        assert not transport._links
        await puppet.wait_all_closed()
        assert recorder.story == [b"a", "done:cut"]
        answer.close()
        assert recorder.dones == [Done.CUT]

    async def test_an_ended_one_is_left_alone(self, start_puppet, connect_to):
        async def script(connection):
            while True:
                await connection.read_request()
                await connection.send(OK)

        puppet = await start_puppet(script)
        transport = connect_to(puppet.url)
        recorder = Recorder()
        answer = await ask(transport, recorder)
        answer.close()
        answer.pause()
        assert await fetch(transport, Recorder()) == b"ok"
        assert len(puppet.connections) == 1
        late = Recorder()
        answer.start(late)
        await turn(10)
        assert late.story == []
        assert recorder.dones == [Done.ENDED]

    async def test_the_end_is_not_pushed_after_a_close(self, start_puppet, connect_to):
        async def script(connection):
            await connection.read_request()
            await connection.send(CHUNKED + b"1\r\na\r\n", b"1\r\nz\r\n0\r\n\r\n")

        recorder = Recorder()
        transport = connect_to((await start_puppet(script)).url)
        answer = None

        def on_done(done, error):
            recorder.on_done(done, error)
            answer.close()

        answer = await transport.open(b"POST", b"/", [], b"", Timeouts(), on_done)
        answer.start(recorder)
        await recorder.wait_done()
        await turn(10)
        assert recorder.story == [b"a", b"z", "done:ended"]

    async def test_a_read_beyond_its_limit_cuts(self, start_puppet, connect_to):
        async def script(connection):
            await connection.read_request()
            await connection.send(CHUNKED + b"5\r\nabcde\r\n")

        puppet = await start_puppet(script)
        recorder = Recorder()
        answer = await ask(connect_to(puppet.url), recorder)
        with pytest.raises(UpstreamFailed, match="too long"):
            await answer.read(4)
        await recorder.wait_done()
        assert recorder.dones == [Done.CUT]
        await puppet.wait_all_closed()


class TestClocks:
    async def run_out(self, start_puppet, connect_to, timeouts, *sent):
        """A server that sends this and then nothing; what the reader is told."""

        async def script(connection):
            await connection.read_request()
            await connection.send(*sent)

        puppet = await start_puppet(script)
        recorder = Recorder()
        try:
            answer = await ask(connect_to(puppet.url), recorder, timeouts=timeouts)
            answer.start(recorder)
            await recorder.wait_ended()
        except UpstreamTimeout as error:
            recorder.error = error
        await puppet.wait_all_closed()
        assert isinstance(recorder.error, UpstreamTimeout)
        # on a very busy machine the clock may run out before there was a connection
        assert recorder.dones == [Done.CUT] or (recorder.dones == [Done.UNSENT] and not puppet.requests)
        return str(recorder.error)

    async def test_first_byte_without_a_head(self, start_puppet, connect_to):
        assert "begin" in await self.run_out(start_puppet, connect_to, Timeouts(first_byte=SOON), b"")

    async def test_first_byte_with_a_head(self, start_puppet, connect_to):
        assert "begin" in await self.run_out(start_puppet, connect_to, Timeouts(first_byte=SOON, idle=60), CHUNKED)

    async def test_idle(self, start_puppet, connect_to):
        timeouts = Timeouts(connect=60, first_byte=60, idle=SOON, total=60)
        assert "middle" in await self.run_out(start_puppet, connect_to, timeouts, CHUNKED + b"1\r\na\r\n")

    async def test_idle_is_not_fooled_by_bytes_that_are_no_body(self, start_puppet, connect_to):
        async def script(connection):
            await connection.read_request()
            await connection.send(CHUNKED + b"1\r\na\r\n5;")
            while True:
                await connection.send(b"x")
                await asyncio.sleep(SOON / 6)

        recorder = Recorder()
        answer = await ask(connect_to((await start_puppet(script)).url), recorder, timeouts=Timeouts(idle=SOON))
        answer.start(recorder)
        await recorder.wait_ended()
        assert recorder.told == ["done:cut", "error:UPSTREAM_TIMEOUT"]

    async def test_total_however_busy(self, start_puppet, connect_to):
        async def script(connection):
            await connection.read_request()
            await connection.send(CHUNKED)
            while True:
                await connection.send(b"1\r\na\r\n")
                await asyncio.sleep(SOON / 6)

        puppet = await start_puppet(script)
        with pytest.raises(UpstreamTimeout, match="finish"):
            await fetch(connect_to(puppet.url), Recorder(), timeouts=Timeouts(idle=9, total=SOON))
        await puppet.wait_all_closed()

    @pytest.mark.parametrize(
        ("timeouts", "error"),
        [
            (Timeouts(connect=SOON, first_byte=60, total=60), UpstreamDown),
            (Timeouts(connect=60, first_byte=SOON), UpstreamTimeout),
            (Timeouts(total=SOON), UpstreamTimeout),
        ],
    )
    async def test_connecting(self, connect_to, timeouts, error):
        recorder = Recorder()
        with deaf_port() as port, pytest.raises(error):
            await ask(connect_to(f"http://127.0.0.1:{port}"), recorder, timeouts=timeouts)
        assert recorder.told == ["done:unsent"]

    async def test_connecting_includes_tls(self, start_puppet, connect_to, tls):
        async def script(connection):
            await connection.wait_closed()

        puppet = await start_puppet(script)
        transport = connect_to(puppet.url.replace("http:", "https:"), ssl_context=tls.client)
        recorder = Recorder()
        with pytest.raises(UpstreamDown):
            await ask(transport, recorder, timeouts=Timeouts(connect=SOON))
        assert recorder.told == ["done:unsent"]
        await puppet.wait_all_closed()


class ManualLoop:
    """A clock that stands, and timers that go off when it is moved."""

    def __init__(self):
        self.now, self.timers = 1000.0, []

    def time(self):
        return self.now

    def call_at(self, when, callback, *arguments):
        timer = ManualTimer(when, callback, arguments)
        self.timers.append(timer)
        return timer

    def call_soon(self, callback):
        callback()

    def pass_to(self, seconds):
        """To so many seconds after the beginning."""
        while due := [timer for timer in self.timers if timer.when <= 1000.0 + seconds and not timer.over]:
            timer = min(due, key=lambda timer: timer.when)
            self.now = timer.when
            timer.over = True
            timer.callback(*timer.arguments)
        self.now = 1000.0 + seconds

    @property
    def pending(self):
        return sum(not timer.over for timer in self.timers)


class ManualTimer:
    def __init__(self, when, callback, arguments):
        self.when, self.callback, self.arguments, self.over = when, callback, arguments, False

    def cancel(self):
        self.over = True


class FakeLink:
    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *arguments: self.calls.append((name, *arguments))

    @property
    def errors(self):
        return [call[1] for call in self.calls if call[0] == "cut"]


@pytest.fixture
def begun(monkeypatch):
    """`begun(timeouts)`: the loop, the link and the answer of a request that is on its way."""

    def begin(timeouts):
        loop, link = ManualLoop(), FakeLink()
        with monkeypatch.context() as patch:
            patch.setattr("asyncio.get_running_loop", lambda: loop)
            answer = WireAnswer(timeouts, lambda done, error: None)
        answer.begin(link)
        return loop, link, answer

    return begin


class Quiet:
    def feed(self, data):
        pass

    def end(self, error):
        pass


class TestTimer:
    def test_a_steady_stream_outlives_its_idle_limit(self, begun):
        loop, link, answer = begun(Timeouts(first_byte=60, idle=10))
        answer.start(Quiet())
        for second in range(5, 205, 5):
            loop.pass_to(second)
            answer.on_piece(b"a")
        assert link.errors == []
        loop.pass_to(209.9)
        assert link.errors == []
        loop.pass_to(210)
        assert len(link.errors) == 1

    def test_idle_stands_still_under_back_pressure(self, begun):
        loop, link, answer = begun(Timeouts(first_byte=60, idle=10))
        answer.start(Quiet())
        loop.pass_to(5)
        answer.on_piece(b"a")
        loop.pass_to(9)
        answer.pause()
        loop.pass_to(500)
        assert link.errors == []
        answer.resume()
        loop.pass_to(505.9)
        assert link.errors == []
        loop.pass_to(506)
        assert len(link.errors) == 1

    def test_it_stands_still_while_as_much_is_held_as_may_be(self, begun):
        loop, link, answer = begun(Timeouts(idle=10))
        answer.on_piece(bytes(HOLD_BYTES))
        assert ("pause",) in link.calls
        loop.pass_to(500)
        assert link.errors == []
        answer.start(Quiet())
        assert link.calls[-1] == ("resume",)
        loop.pass_to(510)
        assert len(link.errors) == 1

    def test_total_runs_through_back_pressure(self, begun):
        loop, link, answer = begun(Timeouts(idle=10, total=100))
        answer.pause()
        loop.pass_to(100)
        assert [type(error) for error in link.errors] == [UpstreamTimeout]

    def test_it_is_armed_anew_when_it_goes_off_not_for_every_piece(self, begun):
        loop, link, answer = begun(Timeouts(first_byte=60, idle=30, total=600))
        answer.start(Quiet())
        for hundredth in range(1, 1000):
            loop.pass_to(hundredth / 100)
            answer.on_piece(b"a")
        assert len(loop.timers) == 2, "one for the first byte, one for the earlier deadline of idle"
        assert loop.pending == 1
        answer.on_over(Done.ENDED, None)
        assert loop.pending == 0
        assert link.errors == []

    def test_none_is_left_after_a_close(self, begun):
        loop, link, answer = begun(Timeouts(first_byte=60))
        answer.close()
        assert loop.pending == 0
        assert link.errors == [None]


class TestPulse:
    """The server is asked what it does before a clock runs out that waits for it."""

    def test_it_is_asked_soon_and_when_the_clock_is_due(self, begun):
        pulse = Pulse(lambda: True, lambda: None)
        loop, link, _ = begun(Timeouts(first_byte=60, pulse=pulse))
        for second, read in ((1, 10), (60, 20), (120, 30)):
            loop.pass_to(second - 0.1)
            assert not pulse.is_wanted
            loop.pass_to(second)
            (asker,) = pulse.take()
            asker(Look(second, {0: Work(1, read, 0)}))
        loop.pass_to(180)
        (asker,) = pulse.take()
        assert link.errors == []
        asker(Look(180, {0: Work(1, 30, 0)}))
        assert [type(error) for error in link.errors] == [UpstreamTimeout]

    def test_while_nobody_tells_it_stands_for_a_moment_and_no_longer(self, begun):
        pulse = Pulse(lambda: True, lambda: None)
        loop, link, _ = begun(Timeouts(first_byte=60, pulse=pulse))
        loop.pass_to(1)
        pulse.take()[0](Look(1, {}))
        loop.pass_to(60 + LOOK_SECONDS - 0.1)
        assert link.errors == []
        loop.pass_to(60 + LOOK_SECONDS)
        assert len(link.errors) == 1

    def test_a_server_that_cannot_be_asked_is_late_at_once(self, begun):
        loop, link, _ = begun(Timeouts(first_byte=60, pulse=Pulse(lambda: False, lambda: None)))
        loop.pass_to(59.9)
        assert link.errors == []
        loop.pass_to(60)
        assert len(link.errors) == 1

    @pytest.mark.parametrize("closes", [True, False])
    def test_what_is_told_too_late_is_of_no_matter(self, begun, closes):
        pulse = Pulse(lambda: True, lambda: None)
        loop, link, answer = begun(Timeouts(first_byte=60, pulse=pulse))
        assert not pulse.is_idle
        loop.pass_to(1)
        (asker,) = pulse.take()
        if closes:
            answer.close()
        answer.on_over(Done.CUT if closes else Done.ENDED, None)
        assert pulse.is_idle
        asker(None)
        assert loop.pending == 0
        assert link.errors == ([None] if closes else [])
