"""How fast `llmgate top` answers a key in a crowd: `python benchmarks/top.py [waiting] [events a second] [keys]`.

A scripted feed holds 10,000 waiters and tells 200 events a second: one leaves, one comes. Keys are posted one after
another, as the terminal's driver would; each figure is the time from there until the picture that answers it has been
handed to the terminal, in milliseconds; the last column is the median of the processor time that passed meanwhile,
which other programs do not disturb. Then the share of a processor that all of it took.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from textual.events import Key

from llmgate.adminapi import EventView, FeedItem, RequestDetail, Requests, RequestView, Status, UpstreamView
from llmgate.errors import AdminError
from llmgate.tui.app import TopApp

NAMES = ("reasoning", "qwen")
TOURS = {
    "overview": ("1", "jkjk"),
    "waiting": ("2", "jjjjkGgj"),
    "filtered": ("2/client-3\r", "jjGkkg"),
    "typing": ("2/", "client"),
    "detail": ("2\r", "w\x1b\rw"),
    "sorted": ("2ss", "jjGkkg"),
}
SPECIAL = {"\r": "enter", "\x1b": "escape"}


class Crowd:
    """A feed with so many waiters, of whom some leave and come all the time; and nothing to act on."""

    def __init__(self, waiting: int, rate: float) -> None:
        self.waiting = waiting
        self.rate = rate
        self.told = 0

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[AsyncIterator[FeedItem]]:
        yield self.items()

    async def items(self) -> AsyncIterator[FeedItem]:
        began = time.monotonic()
        yield self.snapshot()
        while True:
            self.told += 1
            pause = began + self.told / self.rate - time.monotonic()
            if pause > 0 or self.told % 20 == 0:
                await asyncio.sleep(max(pause, 0))
            yield self.event(self.told)

    def snapshot(self) -> FeedItem:
        status = Status(
            version="0", pid=1, started_at="", uptime_ms=0, now_at="2026-01-01T00:00:00+00:00", now_ms=now_ms(),
            state="running", listen=["127.0.0.1:8080"], config="", socket="/x", upstreams=[*map(self.upstream, NAMES)],
        )  # fmt: skip
        requests = [self.request(number) for number in range(self.waiting)]
        return FeedItem(type="snapshot", number=0, now_ms=now_ms(), status=status, requests=requests)

    def upstream(self, name: str) -> UpstreamView:
        return UpstreamView(
            name=name, state="full", url="http://127.0.0.1:1", max_concurrent=8, running=8,
            waiting=self.waiting // len(NAMES), served=self.told,
        )  # fmt: skip

    def request(self, number: int, state: str = "waiting") -> RequestView:
        return RequestView(
            id=f"q-{number:06x}", upstream=NAMES[number % 2], state=state, order=number, model="qwen2.5:3b-instruct",
            api="messages", path="/v1/messages", stream=True, client=f"client-{number % 7}", session=f"s-{number % 97}",
            arrived_ms=now_ms(), eta_ms=number * 100, ended_ms=now_ms() if state == "done" else None,
        )  # fmt: skip

    def event(self, number: int) -> FeedItem:
        """One comes at the end of the line, or the first leaves it."""
        pair = number // 2
        request = self.request(self.waiting + pair) if number % 2 else self.request(pair, "done")
        event = EventView(
            number=number, at="2026-01-01T00:00:00+00:00", now_ms=now_ms(), kind="queued", upstream=request.upstream,
            text="queued (depth 9)", request_id=request.id,
        )  # fmt: skip
        told = self.upstream(request.upstream)
        return FeedItem(type="event", number=number, now_ms=now_ms(), event=event, upstream=told, request=request)

    async def ended(self) -> Requests:
        return Requests(now_ms=now_ms(), requests=[])

    async def detail(self, request_id: str) -> RequestDetail:
        raise AdminError(f"no request {request_id}")


def now_ms() -> int:
    return round(time.monotonic() * 1000)


class Acting:
    """What the screen asks besides the feed."""

    def __init__(self, crowd: Crowd) -> None:
        self.ended = crowd.ended
        self.request = crowd.detail


async def answer(app: TopApp, key: str) -> tuple[float, float]:
    """Milliseconds until the picture after this key is with the terminal: of the clock, of the processor."""
    answered = asyncio.Event()
    press = app.board.press

    def pressed(name: str) -> None:
        press(name)
        app.board.call_after_refresh(answered.set)

    app.board.press = pressed  # type: ignore[method-assign]
    began, spent = time.perf_counter(), time.process_time()
    name = SPECIAL.get(key, key)
    app.post_message(Key(name, None if len(name) > 1 else name))
    await answered.wait()
    app.board.press = press  # type: ignore[method-assign]
    return (time.perf_counter() - began) * 1000, (time.process_time() - spent) * 1000


async def tour(app: TopApp, way: str, keys: str, many: int) -> list[tuple[float, float]]:
    for key in way:
        await answer(app, key)
    times = []
    for number in range(many):
        times.append(await answer(app, keys[number % len(keys)]))
        await asyncio.sleep(0.03)
    for key in "\x1b\x1b\x1b":
        await answer(app, key)
    return times


async def main(waiting: int, rate: float, many: int) -> None:
    crowd = Crowd(waiting, rate)
    app = TopApp(crowd, Acting(crowd))  # type: ignore[arg-type]
    async with app.run_test(size=(120, 40)) as pilot:
        while crowd.told == 0:
            await pilot.pause()
        began, spent, told = time.monotonic(), time.process_time(), crowd.told
        print(f"{waiting:,} waiting, {rate:g} events a second; milliseconds until a key is answered")
        print(f"{'':10}{'median':>8}{'p95':>8}{'worst':>8}{'CPU':>8}")
        for name, (way, keys) in TOURS.items():
            found = await tour(app, way, keys, many)
            times, costs = sorted(one[0] for one in found), sorted(one[1] for one in found)
            figures = (times[many // 2], times[many * 95 // 100], times[-1], costs[many // 2])
            print(f"{name:10}" + "".join(f"{figure:8.1f}" for figure in figures), flush=True)
        passed = time.monotonic() - began
        print(f"{(crowd.told - told) / passed:.0f} events a second were taken in")
        share, pressed = (time.process_time() - spent) / passed, len(TOURS) * many / passed
        print(f"{share:.0%} of a processor, with {pressed:.0f} keys a second")


if __name__ == "__main__":
    given = [float(text) for text in sys.argv[1:]]
    waiting_, rate_, many_ = [*given, *(10_000, 200, 40)[len(given) :]]
    asyncio.run(main(int(waiting_), rate_, int(many_)))
