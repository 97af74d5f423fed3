"""What happened to one request, step by step, out of the events that are kept: its own, and each move of its place.

An event tells nobody's new position but that of the request it is about. Those of the others follow from the order in
which they are dispatched: whoever stood before it and leaves the line moves it up by one.
"""

from collections import defaultdict, deque
from collections.abc import Iterable

from llmgate.adminapi import Step
from llmgate.core.events import (
    Abandoned,
    Admitted,
    Dismissed,
    Event,
    Expired,
    Moved,
    Queued,
    Refused,
    Requeued,
    TicketEvent,
    UpstreamRenamed,
)
from llmgate.telemetry.journal import describe, kind_of, word_of
from llmgate.telemetry.ledger import Record

_MOVES_KEPT = 20


class _Place:
    """Where the request stands while its events are gone through; None where that is not known."""

    def __init__(self, request_id: str) -> None:
        self._id = request_id
        self._order = 0
        self._orders: dict[int, int] = {}
        """Of tickets whose order is not their number any more."""
        self.position: int | None = None

    def apply(self, event: TicketEvent) -> bool:
        """Whether it has another position now."""
        before = self.position
        if event.caller.id == self._id:
            self._apply_own(event)
        elif self.position is not None:
            self._apply_other(event, self.position)
        if isinstance(event, (Moved, Requeued)):
            self._orders[event.ticket] = event.order
        return self.position != before

    def _apply_own(self, event: TicketEvent) -> None:
        match event:
            case Queued(depth=depth, order=order):
                self.position, self._order = depth, order
            case Moved(order=order):
                self.position, self._order = 1, order
            case _:
                self.position = None

    def _apply_other(self, event: TicketEvent, position: int) -> None:
        was_before = self._orders.get(event.ticket, event.ticket) < self._order
        match event:
            case Admitted(queued=True) | Abandoned() | Expired() | Dismissed() if was_before:
                self.position = max(1, position - 1)
            case Moved() if not was_before:
                self.position = position + 1
            case Requeued(order=order) if order < self._order:
                self.position = position + 1
            case _:
                pass


def trace(events: Iterable[tuple[int, Event]], record: Record) -> list[Step]:
    """The steps of a request, oldest first; of the moves of its place the newest 20."""
    request_id, place = record.caller.id, _Place(record.caller.id)
    own: list[Step] = []
    moves: deque[Step] = deque(maxlen=_MOVES_KEPT)
    for number, event in _at_its_gate(events, request_id):
        moved = isinstance(event, TicketEvent) and place.apply(event)
        offset_ms = round((event.at - record.arrived_at) * 1000)
        kind, word = kind_of(event), word_of(event)
        if event.caller.id == request_id:
            text = describe(event)
            at = place.position
            own.append(Step(number=number, offset_ms=offset_ms, kind=kind, word=word, text=text, position=at))
        elif moved:
            text = f"{event.caller.id} {word}"
            moves.append(_moved(number, offset_ms, text, place.position))
    return sorted([*own, *moves], key=lambda step: step.number)


def _at_its_gate(events: Iterable[tuple[int, Event]], request_id: str) -> list[tuple[int, TicketEvent | Refused]]:
    """What happened at the gate of that request, whatever it was called then: a reload may call it otherwise."""
    gates: defaultdict[str, list[tuple[int, TicketEvent | Refused]]] = defaultdict(list)
    its: list[tuple[int, TicketEvent | Refused]] = []
    for number, event in events:
        if isinstance(event, UpstreamRenamed):
            gates[event.upstream] = gates.pop(event.old, [])
        elif event.number == 1:  # a new gate, perhaps under the name of one that is gone
            gates[event.upstream] = []
        if isinstance(event, (TicketEvent, Refused)):
            gates[event.upstream].append((number, event))
            if event.caller.id == request_id:
                its = gates[event.upstream]
    return its


def _moved(number: int, offset_ms: int, text: str, position: int | None) -> Step:
    return Step(number=number, offset_ms=offset_ms, kind="position", word="position", text=text, position=position)
