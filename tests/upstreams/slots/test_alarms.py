"""What a watch of slots tells of a server: that a slot does not come back, that a request is held back there."""

import asyncio
from typing import Any

import pytest

from llmgate.upstreams.slots import (
    HIDDEN_WAIT_SECONDS,
)
from tests.upstreams.slot_bench import DOWN, LATE, Bench, busy, hold_back, play


def test_the_alarm_is_told_once_and_its_end_once() -> None:
    async def story(bench: Bench) -> None:
        bench.drain("a", seconds=1.0)
        await asyncio.sleep(0.9)
        assert bench.overdue == []
        await asyncio.sleep(0.4)
        assert bench.overdue == [True]
        bench.drain("b", seconds=60.0)
        await asyncio.sleep(20)
        assert (bench.overdue, bench.freed) == ([True], [])
        bench.server.replies[0] = busy(1)
        await asyncio.sleep(0.3)
        assert (bench.overdue, bench.freed) == ([True, False], ["a"]), "the other one is not late"

    play(story, busy(2))


def test_one_that_the_server_holds_back_is_told_once_until_it_has_its_head() -> None:
    async def story(bench: Bench) -> None:
        hold_back(bench)
        await asyncio.sleep(HIDDEN_WAIT_SECONDS * 0.9)
        assert (bench.hidden, bench.server.asked) == ([], [])
        await asyncio.sleep(10)
        assert bench.hidden == [True]
        bench.traffic.answered("h")
        await asyncio.sleep(HIDDEN_WAIT_SECONDS + 0.1)
        assert bench.hidden == [True, False]
        asked = len(bench.server.asked)
        await asyncio.sleep(10)
        assert len(bench.server.asked) == asked

    play(story, busy(4))


@pytest.mark.parametrize("reply", [busy(3), busy(0), busy(0, of=0), LATE, DOWN, (404, b""), (200, b"{}")])
def test_nobody_is_held_back_where_a_slot_is_free_or_nothing_is_told(reply: Any) -> None:
    async def story(bench: Bench) -> None:
        hold_back(bench)
        await asyncio.sleep(10)
        assert (bench.hidden, bench.freed) == ([], [])
        assert bench.server.asked

    play(story, reply)


def test_a_long_prompt_in_a_slot_of_its_own_is_no_hidden_wait() -> None:
    """All slots are busy, but all with ours."""

    async def story(bench: Bench) -> None:
        bench.work_on("a", "b", "c", "d")
        hold_back(bench)
        await asyncio.sleep(10)
        assert bench.hidden == []
        bench.traffic.over("d")
        await asyncio.sleep(2)
        assert bench.hidden == [True]

    play(story, busy(4))


def test_another_one_without_a_head_begins_its_own_time() -> None:
    async def story(bench: Bench) -> None:
        async def head_meanwhile() -> tuple[int, bytes]:
            bench.traffic.answered("h")
            hold_back(bench, "next")
            return busy(4)

        bench.server.replies.appendleft(head_meanwhile)
        hold_back(bench)
        await asyncio.sleep(HIDDEN_WAIT_SECONDS * 1.9)
        assert (bench.hidden, len(bench.server.asked)) == ([], 1)
        await asyncio.sleep(HIDDEN_WAIT_SECONDS + 0.1)
        assert bench.hidden == [True]

    play(story, busy(4))


def test_a_server_that_tells_nothing_any_more_ends_the_alarm() -> None:
    async def story(bench: Bench) -> None:
        hold_back(bench)
        await asyncio.sleep(5)
        assert bench.hidden == [True]
        bench.server.replies[0] = (404, b"")
        await asyncio.sleep(5)
        assert bench.hidden == [True, False]

    play(story, busy(4))
