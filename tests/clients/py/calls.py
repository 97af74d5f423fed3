"""Makes the calls that a probe is told to make, all at once, and prints one JSON line a call.

What a call got is its text and the last it heard (`last`: an event's type, or the reason why the answer stopped), or
the error's class, its bases, its status and its message.

Each call has a thread of its own, but for coroutines, which share one loop: some libraries keep connections for the
next call in the same process, and a connection belongs to a loop.
"""

import asyncio
import faulthandler
import inspect
import json
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

Told = dict[str, Any]
Mode = Callable[[str, str], Any]
"""Takes the gate's root and a model; gives Told, or is a coroutine function that does."""

STUCK_SECONDS = 200.0
"""After so long stderr tells where each thread is: the stage gives up soon, if not all of them wait in the queue."""

PROMPT: Any = [{"role": "user", "content": "hi"}]


def make_calls(modes: Mapping[str, Mode]) -> None:
    """Those of the command line: URL MODE=MODEL..."""
    faulthandler.dump_traceback_later(STUCK_SECONDS)
    url, *words = sys.argv[1:]
    threads, coroutines = [], []
    for mode, model in (word.split("=", 1) for word in words):
        if inspect.iscoroutinefunction(modes[mode]):
            coroutines.append(_call_in_loop(modes[mode], mode, url, model))
        else:
            threads.append(threading.Thread(target=_call, args=(modes[mode], mode, url, model)))
    for thread in threads:
        thread.start()
    asyncio.run(_all(coroutines))
    for thread in threads:
        thread.join()


def _call(make: Mode, mode: str, url: str, model: str) -> None:
    try:
        told = make(url, model)
    except Exception as error:
        told = _told_of(error)
    _tell(mode, model, told)


async def _call_in_loop(make: Mode, mode: str, url: str, model: str) -> None:
    try:
        told = await make(url, model)
    except Exception as error:
        told = _told_of(error)
    _tell(mode, model, told)


async def _all(coroutines: list[Any]) -> None:
    await asyncio.gather(*coroutines)


def _told_of(error: Exception) -> Told:
    return {
        "error": type(error).__name__,
        "bases": [base.__name__ for base in type(error).__mro__],
        "status": getattr(error, "status_code", None),
        "message": str(error),
    }


def _tell(mode: str, model: str, told: Told) -> None:
    sys.stdout.write(json.dumps({"mode": mode, "model": model, **told}) + "\n")
    sys.stdout.flush()
