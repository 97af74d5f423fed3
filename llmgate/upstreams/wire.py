"""The answer of one exchange over a Link: hands the body on, keeps the clocks, reports the end.

Invariants:
- `on_done` is called exactly once: at the end of the message, or when the link's socket is closed, or, for an exchange
  that never had a link, when it is given up.
- ENDED is reported right after the last piece was fed, and `end` follows through the loop: whoever waits for the server
  is woken before a sink that keeps its last piece back passes it on. By then the link no longer knows this answer and
  may carry the next one. Where nobody has asked for the body yet, ENDED waits until somebody does, or closes.
- No exception waits in a future: a future that nobody awaits any more would be logged.
"""

import asyncio
from typing import Protocol

from llmgate.core.lateness import REREAD_SECONDS
from llmgate.core.work import Look
from llmgate.errors import GateError, UpstreamDown
from llmgate.upstreams.answer import NO_TIMEOUTS, Collector, Done, OnDone, Sink, Timeouts
from llmgate.upstreams.deadlines import Deadlines, timeout_error
from llmgate.upstreams.pulse import Pulse

HOLD_BYTES = 64 * 1024
"""So much of a body is held before anybody asked for it; beyond it (and the read that crossed it) reading pauses."""


class Carrier(Protocol):
    """What an answer needs of its link."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def cut(self, error: GateError | None) -> None:
        """Close the socket at once; the answer is told (`on_over`) when it is closed."""
        ...


class WireAnswer:
    """See `llmgate.upstreams.answer.Answer`; the methods called on_… and `begin` are for the transport and the link."""

    __slots__ = (
        "_closed",
        "_deadlines",
        "_error",
        "_head",
        "_held",
        "_held_bytes",
        "_link",
        "_loop",
        "_on_done",
        "_over",
        "_paused",
        "_pulse",
        "_sink",
        "_timer",
        "_timer_at",
        "ended",
        "has_head",
        "headers",
        "status",
    )

    def __init__(self, timeouts: Timeouts, on_done: OnDone) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.has_head = False
        self._loop = asyncio.get_running_loop()
        self._deadlines = None if timeouts == NO_TIMEOUTS else Deadlines(timeouts, self._loop.time())
        self._pulse = timeouts.pulse
        self._on_done: OnDone | None = on_done
        self._link: Carrier | None = None
        self._head: asyncio.Future[None] | None = None
        self._sink: Sink | None = None
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._error: GateError | None = None
        self.ended = False
        self._over = False
        self._closed = False
        self._paused = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    # for the transport

    @property
    def deadlines(self) -> Deadlines | None:
        return self._deadlines

    def begin(self, link: Carrier) -> None:
        """The request is on its way on this link."""
        self._link = link
        if self._deadlines is not None:
            self._deadlines.connected()
            self._arm(self._deadlines)
            if self._pulse is not None:
                self._pulse.join(self._deadlines)

    async def wait_head(self) -> None:
        """Returns when the head is here; raises the GateError that came instead."""
        if not self._over and not self.has_head:
            self._head = self._loop.create_future()
            await self._head
        if not self.has_head:
            raise self._error or UpstreamDown("llmgate: the request was given up (UPSTREAM_DOWN)")

    def give_up(self, error: GateError | None = None) -> None:
        """Whoever opened this is gone, at whatever point it was."""
        if self._link is None and not self._over:
            self._over = self._closed = True
            self._report(Done.UNSENT, error)
        else:
            self.close()

    # for the link

    def on_head(self) -> None:
        """The head is complete and the rest of what came with it was read."""
        head, self._head = self._head, None
        if head is not None and not head.done():
            head.set_result(None)

    def on_piece(self, data: bytes) -> None:
        """A piece of the body that is not the last one."""
        if self._closed:
            return
        if self._deadlines is not None and self._deadlines.received(self._loop.time()):
            self._arm(self._deadlines)
        if self._sink is not None:
            self._sink.feed(data)
            return
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes >= HOLD_BYTES:
            self._set_reading()

    def on_over(self, done: Done, error: GateError | None, last: bytes = b"") -> None:
        """The exchange is over; the link has let go of this answer."""
        self._link = None
        self._over = True
        self._error = error
        self._stop_timer()
        if self._pulse is not None and self._deadlines is not None:
            self._pulse.leave(self._deadlines)
        if self._closed or done is not Done.ENDED:
            self._report(done, error)
        if self._closed:
            return
        self.ended = done is Done.ENDED
        if last:
            self._held.append(last)
        self.on_head()
        if self._sink is not None:
            self._push_rest(self._sink)

    # for the reader

    def start(self, sink: Sink) -> None:
        if self._closed:
            return
        self._sink = sink
        if self._over:
            self._push_rest(sink)
        else:
            self._push_held(sink)
            self._set_reading()

    def pause(self) -> None:
        self._paused = True
        self._set_reading()

    def resume(self) -> None:
        self._paused = False
        self._set_reading()

    def close(self, error: GateError | None = None) -> None:
        self._closed = True
        self._sink = None
        self._held.clear()
        self._stop_timer()
        if self.ended:
            self._report(Done.ENDED, error)
        if self._link is not None:
            self._link.cut(error)

    async def read(self, limit: int) -> bytes:
        return await Collector(self, limit).wait_body()

    # own

    def _report(self, done: Done, error: GateError | None = None) -> None:
        on_done, self._on_done = self._on_done, None
        if on_done is not None:
            on_done(done, error)

    def _push_held(self, sink: Sink) -> None:
        held, self._held, self._held_bytes = self._held, [], 0
        if held:
            sink.feed(held[0] if len(held) == 1 else b"".join(held))

    def _push_rest(self, sink: Sink) -> None:
        """The message is over and somebody takes it: the last piece now, the end in a later turn of the loop."""
        self._push_held(sink)
        if self.ended:
            self._report(Done.ENDED)
        self._loop.call_soon(self._finish)

    def _finish(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.end(self._error)

    def _set_reading(self) -> None:
        link = self._link
        if link is None or self._closed:
            return
        stopped = self._paused or self._held_bytes >= HOLD_BYTES
        if stopped:
            link.pause()
        else:
            link.resume()
        if self._deadlines is not None:
            self._suspend_clocks(self._deadlines, stopped=stopped)

    def _suspend_clocks(self, deadlines: Deadlines, *, stopped: bool) -> None:
        if stopped:
            deadlines.pause(self._loop.time())
        else:
            deadlines.resume(self._loop.time())
            self._arm(deadlines)

    def _arm(self, deadlines: Deadlines) -> None:
        """Lazily: a timer that fires before the deadline finds nothing expired and is armed again."""
        deadline = deadlines.next_deadline()
        if deadline is None or (self._timer is not None and self._timer_at <= deadline):
            return
        self._stop_timer()
        self._timer_at = deadline
        self._timer = self._loop.call_at(deadline, self._handle_timer, deadlines)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _handle_timer(self, deadlines: Deadlines) -> None:
        self._timer = None
        if self._pulse is not None and deadlines.wants_look(self._loop.time()):
            self._look(self._pulse, deadlines)
        else:
            self._judge(deadlines)

    def _judge(self, deadlines: Deadlines) -> None:
        now = self._loop.time()
        clock = deadlines.expired(now)
        if clock is None:
            self._arm(deadlines)
        elif deadlines.wants_reread(now):
            self._stop_timer()
            self._timer_at = now + REREAD_SECONDS
            self._timer = self._loop.call_at(self._timer_at, self._handle_timer, deadlines)
        elif self._link is not None:
            self._link.cut(timeout_error(clock))

    def _look(self, pulse: Pulse, deadlines: Deadlines) -> None:
        def told(look: Look | None) -> None:
            if not (self._over or self._closed):
                deadlines.end_look(look, pulse.heard(deadlines.look_at, deadlines), self._loop.time())
                self._judge(deadlines)

        if not pulse.tells:
            told(None)
            return
        deadlines.begin_look(self._loop.time())
        pulse.ask(told)
        self._arm(deadlines)
