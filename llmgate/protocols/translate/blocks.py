"""The content blocks of one answer, in the order in which they began.

- One block is open at a time, the first of the queue; the others keep their pieces until it is their turn.
- Text and thinking end when anything else follows. A tool call ends with its arguments: pieces of parallel calls may
  alternate, so what follows it waits for their end, or for the end of the answer.
- A block is opened by its first piece that may be sent, so none is empty but a call without arguments.
- What is kept is bounded by the Budget.
"""

from collections import deque

from llmgate.protocols.budget import LIMIT, Budget
from llmgate.protocols.call_piece import CallPiece
from llmgate.protocols.seam import Seam
from llmgate.protocols.translate.call import Call
from llmgate.protocols.translate.frames import (
    block_stop,
    call_delta,
    call_start,
    signature_delta,
    spoken_delta,
    spoken_start,
)
from llmgate.protocols.translate.ids import call_id
from llmgate.protocols.translate.piece import Kind, Spoken

_BLOCK_COST = 2048
"""Bytes that a block costs beyond its text."""


class _Saying:
    """A block of text or thinking."""

    __slots__ = ("fresh", "kind", "seam")

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.seam = Seam()
        self.fresh = bytearray()
        """What waits to be sent."""


class Blocks:
    """Turns pieces into the frames of content blocks. Its methods add frames to `out` and raise UpstreamFailed."""

    __slots__ = ("_budget", "_calls", "_count", "_ids", "_latest", "_open", "_queue", "_request_id", "calls")

    def __init__(self, request_id: str, limit: int = LIMIT) -> None:
        self._request_id = request_id
        self._budget = Budget(limit)
        self._queue: deque[_Saying | Call] = deque()
        self._open = False
        """The first of the queue was opened."""
        self._count = 0
        """Blocks opened so far."""
        self._calls: dict[int, Call] = {}
        """The newest call at each index."""
        self._latest: Call | None = None
        self._ids: dict[str, Call] = {}
        self.calls = 0
        """Tool calls opened so far."""

    def say(self, piece: Spoken, out: list[bytes]) -> None:
        """A piece of text or thinking."""
        tail = self._queue[-1] if self._queue else None
        if not isinstance(tail, _Saying) or tail.kind != piece.kind:
            tail = _Saying(piece.kind)
            self._append(tail)
        fresh = tail.seam.join(piece.text).encode()
        self._budget.take(len(fresh))
        tail.fresh += fresh
        self._send(out)

    def call(self, piece: CallPiece, out: list[bytes]) -> None:
        """A piece of a tool call."""
        call = self._find(piece)
        before = call.size
        call.add(piece)
        self._budget.take(call.size - before)
        if call.id:
            self._ids.setdefault(call.id, call)
        self._send(out)

    def end(self, out: list[bytes], *, cut_short: bool) -> None:
        """Sends what is left; `cut_short`: the answer was."""
        while self._queue:
            self._close(out, cut_short=cut_short)

    def _append(self, block: _Saying | Call) -> None:
        self._budget.take(_BLOCK_COST)
        self._queue.append(block)

    def _find(self, piece: CallPiece) -> Call:
        """The call that a piece belongs to; without an index by its id, else the latest."""
        known = self._calls.get(piece.index) if piece.index is not None else self._ids.get(piece.id, self._latest)
        if known is None or not known.goes_on_with(piece):
            known = Call()
            self._append(known)
        self._latest = known
        if piece.index is not None:
            self._calls[piece.index] = known
        return known

    def _send(self, out: list[bytes]) -> None:
        """All that may be sent by now."""
        self._send_first(out)
        while len(self._queue) > 1 and self._may_close(self._queue[0]):
            self._close(out, cut_short=False)
            self._send_first(out)

    def _may_close(self, block: _Saying | Call) -> bool:
        return isinstance(block, _Saying) or (block.name != "" and block.arguments.complete)

    def _send_first(self, out: list[bytes]) -> None:
        first = self._queue[0]
        if isinstance(first, _Saying):
            self._say(first, bytes(first.fresh).decode(), out)
            self._budget.give_back(len(first.fresh))
            first.fresh.clear()
        elif first.name and (arguments := first.arguments.take()):
            self._open_call(first, out)
            out.append(call_delta(self._count - 1, arguments))

    def _close(self, out: list[bytes], *, cut_short: bool) -> None:
        """Closes the first block."""
        first = self._queue[0]
        self._send_first(out)
        if isinstance(first, _Saying):
            self._close_saying(first, out)
            self._budget.give_back(_BLOCK_COST)
        else:
            before = first.size
            self._close_call(first, out, cut_short=cut_short)
            self._budget.give_back(before - first.size)  # the rest of it is known for the pieces that may come
        if self._open:
            out.append(block_stop(self._count - 1))
        self._open = False
        self._queue.popleft()

    def _close_saying(self, saying: _Saying, out: list[bytes]) -> None:
        self._say(saying, saying.seam.rest(), out)
        if self._open and saying.kind == "thinking":
            out.append(signature_delta(self._count - 1))

    def _close_call(self, call: Call, out: list[bytes], *, cut_short: bool) -> None:
        rest = call.end(cut_short=cut_short, last=len(self._queue) == 1)
        if rest is None:
            return
        self._open_call(call, out)
        if rest:
            out.append(call_delta(self._count - 1, rest))

    def _say(self, saying: _Saying, text: str, out: list[bytes]) -> None:
        if not text:
            return
        if not self._open:
            self._open = True
            self._count += 1
            out.append(spoken_start(self._count - 1, saying.kind))
        out.append(spoken_delta(self._count - 1, saying.kind, text))

    def _open_call(self, call: Call, out: list[bytes]) -> None:
        if self._open:
            return
        self._open = True
        self._count += 1
        self.calls += 1
        if not call.id or self._ids.get(call.id) is not call:
            call.id = call_id(self._request_id, self.calls)
        out.append(call_start(self._count - 1, call.id, call.name))
