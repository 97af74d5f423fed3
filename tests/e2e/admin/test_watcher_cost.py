"""What those who follow the feed cost the daemon while 10,000 wait and 200 events happen every second.

Bounds are processor time, which other programs take no part of: at least five times what benchmarks/feed.py shows. What
happens is viewed and encoded once for all (tests/telemetry/test_feed.py), so that another one costs next to nothing.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from benchscript import script

SECONDS = 4.0
MANY = 21
FIRST_WATCHER = 0.1
OTHER_WATCHER = 0.015
"""Shares of a processor."""


@pytest.fixture
def benchmark() -> Iterator[Any]:
    with script("feed") as module:
        yield module


@pytest.mark.slow
def test_a_watcher_costs_little_and_another_one_next_to_nothing(benchmark: Any) -> None:
    nobody, one, many = (cost(benchmark, watchers) for watchers in (0, 1, MANY))
    first, other = one - nobody, (many - one) / (MANY - 1)
    assert first < FIRST_WATCHER
    assert other < OTHER_WATCHER


def cost(benchmark: Any, watchers: int) -> float:
    """The better of two: a busy machine makes the caches cold."""
    return min(benchmark.run_served(watchers, SECONDS) for _ in range(2))
