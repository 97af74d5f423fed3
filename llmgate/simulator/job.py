"""One model request inside a simulated server, from its slot to its last byte, driven by the loop's timer."""

import asyncio
from collections.abc import Callable, Iterator

from llmgate.simulator.behaviour import Behaviour
from llmgate.simulator.call import Call, Dialect
from llmgate.simulator.connection import Connection

Piece = tuple[float, bytes]


class Job:
    """Answers one call. `leave_slot` is called exactly once after `start`, before the last bytes go out."""

    def __init__(self, call: Call, dialect: Dialect, connection: Connection, *, breaks: bool) -> None:
        self.call = call
        self._dialect = dialect
        self._connection = connection
        self.breaks = breaks
        self._timer: asyncio.TimerHandle | None = None

    def start(self, behaviour: Behaviour, leave_slot: Callable[["Job"], None]) -> None:
        """Begin the answer: the caller has a slot for it."""
        self._leave_slot = leave_slot
        self._started = asyncio.get_running_loop().time()
        if self.call.stream:
            self._connection.open_stream(self._dialect.stream_type)
            self._pieces = self._stream(behaviour)
            self._connection.on_writable = self._go_on
            self._next: Piece | None = next(self._pieces)
            self._go_on()
        else:
            self._timer = self._at(behaviour.ends_at(self.call.tokens), self._whole)

    def cut(self) -> None:
        """The client is gone: send no more. The slot is the caller's to take."""
        if self._timer is not None:
            self._timer.cancel()

    def _at(self, seconds: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_at(self._started + seconds, callback)

    def _stream(self, behaviour: Behaviour) -> Iterator[Piece]:
        """Every piece of the stream but its tail, each with the second in which it is due; an empty one ends it."""
        if head := self._dialect.head(self.call):
            yield behaviour.prompt, head
        times = behaviour.token_times(self.call.tokens)
        for number, (due, word) in enumerate(zip(times, self.call.words, strict=True)):
            token = self._dialect.token(self.call, word)
            if self.breaks and number == self.call.tokens // 2:
                yield due, token[: len(token) // 2]
                yield due, b""
                return
            yield due, token
        yield behaviour.ends_at(self.call.tokens), b""

    def _go_on(self) -> None:
        """Send all that is due, as long as the client takes it; set the timer for the next piece."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = asyncio.get_running_loop().time() - self._started
        while self._next is not None and self._connection.writable:
            due, data = self._next
            if due > now:
                self._timer = self._at(due, self._go_on)
                return
            self._next = next(self._pieces, None)
            if data:
                self._connection.chunk(data)
            else:
                self._end()

    def _end(self) -> None:
        self._over()
        if self.breaks:
            self._connection.close()
            return
        self._connection.chunk(self._dialect.tail(self.call))
        self._connection.end_stream()

    def _whole(self) -> None:
        self._over()
        body = self._dialect.whole(self.call)
        if self.breaks:
            self._connection.respond(200, body, written=len(body) // 2)
            self._connection.close()
        else:
            self._connection.respond(200, body)

    def _over(self) -> None:
        """From here on the client may go: the answer is over and the slot is free."""
        self._connection.on_lost = None
        self._connection.on_writable = None
        self._leave_slot(self)
