"""Which rows a list has: filtered and sorted, found by their ids; and what becomes of the selection as they change."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from operator import indexOf
from typing import Any

from llmgate.adminapi import EventView, RequestView
from llmgate.tui.columns import Column
from llmgate.tui.filter import parse
from llmgate.tui.model import Lane, View
from llmgate.tui.state import Chosen, Sort, State
from llmgate.tui.tables import BY_POSITION, RECENT, RUNNING, UPSTREAMS, WAITING
from llmgate.tui.waiters import Queue, Waiter, kept

NOBODY = Chosen()
COLUMNS: dict[str, Sequence[Column[Any]]] = {
    "upstreams": UPSTREAMS,
    "waiting": WAITING,
    "running": RUNNING,
    "recent": RECENT,
}
"""The columns that a list can be sorted by, by what it holds."""
NEAR = 50
"""Rows around the one where a row was last, among which it is looked for first."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The rows of one list, and how many it would have without a filter."""

    rows: Sequence[Any]
    id_of: Callable[[Any], str]
    total: int

    def place(self, chosen: Chosen) -> int:
        """The index of the row that has the selection: its own, else the one where it stood; -1 in an empty list."""
        index = self.find(chosen.id, chosen.index)
        return index if index >= 0 else max(0, min(chosen.index, len(self.rows) - 1)) if self.rows else -1

    def find(self, row_id: str, near: int = 0) -> int:
        """The index of a row by its id, or -1: looked for around an index where it was, so mostly found at once."""
        rows, id_of, size = self.rows, self.id_of, len(self.rows)
        near = min(max(near, 0), size - 1)
        above, below = range(near, max(-1, near - NEAR), -1), range(near + 1, min(near + NEAR, size))
        for index in chain.from_iterable(zip_longest(above, below)):
            if index is not None and id_of(rows[index]) == row_id:
                return int(index)
        ids = rows.ids() if isinstance(rows, Queue) else map(id_of, rows)
        try:
            return indexOf(ids, row_id)
        except ValueError:
            return -1

    def beside(self, chosen: Chosen, gone: set[str]) -> int:
        """The index of the nearest row that stays when some go: below the chosen one, else above it, else its own."""
        place = self.place(chosen)
        rows = chain(range(place + 1, len(self.rows)), range(place - 1, -1, -1))
        return next((index for index in rows if self.id_of(self.rows[index]) not in gone), place)

    def at(self, index: int) -> Chosen:
        """The selection of a row; outside of the list that of the nearest."""
        if not self.rows:
            return NOBODY
        index = max(0, min(index, len(self.rows) - 1))
        return Chosen(self.id_of(self.rows[index]), index)


def listing(view: View, state: State) -> Listing:
    """The list that has the selection."""
    name = selected_upstream(view, state) if state.page == "overview" else ""
    return MEMO.of(view, (state.list_name, state.filter, state.sorts.get(state.holds), name), state)


class Memo:
    """The last list that was made: a key and the picture after it ask for the same one several times."""

    def __init__(self) -> None:
        self._view: View | None = None
        self._key: tuple[object, ...] = ()
        self._made = Listing((), str, 0)

    def of(self, view: View, key: tuple[object, ...], state: State) -> Listing:
        if self._view is not view or self._key != key:
            self._view, self._key, self._made = view, key, _listing(view, state)
        return self._made


MEMO = Memo()


def _listing(view: View, state: State) -> Listing:
    if state.holds == "upstreams":
        return upstreams(view, state)
    if state.page == "overview":
        name = selected_upstream(view, state)
        lanes = tuple(lane for lane in view.lanes if lane.upstream.name == name)
    else:
        lanes = view.lanes
    match state.holds:
        case "waiting":
            return waiting(lanes, state)
        case "running":
            return running(lanes, state)
        case "recent":
            return recent(view, state)
        case _:
            return events(view, state)


def upstreams(view: View, state: State) -> Listing:
    shown = [lane for lane in view.lanes if parse(state.filter).upstream(lane.upstream)]
    return Listing(_sorted(shown, state, "upstreams"), _lane_id, len(view.lanes))


def waiting(lanes: Sequence[Lane], state: State) -> Listing:
    """Who waits on these upstreams, in dispatch order; a position counts those that a filter hides."""
    whole, wanted, sort = Queue(lanes), parse(state.filter), state.sorts.get("waiting", Sort())
    rows = whole.filtered(wanted) if wanted.terms else whole
    order = _order(sort, "waiting")
    if order is None:
        rows = rows[::-1] if sort.reverse else rows
    elif order is BY_POSITION:
        rows = rows.by_position(reverse=sort.reverse)
    else:
        rows = rows.sorted(order, reverse=sort.reverse)
    return Listing(rows, _waiter_id, len(whole))


def running(lanes: Sequence[Lane], state: State) -> Listing:
    """Who runs, and below them those whose slot is not yet known to be free."""
    rows = [request for lane in lanes for request in (*lane.running, *lane.draining)]
    return _requests(rows, state, "running")


def recent(view: View, state: State) -> Listing:
    return _requests(view.recent, state, "recent")


def events(view: View, state: State) -> Listing:
    """What happened, the newest first."""
    wanted = parse(state.filter)
    shown = [event for event in reversed(view.events) if wanted.event(event)]
    return Listing(shown, _event_id, len(view.events))


def _requests(rows: Sequence[RequestView], state: State, holds: str) -> Listing:
    return Listing(_sorted(kept(rows, parse(state.filter)), state, holds), _request_id, len(rows))


def _order(sort: Sort, holds: str) -> Callable[[Any], Any] | None:
    """What rows are sorted by; None = they stand as the daemon has them."""
    if not sort.title:
        return None
    return next((column.order for column in COLUMNS[holds] if column.title == sort.title), None)


def _sorted(rows: Sequence[Any], state: State, holds: str) -> Sequence[Any]:
    sort = state.sorts.get(holds, Sort())
    order = _order(sort, holds)
    if order is not None:
        return sorted(rows, key=order, reverse=sort.reverse)
    return rows[::-1] if sort.reverse else rows


def _lane_id(lane: Lane) -> str:
    return lane.upstream.name


def _waiter_id(waiter: Waiter) -> str:
    return waiter.request.id


def _request_id(request: RequestView) -> str:
    return request.id


def _event_id(event: EventView) -> str:
    return str(event.number)


def selected_upstream(view: View, state: State) -> str:
    """The upstream whose requests the overview shows: the selected one if it is there, else one beside it."""
    shown = upstreams(view, state)
    place = shown.place(state.chosen.get("upstreams", NOBODY))
    return "" if place < 0 else shown.id_of(shown.rows[place])


def settle(state: State, view: View) -> State:
    """The state with its selection on a row that is there: to be called with each view before it is drawn."""
    state = _prune(state, view)
    shown = state.shown(view)
    settled = dict(state.chosen)
    lists = upstreams(shown, state)
    settled["upstreams"] = lists.at(lists.place(state.chosen.get("upstreams", NOBODY)))
    if state.holds != "upstreams":
        lists = listing(shown, replace(state, chosen=settled))
        settled[state.list_name] = lists.at(lists.place(state.chosen.get(state.list_name, NOBODY)))
    return state if settled == state.chosen else replace(state, chosen=settled)


def _prune(state: State, view: View) -> State:
    """Without marks on what has ended or is not there, and without slots that are now as they were wanted."""
    names = {lane.upstream.name for lane in view.lanes}
    if not state.marked_upstreams <= names and view.link.state == "live":
        state = replace(state, marked_upstreams=state.marked_upstreams & names)
    if state.marked:
        live = {request.id for request in view.requests() if request.id in state.marked and request.state != "done"}
        state = state if live == state.marked else replace(state, marked=frozenset(live))
    if state.slots:
        told = {lane.upstream.name: lane.upstream.max_concurrent for lane in view.lanes}
        slots = {name: wanted for name, wanted in state.slots.items() if told.get(name, wanted) != wanted}
        state = state if slots == state.slots else replace(state, slots=slots)
    return state


def next_sort(state: State) -> Sort:
    """The sort after the present one: by each column that can be sorted by, in turn, then as the daemon has it."""
    titles = ["", *(column.title for column in COLUMNS.get(state.holds, ()) if column.order is not None)]
    now = state.sorts.get(state.holds, Sort()).title
    return Sort(titles[(titles.index(now) + 1) % len(titles)])
