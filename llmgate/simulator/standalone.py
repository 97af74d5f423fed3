"""The simulated server alone in its process, until a signal ends it."""

import asyncio
import signal
from collections.abc import Callable

from llmgate.simulator.server import Simulator


def run(server: Simulator, host: str, port: int, listening: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM; `listening` is called once clients may come. OSError when the port is not free."""
    asyncio.run(_serve(server, host, port, listening))


async def _serve(server: Simulator, host: str, port: int, listening: Callable[[], None]) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await server.start(host, port)
    listening()
    await stopped.wait()
    await server.stop()
