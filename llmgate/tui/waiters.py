"""Who waits on some upstreams, filtered and sorted, as rows that are made when one is asked for.

Ten thousand may wait and the screen shows thirty of them: what looks at all of them does so without a call of Python
for each.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain, compress
from operator import attrgetter
from typing import Any, NamedTuple, overload

from llmgate.adminapi import RequestView, UpstreamView
from llmgate.tui.filter import VERDICTS, Filter
from llmgate.tui.model import Lane

_ID = attrgetter("id")


class Waiter(NamedTuple):
    position: int
    request: RequestView
    upstream: UpstreamView


class Queue(Sequence[Waiter]):
    """Those who wait on these upstreams, one upstream after another; `places` are those that are left, in order."""

    def __init__(self, lanes: Sequence[Lane], places: Sequence[int] | None = None) -> None:
        self._lanes = lanes
        self._starts = [*accumulate((len(lane.waiting) for lane in lanes), initial=0)]
        self._places = range(self._starts[-1]) if places is None else places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Waiter: ...

    @overload
    def __getitem__(self, index: slice) -> "Queue": ...

    def __getitem__(self, index: int | slice) -> "Waiter | Queue":
        if isinstance(index, slice):
            return Queue(self._lanes, self._places[index])
        place = self._places[index]
        which = bisect_right(self._starts, place) - 1
        lane, behind = self._lanes[which], place - self._starts[which]
        return Waiter(behind + 1, lane.waiting[behind], lane.upstream)

    def ids(self) -> Iterator[str]:
        """Of all rows, in their order."""
        return map([*map(_ID, self._whole())].__getitem__, self._places)

    def filtered(self, wanted: Filter) -> "Queue":
        """Those that the filter leaves; each keeps the position that it has in its whole queue."""
        kept = VERDICTS.of(wanted, [*self._whole()])
        return Queue(self._lanes, [place for place in self._places if kept[place]])

    def sorted(self, order: Callable[[RequestView], Any], *, reverse: bool = False) -> "Queue":
        return self._by([*map(order, self._whole())], reverse=reverse)

    def by_position(self, *, reverse: bool = False) -> "Queue":
        """The first of each upstream, then the second of each."""
        return self._by([*chain.from_iterable(range(len(lane.waiting)) for lane in self._lanes)], reverse=reverse)

    def _by(self, keys: Sequence[Any], *, reverse: bool) -> "Queue":
        return Queue(self._lanes, sorted(self._places, key=keys.__getitem__, reverse=reverse))

    def _whole(self) -> Iterator[RequestView]:
        return chain.from_iterable(lane.waiting for lane in self._lanes)


def kept(requests: Iterable[RequestView], wanted: Filter) -> Sequence[RequestView]:
    """The requests that a filter leaves."""
    every = [*requests]
    return [*compress(every, VERDICTS.of(wanted, every))] if wanted.terms else every
