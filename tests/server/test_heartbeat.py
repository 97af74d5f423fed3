"""Signs of life when nothing else is sent: when they come, and that they end."""

import time

import pytest
from virtual_loop import StandstillError, run, this_loop

from llmgate.server.heartbeat import Heartbeat


class Stream:
    """What was written, and when, on the virtual clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float = 4.0) -> None:
        self.loop = this_loop()
        monkeypatch.setattr(time, "monotonic", self.loop.time)
        self.begun = self.last_write = self.loop.time()
        self.beats: list[float] = []
        self.heartbeat = Heartbeat(seconds, lambda: self.last_write, self.beat)

    def beat(self) -> None:
        self.beats.append(round(self.loop.time() - self.begun, 3))
        self.write()

    def write(self) -> None:
        self.last_write = self.loop.time()

    async def pass_time(self, seconds: float) -> None:
        ended = self.loop.create_future()
        self.loop.call_later(seconds, ended.set_result, None)
        await ended


def test_a_silent_stream_beats_at_its_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        stream = Stream(monkeypatch)
        stream.heartbeat.start()
        await stream.pass_time(17)
        assert stream.beats == [4, 8, 12, 16]
        stream.heartbeat.stop()

    run(main())


def test_whatever_is_written_puts_the_beat_off(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        stream = Stream(monkeypatch)
        stream.heartbeat.start()
        for when in (1.0, 3.0, 3.5, 9.0):
            stream.loop.call_later(when, stream.write)
        await stream.pass_time(18)
        assert stream.beats == [7.5, 13, 17]
        stream.heartbeat.stop()

    run(main())


def test_a_busy_stream_never_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        stream = Stream(monkeypatch)
        stream.heartbeat.start()
        for _ in range(40):
            await stream.pass_time(1)
            stream.write()
        assert stream.beats == []
        stream.heartbeat.stop()

    run(main())


def test_one_timer_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        stream = Stream(monkeypatch)
        stream.heartbeat.start()
        for _ in range(30):
            await stream.pass_time(0.7)
            stream.write()
            assert len(stream.loop.timers) == 1
        stream.heartbeat.stop()

    run(main())


def test_after_stop_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        stream = Stream(monkeypatch)
        stream.heartbeat.stop()
        stream.heartbeat.start()
        await stream.pass_time(5)
        stream.heartbeat.stop()
        stream.heartbeat.stop()
        assert (stream.beats, stream.loop.timers) == ([4], [])
        await stream.loop.create_future()

    with pytest.raises(StandstillError):
        run(main())


def test_stopped_by_its_own_beat_it_stays_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        stream = Stream(monkeypatch)
        heartbeat = Heartbeat(4.0, lambda: stream.last_write, lambda: heartbeat.stop())
        heartbeat.start()
        await stream.pass_time(5)
        assert stream.loop.timers == []

    run(main())


def test_a_timer_that_fires_a_little_early_beats_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops round: uvloop to a millisecond. Else it would fire again and again in the last one."""

    async def main() -> None:
        stream = Stream(monkeypatch)
        stream.last_write += 0.0009
        stream.heartbeat.start()
        await stream.pass_time(4.0)
        assert stream.beats == [4]
        stream.heartbeat.stop()

    run(main())
