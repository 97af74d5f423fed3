"""On the path of a daemon under test: at SIGUSR2 it writes what its tasks do, a line each, into a file."""

import asyncio
import os
import signal
from pathlib import Path

_FILE = Path(os.environ["LLMGATE_TEST_TASKS"])


def _write(*_: object) -> None:
    told = "".join(f"{task.get_coro().__qualname__}\n" for task in asyncio.all_tasks())  # type: ignore[union-attr]
    part = _FILE.with_suffix(".part")
    part.write_text(told)
    part.replace(_FILE)


signal.signal(signal.SIGUSR2, _write)
