"""Any order of what may happen to a few requests, played on a stage; whatever the order, some things hold."""

from typing import Any

from hands import CHAT_SPOKEN, START, STOP, chat_chunk, delta
from hypothesis import strategies as st
from virtual_loop import turns

from llmgate.errors import Refused
from llmgate.protocols.speech import Kind
from tests.server.stage import EVENT_STREAM, PLAIN, Call, Stage, Wire, pass_time, settle
from tests.server.states import NO_SUCH_MODEL, NO_SUCH_PATH

UPSTREAM = {
    "queue_timeout": 0.5,
    "first_byte_timeout": 0.3,
    "idle_timeout": 0.3,
    "total_timeout": 1.0,
    "release_timeout": 0.02,
}
SERVER = {"client_stall_timeout": 0.2}
WAITING = {"heartbeat": 0.05}

WHOLE_EVENT = delta("word")
UPSTREAM_ERROR = b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"no"}}\n\n'
PIECES = [START, WHOLE_EVENT, WHOLE_EVENT[:20], WHOLE_EVENT[20:], STOP, b": ping\n\n", UPSTREAM_ERROR, b"x" * 2_000_000]
WHOLE_CHUNK = chat_chunk({"content": "word"})
CHAT_STOP = CHAT_SPOKEN.rest
CHAT_ERROR = b'data: {"error":{"message":"no","code":500}}\n\n'
CHAT_PIECES = [
    CHAT_SPOKEN.start,
    WHOLE_CHUNK,
    WHOLE_CHUNK[:20],
    WHOLE_CHUNK[20:],
    CHAT_STOP,
    b": ping\n\n",
    CHAT_ERROR,
    b"data: [DONE]\n\n",
]
ENDS = [b"", STOP, WHOLE_EVENT[:20], UPSTREAM_ERROR]
CHAT_ENDS = [b"", CHAT_STOP, WHOLE_CHUNK[:20], CHAT_ERROR]
REFUSALS = [NO_SUCH_PATH, NO_SUCH_PATH, NO_SUCH_MODEL, b""]
"""The bodies of a 404."""

_number = st.integers(0, 3)
STEPS = st.one_of(
    st.tuples(st.just("ask"), st.booleans()),
    st.tuples(st.just("begin"), _number),
    st.tuples(st.just("begin"), _number),
    st.tuples(st.just("complete"), _number),
    st.tuples(st.just("refusal"), _number, st.sampled_from(range(len(REFUSALS))), st.booleans()),
    st.tuples(st.just("refusal"), _number, st.sampled_from(range(len(REFUSALS))), st.booleans()),
    st.tuples(st.just("forget")),
    st.tuples(st.sampled_from(["leave", "reset", "block", "unblock", "stop"]), _number),
    st.tuples(st.sampled_from(["connect", "connect", "refuse", "lose"]), _number),
    st.tuples(st.just("head"), _number, st.sampled_from([200, 200, 200, 206, 404, 429, 500])),
    st.tuples(st.just("piece"), _number, st.sampled_from(range(len(PIECES)))),
    st.tuples(st.just("end"), _number, st.sampled_from(range(len(ENDS)))),
    st.tuples(st.just("cap"), st.integers(1, 3)),
    st.tuples(st.just("turn"), st.integers(1, 3)),
    st.tuples(st.just("settle")),
    st.tuples(st.just("time"), st.sampled_from([0.005, 0.03, 0.06, 0.25, 0.6])),
    st.tuples(st.just("close"), st.integers(0, 9)),
)
FIRST = st.tuples(st.just("ask"), st.booleans())
SCHEDULES = st.builds(
    lambda first, steps: [*first, *steps],
    st.lists(FIRST, min_size=1, max_size=3),
    st.lists(STEPS, min_size=4, max_size=40),
)


class Player:
    """Plays steps; one that makes no sense now is passed over."""

    def __init__(self, kind: Kind) -> None:
        self.stage = Stage(upstream={**UPSTREAM, "kind": kind}, server=SERVER, waiting=WAITING)
        self.streams: dict[Wire, bool] = {}
        self.left: set[Wire] = set()

    async def play(self, steps: list[tuple[Any, ...]]) -> None:
        for name, *arguments in steps:
            result = getattr(self, f"_{name}")(*arguments)
            if result is not None:
                await result
            self._check_upstream()
        await self._finish()

    def _check_upstream(self) -> None:
        """The gate knows of everything that the upstream works at."""
        busy = sum(call.sent and not call.over for call in self.stage.calls)
        assert busy <= self.stage.figures.running + self.stage.figures.draining

    async def _finish(self) -> None:
        """The upstream dies, the clients read on: now everybody is answered, and everything comes to its end."""
        for wire in self.stage.wires:
            wire.unblock()
        for _ in range(len(self.stage.calls) + 8):
            for call in self.stage.calls:
                call.refuse()
                call.lose()
            await pass_time(0.05)
        await pass_time(2)
        for wire in self.stage.wires:
            self._check_answer(wire)
            wire.leave()
        await settle()
        self.stage.check_over()

    def _check_answer(self, wire: Wire) -> None:
        answer = wire.answer
        assert answer.errors <= 1
        if wire in self.left:
            return
        if not answer.ended:
            assert wire.gone
        elif answer.status == 200 and answer.errors == 0 and self.streams[wire]:
            assert b"event: message_stop" in answer.body
        assert b"event: message_stop" not in answer.body or b"llmgate: " not in answer.body

    # ---- clients

    def _ask(self, stream: bool) -> None:
        if len(self.stage.wires) < 4:
            self.streams[self.stage.ask(stream=stream)] = stream

    def _wire(self, number: int) -> Wire | None:
        wires = self.stage.wires
        return wires[number] if number < len(wires) else None

    def _leave(self, number: int, error: Exception | None = None) -> None:
        wire = self._wire(number)
        if wire is not None:
            self.left.add(wire)
            wire.leave(error)

    def _reset(self, number: int) -> None:
        self._leave(number, ConnectionResetError())

    def _block(self, number: int) -> None:
        wire = self._wire(number)
        if wire is not None:
            wire.block()

    def _unblock(self, number: int) -> None:
        wire = self._wire(number)
        if wire is not None:
            wire.unblock()

    def _stop(self, number: int) -> None:
        wire = self._wire(number)
        if wire is not None and len(self.stage.services.running):
            for exchange in self.stage.services.running:
                if exchange._scope["client"] == wire.peer:  # type: ignore[attr-defined]
                    exchange.stop(Refused("llmgate: stopped (REFUSED)"))

    # ---- the upstream

    def _call(self, number: int) -> Call | None:
        calls = self.stage.calls
        return calls[number] if number < len(calls) else None

    def _connect(self, number: int) -> None:
        if call := self._call(number):
            call.connect()

    async def _begin(self, number: int) -> None:
        """Up to the first event: else hardly any schedule would come so far."""
        self._connect(number)
        await settle()
        self._head(number, 200)
        await settle()
        self._piece(number, 0)

    async def _complete(self, number: int) -> None:
        await self._begin(number)
        await settle()
        self._end(number, 1)

    async def _refusal(self, number: int, which: int, in_two: bool) -> None:
        """The upstream does not know the path, or the model; it may break off, or somebody leave, in the middle."""
        self._connect(number)
        await settle()
        self._head(number, 404)
        await settle()
        call = self._call(number)
        if call is None or not call.speaks or call.answer.status != 404:
            return
        half = len(REFUSALS[which]) // 2
        if in_two and half:
            call.piece(REFUSALS[which][:half])
        else:
            call.end(REFUSALS[which])

    def _forget(self) -> None:
        self.stage.speech.forget()

    def _refuse(self, number: int) -> None:
        if call := self._call(number):
            call.refuse()

    def _lose(self, number: int) -> None:
        if call := self._call(number):
            call.lose()

    def _head(self, number: int, status: int) -> None:
        call = self._call(number)
        if call is not None and call.awaited:
            call.head(status if status != 206 else 200, EVENT_STREAM if status == 200 else PLAIN)

    def _piece(self, number: int, which: int) -> None:
        call = self._call(number)
        if call is not None and call.speaks and not call.paused:
            call.piece((CHAT_PIECES if call.spoken is CHAT_SPOKEN else PIECES)[which])

    def _end(self, number: int, which: int) -> None:
        call = self._call(number)
        if call is not None and call.speaks and not call.paused:
            call.end((CHAT_ENDS if call.spoken is CHAT_SPOKEN else ENDS)[which])

    # ---- the rest

    def _cap(self, slots: int) -> None:
        self.stage.set_cap(slots)

    def _close(self, odds: int) -> None:
        if odds == 0:
            self.stage.services.admission.close()

    def _turn(self, count: int) -> Any:
        return turns(count)

    def _settle(self) -> Any:
        return settle()

    def _time(self, seconds: float) -> Any:
        return pass_time(seconds)
