"""Runs one coroutine without a task: at once as far as it does not wait, then from the callbacks of what it waits for.

A task costs a gateway twice: its making (and some kilobytes) for every request, and a turn of the loop for every chunk.
Sending a chunk, and listening for a client that leaves, need neither: nearly every `send` ends without waiting, and
`receive` waits for one future all along. Only coroutines that wait for plain asyncio futures and ask for no current
task may be driven: uvicorn's `send` and `receive` are such.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

Finished = Callable[[Any, Exception | None], None]


class Drive:
    """One coroutine on its way. `finished(result, error)` is called once, unless `stop` comes first."""

    __slots__ = ("_coroutine", "_finished", "_waits_for", "done")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], finished: Finished) -> None:
        self._coroutine = coroutine
        self._finished = finished
        self._waits_for: asyncio.Future[Any] | None = None
        self.done = False
        self._step()

    def _step(self, _: object = None) -> None:
        if self.done:
            return
        try:
            waits_for = self._coroutine.send(None)
        except StopIteration as stop:
            self._finish(stop.value, None)
        except asyncio.CancelledError:  # of what it waited for: nobody else can cancel it
            self._finish(None, ConnectionAbortedError("what it waited for was cancelled"))
        except Exception as error:
            self._finish(None, error)
        else:
            self._wait(waits_for)

    def _wait(self, waits_for: "asyncio.Future[Any] | None") -> None:
        if waits_for is None:  # a bare yield: go on in the next turn of the loop
            asyncio.get_running_loop().call_soon(self._step)
            return
        # The flag says that a future was awaited and not just yielded; whoever drives lowers it, as asyncio.Task does.
        waits_for._asyncio_future_blocking = False  # noqa: SLF001
        self._waits_for = waits_for
        waits_for.add_done_callback(self._step)

    def _finish(self, result: object, error: Exception | None) -> None:
        self.done = True
        self._waits_for = None
        self._finished(result, error)

    def stop(self) -> None:
        """Ends the coroutine where it stands; nobody is told. Nothing happens when it has ended."""
        if self.done:
            return
        self.done = True
        if self._waits_for is not None:
            self._waits_for.remove_done_callback(self._step)
            self._waits_for = None
        self._coroutine.close()
