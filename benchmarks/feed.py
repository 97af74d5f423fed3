"""What watchers of the feed cost the daemon: `python benchmarks/feed.py` prints the share of one processor.

10,000 wait at one upstream, and 200 events happen every second: as many come as get a slot and end. Beside the gate
and the ledger, which are there anyway, the same with 1 and with 5 watchers, who take every item out of their
mailboxes at once. The figure is processor time over the time that this traffic stands for.

Then the same again as it is served: over HTTP on a Unix socket, to watchers in a process of their own, and in the time
that it stands for. What the watchers are told first, which is everything, is not counted.
"""

import asyncio
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from llmgate.config.load import Loaded
from llmgate.config.settings import Settings
from llmgate.core.caller import Caller
from llmgate.core.events import Event
from llmgate.roster import Roster
from llmgate.server.admin import AdminApp
from llmgate.server.admin_protocol import AdminProtocol
from llmgate.server.http_server import HttpServer
from llmgate.server.sockets import UnixSocket
from llmgate.telemetry.feed import Feed, Watcher
from llmgate.telemetry.ledger import Ledger
from llmgate.views import Views

WAITING = 10_000
SLOTS = 8
SECONDS = 10
EVENTS_A_SECOND = 200
EVENTS_A_REQUEST = 3
"""It comes, it gets a slot, it ends."""
WATCH = r"""
import selectors, socket, sys
ready, lacking = selectors.DefaultSelector(), set()
for _ in range(int(sys.argv[2])):
    watcher = socket.socket(socket.AF_UNIX)
    watcher.connect(sys.argv[1])
    watcher.sendall(b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
    ready.register(watcher, selectors.EVENT_READ)
    lacking.add(watcher)
while True:
    for key, _ in ready.select():
        data = key.fileobj.recv(1 << 20)
        if not data:
            sys.exit("cut off")
        if key.fileobj in lacking and data.endswith(b"\n\n\r\n"):
            lacking.remove(key.fileobj)
            if not lacking:
                print("all of them know everything", flush=True)
"""
UPSTREAM = {"url": "http://127.0.0.1:1", "max_concurrent": SLOTS, "release_timeout": 0}


class House:
    """The parts of a daemon that an event goes through."""

    def __init__(self) -> None:
        settings = Settings.model_validate({"upstreams": {"a": UPSTREAM, "b": UPSTREAM}})
        self.ledger = Ledger(2000)
        self.roster = Roster(Loaded(settings, None), self._on_event, lambda _: None)
        views = Views(self.roster, self.ledger)
        self.status = _Status(views)
        self.feed = Feed(self.ledger, status=self.status, upstream=views.upstream, history=2000)
        self.dice = random.Random(1)
        self.running: list = []
        self.waiting: list = []

    def _on_event(self, event: Event) -> None:
        self.feed.apply(event, self.ledger.apply(event))

    async def come(self, number: int) -> None:
        place = self.roster.admission.enter("a", Caller(id=f"req_{number:016x}", model="m", client="benchmark"))
        await place.__aenter__()
        (self.running if len(self.running) < SLOTS else self.waiting).append(place)

    def end_one(self) -> None:
        """The oldest ends, and the head of the line gets its slot."""
        self.running.pop(0).leave("completed")
        self.running.append(self.waiting.pop(0))


class _Status:
    """The whole state, as the feed asks for it once a second."""

    def __init__(self, views: Views) -> None:
        self._views = views

    def __call__(self):
        from llmgate.adminapi import Status

        return Status(
            version="0", pid=1, started_at="", uptime_ms=0, now_at="", now_ms=0, state="running", listen=[], config="",
            socket="", upstreams=self._views.upstreams(),
        )  # fmt: skip


async def take_all(watcher: Watcher) -> None:
    while watcher.waiting:
        await watcher.wait_next()


async def measure(watchers: int) -> float:
    house = House()
    for number in range(WAITING + SLOTS):
        await house.come(number)
    there = [house.feed.watch(lambda: None) for _ in range(watchers)]
    number = WAITING + SLOTS
    began = time.process_time()
    for _second in range(SECONDS):
        for _ in range(EVENTS_A_SECOND // EVENTS_A_REQUEST):
            number += 1
            await house.come(number)
            house.end_one()
            for watcher in there:
                await take_all(watcher)
    spent = time.process_time() - began
    house.feed.stop()
    house.roster.admission.stop()
    return spent / SECONDS


async def measure_served(watchers: int, seconds: float = SECONDS) -> float:
    """The share of a processor that all but the watchers' own process takes."""
    house = House()
    for number in range(WAITING + SLOTS):
        await house.come(number)
    async with served(house.feed, watchers):
        began, spent = time.monotonic(), time.process_time()
        requests = round(seconds * EVENTS_A_SECOND / EVENTS_A_REQUEST)
        for number in range(requests):
            await asyncio.sleep(began + number * EVENTS_A_REQUEST / EVENTS_A_SECOND - time.monotonic())
            await house.come(WAITING + SLOTS + number)
            house.end_one()
        spent = time.process_time() - spent
        assert house.feed.watchers == watchers, "one was cut off"
    house.feed.stop()
    house.roster.admission.stop()
    return spent / seconds


@asynccontextmanager
async def served(feed: Feed, watchers: int) -> AsyncIterator[None]:
    """So many watch it, and have been told all that there was."""
    with tempfile.TemporaryDirectory() as folder, UnixSocket(Path(folder) / "s", mode=0o600, private=True) as unix:
        server = HttpServer(AdminApp(None, feed), [unix.bound], protocol=AdminProtocol)
        await server.start()
        if watchers:
            words = [sys.executable, "-c", WATCH, str(unix.path), str(watchers)]
            process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
            assert await process.stdout.readline(), "they are not there"
        try:
            yield
        finally:
            if watchers:
                process.kill()
                await process.wait()
            await server.stop()


def run_served(watchers: int, seconds: float = SECONDS) -> float:
    """On the loop of the daemon."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(measure_served(watchers, seconds))


def main() -> None:
    alone, one, five = (asyncio.run(measure(watchers)) for watchers in (0, 1, 5))
    print(f"gate, ledger, feed   {alone:6.2%} of a processor at {EVENTS_A_SECOND} events/s, {WAITING:,} waiting")
    print(f"the first watcher    {one - alone:6.2%} more")
    print(f"each other           {(five - one) / 4:6.2%} more")
    alone, one, five = map(run_served, (0, 1, 5))
    print(f"served to nobody     {alone:6.2%} of a processor")
    print(f"the first watcher    {one - alone:6.2%} more")
    print(f"each other           {(five - one) / 4:6.2%} more")


if __name__ == "__main__":
    main()
