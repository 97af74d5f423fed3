"""The views as lines of text on a large screen, and an upstream that drains on every size.

After a wanted change: pytest --snapshot-update; then read the difference.
"""

from datetime import UTC
from typing import Any

import pytest

from llmgate.adminapi import FeedItem
from llmgate.tui.cells import plain
from llmgate.tui.furniture import Look
from llmgate.tui.listing import settle
from llmgate.tui.model import Model
from llmgate.tui.picture import picture
from llmgate.tui.press import press
from llmgate.tui.state import State

LARGE = (200, 60)
VIEWS: dict[str, tuple[str, ...]] = {
    "overview": (),
    "waiting": ("2",),
    "running": ("3",),
    "recent": ("4",),
    "events": ("5", "j"),
    "detail": ("2", "j", "enter"),
}


def shown(model: Model, size: tuple[int, int], keys: tuple[str, ...] = ()) -> str:
    view = model.view(1.0)
    state = settle(State(), view)
    for key in keys:
        state = settle(press(state, key, view, size[1]).state, view)
    lines = picture(view, Look(*size, zone=UTC), state)
    return "\n".join(plain(line).rstrip() for line in lines)


@pytest.mark.parametrize("name", VIEWS)
def test_a_large_screen(sample: Any, name: str, snapshot: Any) -> None:
    model = Model()
    model.apply(sample.documented(), 1.0)
    ended = sample.request(
        "q-7f3970", "ha-llm", state="done", outcome="completed", client="claude-code", arrived_ms=sample.NOW - 60_900,
        dispatched_ms=sample.NOW - 58_800, first_byte_ms=sample.NOW - 58_000, ended_ms=sample.NOW - 50_000,
        output_tokens=1204,
    )  # fmt: skip
    model.remember([ended])
    assert shown(model, LARGE, VIEWS[name]) == snapshot


def draining(sample: Any) -> FeedItem:
    """Two are served to the end, one who is gone still has its slot, and who comes is refused."""
    told = sample.upstream(
        "a", state="draining", running=1, waiting=1, draining=1, max_concurrent=2, served=40, refused=3,
        oldest_arrived_ms=sample.NOW - 9_000,
    )  # fmt: skip
    requests = [
        sample.request("q-1", "a", client="dsh", arrived_ms=sample.NOW - 9_000),
        sample.request("q-2", "a", state="running", client="web", arrived_ms=sample.NOW - 20_000,
                       dispatched_ms=sample.NOW - 19_000),
        sample.request("q-3", "a", state="draining", client="opencode", arrived_ms=sample.NOW - 30_000,
                       dispatched_ms=sample.NOW - 29_000),
    ]  # fmt: skip
    return sample.snapshot([told, sample.upstream("b", served=1)], requests)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (60, 15), LARGE], ids="{0[0]}x{0[1]}".format)
def test_an_upstream_that_drains(sample: Any, size: tuple[int, int], snapshot: Any) -> None:
    model = Model()
    model.apply(draining(sample), 1.0)
    assert shown(model, size) == snapshot
