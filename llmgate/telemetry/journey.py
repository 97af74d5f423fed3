"""What happened to one request, step by step, out of the events that are kept: its own, and each move of its place.

An event tells nobody's new position but that of the request it is about. Those of the others follow from the order in
which they are dispatched: whoever stood before it and leaves the line moves it up by one.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

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
    Released,
    Requeued,
    TicketEvent,
    UpstreamRenamed,
)
from llmgate.telemetry.journal import describe, kind_of, word_of
from llmgate.telemetry.ledger import Record

_MOVES_KEPT = 20
_OF_ONE = (TicketEvent, Refused)
_ENDS = (Released, Abandoned, Expired, Dismissed, Refused)

Numbered = tuple[int, Event]


class _Place:
    """Where the request stands while its events are gone through; None where that is not known."""

    def __init__(self, request_id: str, orders: dict[int, int]) -> None:
        """`orders` of the tickets whose order is not their number any more."""
        self._id = request_id
        self._order = 0
        self._orders = orders
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
            case Moved():
                self.position = position if was_before else position + 1
            case Admitted(queued=True) | Abandoned() | Expired() | Dismissed() if was_before:
                self.position = max(1, position - 1)
            case Requeued(order=order) if order < self._order:
                self.position = position + 1
            case _:
                pass


def trace(events: Iterable[Numbered], record: Record) -> list[Step]:
    """The steps of a request, oldest first; of the moves of its place the newest 20."""
    kept, request_id = list(events), record.caller.id
    first = next((index for index, (_, event) in enumerate(kept) if _is_of(event, request_id)), None)
    if first is None:
        return []
    place = _Place(request_id, _orders_before(kept, first))
    own: list[Step] = []
    moves: deque[tuple[int, Event, str, int | None]] = deque(maxlen=_MOVES_KEPT)
    for number, event in _at_its_gate(kept, first):
        moved = isinstance(event, TicketEvent) and place.apply(event)
        if event.caller.id == request_id:
            own.append(_step(number, event, record, place.position))
            if isinstance(event, _ENDS):
                break
        elif moved:
            moves.append((number, event, event.caller.id, place.position))
    steps = [*own, *(_moved(number, event, who, at, record) for number, event, who, at in moves)]
    return sorted(steps, key=lambda step: step.number)


def _is_of(event: Event, request_id: str) -> bool:
    return isinstance(event, _OF_ONE) and event.caller.id == request_id


def _orders_before(kept: Sequence[Numbered], first: int) -> dict[int, int]:
    """Of tickets at its gate that were put elsewhere before it came."""
    name, orders = kept[first][1].upstream, dict[int, int]()
    if kept[first][1].number == 1:
        return orders
    for _, event in reversed(kept[:first]):
        if isinstance(event, UpstreamRenamed):
            if event.upstream == name:
                name = event.old
        elif event.upstream == name:
            if isinstance(event, (Moved, Requeued)):
                orders.setdefault(event.ticket, event.order)
            if event.number == 1:  # it was a new gate, perhaps under the name of one that was gone
                break
    return orders


def _at_its_gate(kept: Sequence[Numbered], first: int) -> Iterator[tuple[int, TicketEvent | Refused]]:
    """What happened at the gate of the request that came first there, whatever it was called then: a reload may call
    it otherwise."""
    name = kept[first][1].upstream
    for number, event in islice(kept, first, None):
        if isinstance(event, UpstreamRenamed):
            if event.old == name:
                name = event.upstream
            elif event.upstream == name:
                return  # another gate has its name now: it is gone
        elif event.upstream == name:
            if event.number == 1 and event is not kept[first][1]:
                return  # the same
            if isinstance(event, (TicketEvent, Refused)):
                yield number, event


def _step(number: int, event: Event, record: Record, position: int | None) -> Step:
    kind, word, text = kind_of(event), word_of(event), describe(event)
    return Step(number=number, offset_ms=_offset_ms(event, record), kind=kind, word=word, text=text, position=position)


def _moved(number: int, event: Event, who: str, position: int | None, record: Record) -> Step:
    text = f"{who} {word_of(event)}"
    return Step(
        number=number,
        offset_ms=_offset_ms(event, record),
        kind="position",
        word="position",
        text=text,
        position=position,
    )


def _offset_ms(event: Event, record: Record) -> int:
    return round((event.at - record.arrived_at) * 1000)
