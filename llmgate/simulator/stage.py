"""The demo's stage: its two simulated upstreams and its traffic, on a loop of their own in a thread.

The daemon keeps the main thread, its signals and its own loop, just as under `llmgate serve`.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Self

from llmgate.simulator.behaviour import Behaviour
from llmgate.simulator.server import Simulator
from llmgate.simulator.traffic import BUSY, IDLE, run_traffic

BUSY_SLOTS, BUSY_SECONDS, IDLE_SLOTS = 2, 3.0, 64
POLL_SECONDS = 0.05


class Stage:
    """`with Stage(...) as stage:` the upstreams listen as `stage.busy.url` and `stage.idle.url`.

    `opened()` is called in another thread every 50 ms until it says that the front door is open; then traffic goes to
    `traffic_url`, if there is one. Leaving the `with` cuts everything.
    """

    def __init__(self, opened: Callable[[], bool], traffic_url: str | None) -> None:
        self.busy = Simulator(Behaviour(slots=BUSY_SLOTS, hold=BUSY_SECONDS, tokens=48), models=[BUSY])
        self.idle = Simulator(Behaviour(slots=IDLE_SLOTS, tokens=40, tokens_per_second=20), models=[IDLE])
        self._opened = opened
        self._traffic_url = traffic_url
        self._thread = threading.Thread(target=self._main, name="demo", daemon=True)
        self._set = threading.Event()
        self._failure: OSError | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._set.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def _main(self) -> None:
        try:
            asyncio.run(self._perform())
        except OSError as error:
            self._failure = error
        finally:
            self._set.set()

    async def _perform(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        async with self.busy, self.idle:
            self._set.set()
            async with asyncio.TaskGroup() as group:
                traffic = group.create_task(self._traffic())
                await self._stopped.wait()
                traffic.cancel()

    async def _traffic(self) -> None:
        while not await asyncio.to_thread(self._opened):  # noqa: ASYNC110  another thread opens it, and tells nobody
            await asyncio.sleep(POLL_SECONDS)
        if self._traffic_url is not None:
            await run_traffic(self._traffic_url)
