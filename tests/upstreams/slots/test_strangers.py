"""Others use the same server: its busy slots, and when a request is sent beside them."""

import asyncio
import math

import pytest
from virtual_loop import this_loop, turns

from llmgate.core.drift import LASTING_SECONDS
from llmgate.upstreams.slots import (
    LAST_SECONDS,
    ROOM_SECONDS,
    UNSEEN_SECONDS,
)
from tests.upstreams.slot_bench import BROKEN, DOWN, LATE, Bench, Reply, busy, play


def test_its_busy_slots() -> None:
    found: list[int | None] = []

    async def story(bench: Bench) -> None:
        for idle in (False, True, True):
            slots = await bench.watch.busy_slots(idle=idle)
            found.append(None if slots is None else len(slots))

    bench = play(story, busy(2), (200, b'{"is_sleeping":true}'), (200, b'{"is_sleeping":false}'), busy(3))
    assert found == [2, 0, 3]
    assert bench.server.targets == [b"/slots", b"/props", b"/props", b"/slots"]


@pytest.mark.parametrize("reply", [LATE, DOWN, (404, b"")])
def test_its_busy_slots_where_it_does_not_tell(reply: Reply) -> None:
    async def story(bench: Bench) -> None:
        assert await bench.watch.busy_slots(idle=False) is None

    play(story, reply)
    play(story, busy(1), kind="vllm")


def wait_for_room(count: int = 1, *, strangers: bool = True, leave_at: float | None = None, seconds: float = math.inf):
    """So many requests that are about to be sent; when each of them may be."""
    sent: list[float] = []

    async def one(bench: Bench) -> None:
        await bench.watch.wait_for_room(seconds)
        sent.append(this_loop().time())

    async def story(bench: Bench) -> None:
        bench.watch.has_strangers = strangers
        if leave_at is not None:
            this_loop().call_later(leave_at, lambda: setattr(bench.watch, "has_strangers", False))
        begun = this_loop().time()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(count):
                tasks.create_task(one(bench))
        sent[:] = [round(at - begun, 3) for at in sent]

    return story, sent


def test_while_others_use_it_a_request_is_sent_when_a_slot_is_free() -> None:
    story, sent = wait_for_room()
    play(story, busy(4), busy(4), busy(3))
    assert sent == [2 * LAST_SECONDS]


def test_the_next_one_only_when_the_first_must_be_seen() -> None:
    story, sent = wait_for_room(2)
    play(story, busy(3), busy(4), busy(3))
    assert sent == [0, UNSEEN_SECONDS + LAST_SECONDS]


def test_others_that_stay_take_not_every_turn() -> None:
    story, sent = wait_for_room(3)
    bench = play(story, busy(4))
    assert sent == [ROOM_SECONDS] * 3
    assert len(bench.server.asked) <= ROOM_SECONDS / LAST_SECONDS + 1
    assert ROOM_SECONDS < LASTING_SECONDS, "a slot without a connection for so long is a drift"


@pytest.mark.parametrize("seconds", [-1, 0, 1.1])
def test_who_may_not_wait_so_long_is_sent_before(seconds: float) -> None:
    story, sent = wait_for_room(2, seconds=seconds)
    play(story, busy(4))
    assert sent == [max(0, seconds)] * 2


def test_who_is_not_sent_yet_is_counted() -> None:
    async def story(bench: Bench) -> None:
        bench.watch.has_strangers = True
        waits = [this_loop().create_task(bench.watch.wait_for_room()) for _ in range(2)]
        await asyncio.sleep(1)
        assert bench.watch.held_back == 2
        waits[0].cancel()
        await turns()
        assert bench.watch.held_back == 1
        await waits[1]
        assert bench.watch.held_back == 0

    play(story, busy(4))


def test_when_they_are_gone_nobody_waits() -> None:
    story, sent = wait_for_room(leave_at=1.1)
    play(story, busy(4))
    assert sent == [1.25]


@pytest.mark.parametrize("reply", [LATE, DOWN, BROKEN, (404, b""), (200, b"[]")])
def test_what_cannot_be_told_is_not_waited_for(reply: Reply) -> None:
    story, sent = wait_for_room()
    play(story, reply)
    assert sent == [0]
    story, sent = wait_for_room()
    play(story, busy(4), kind="vllm")
    assert sent == [0]
