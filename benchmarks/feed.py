"""What watchers of the feed cost the daemon: `python benchmarks/feed.py` prints the share of one processor.

10,000 wait at one upstream, and 200 events happen every second: as many come as get a slot and end. Beside the gate
and the ledger, which are there anyway, the same with 1 and with 5 watchers, who take every item out of their
mailboxes at once. The figure is processor time over the time that this traffic stands for.
"""

import asyncio
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from llmgate.config.load import Loaded
from llmgate.config.settings import Settings
from llmgate.core.caller import Caller
from llmgate.core.events import Event
from llmgate.roster import Roster
from llmgate.telemetry.feed import Feed, Watcher
from llmgate.telemetry.ledger import Ledger
from llmgate.views import Views

WAITING = 10_000
SLOTS = 8
SECONDS = 10
EVENTS_A_SECOND = 200
EVENTS_A_REQUEST = 3
"""It comes, it gets a slot, it ends."""
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
    while await watcher.wait_next(0) is not None:
        pass


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


def main() -> None:
    alone, one, five = (asyncio.run(measure(watchers)) for watchers in (0, 1, 5))
    print(f"gate, ledger, feed   {alone:6.2%} of a processor at {EVENTS_A_SECOND} events/s, {WAITING:,} waiting")
    print(f"the first watcher    {one - alone:6.2%} more")
    print(f"each other           {(five - one) / 4:6.2%} more")


if __name__ == "__main__":
    main()
