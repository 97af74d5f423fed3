"""A slot that drains is given back when the server is free of it for certain, and not before."""

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest
from virtual_loop import this_loop

from llmgate.errors import UpstreamDown
from llmgate.upstreams.slot_source import REFUSED_SECONDS
from llmgate.upstreams.slots import (
    FIRST_SECONDS,
    LAST_SECONDS,
    UNSEEN_SECONDS,
)
from tests.upstreams.slot_bench import BROKEN, DOWN, GARBAGE, LATE, Bench, busy, play


def no_connection_in_time() -> UpstreamDown:
    """As the transport raises it."""
    error = UpstreamDown("llmgate: no connection to the upstream in time (UPSTREAM_DOWN)")
    error.__cause__ = TimeoutError()
    return error


def test_one_connection_that_does_not_stand_in_time_is_no_death() -> None:
    """One lost packet is as long as that: who works there, and drains, is there all the same."""

    async def story(bench: Bench) -> None:
        bench.drain("a")
        await asyncio.sleep(10)
        assert bench.freed == []
        bench.server.replies[0] = busy(0)
        await asyncio.sleep(1)
        assert bench.freed == ["a"]

    play(story, no_connection_in_time(), busy(1), no_connection_in_time(), busy(1))


def test_two_in_a_row_are() -> None:
    async def story(bench: Bench) -> None:
        bench.drain("a")
        await asyncio.sleep(1)
        assert (bench.freed, len(bench.server.asked)) == (["down", "a"], 2)

    play(story, no_connection_in_time())


def test_given_back_when_the_server_is_free_of_it() -> None:
    async def story(bench: Bench) -> None:
        bench.drain("a")
        await asyncio.sleep(0.1)
        assert (bench.freed, len(bench.server.asked)) == (["a"], 3)
        await asyncio.sleep(60)
        assert (bench.freed, len(bench.server.asked)) == (["a"], 3), "nobody is left to ask for"

    play(story, busy(1), busy(1), busy(0))


def test_one_without_a_head_may_not_be_in_the_count_yet() -> None:
    """It is in the server's tokenizer; one that had its head does not wait for it."""

    async def story(bench: Bench) -> None:
        bench.watch.follow(lambda: bench.freed.append("unseen"), 1.0, had_head=False)
        await asyncio.sleep(0.9 * UNSEEN_SECONDS)
        assert bench.freed == [], "no answer would tell of it"
        bench.drain("seen")
        await asyncio.sleep(0.09 * UNSEEN_SECONDS)
        await asyncio.sleep(1)
        assert sorted(bench.freed) == ["seen", "unseen"]

    play(story, busy(0))


def test_one_without_a_head_is_not_given_back_by_a_server_that_only_just_goes_on() -> None:
    """It stood still and read nothing; its first answer may come before it has read the request."""

    async def story(bench: Bench) -> None:
        bench.watch.follow(lambda: bench.freed.append("unseen"), 100.0, had_head=False)
        await asyncio.sleep(50)
        bench.server.replies[0] = busy(0)
        await asyncio.sleep(0.9 * UNSEEN_SECONDS)
        assert bench.freed == []
        await asyncio.sleep(3 * UNSEEN_SECONDS)
        assert bench.freed == ["unseen"]

    play(story, LATE)


def test_what_is_counted_for_the_seen_is_not_given_to_the_unseen() -> None:
    async def story(bench: Bench) -> None:
        bench.watch.follow(lambda: bench.freed.append("unseen"), 10.0, had_head=False)
        bench.drain("seen", seconds=10.0)
        await asyncio.sleep(0.9 * UNSEEN_SECONDS)
        assert bench.freed == [], "the busy slot may be that of the seen one, and the unseen one may come to another"
        await asyncio.sleep(3)
        assert len(bench.freed) == 1

    play(story, busy(1))


def tasks(*numbers: int, of: int = 3) -> tuple[int, bytes]:
    """What a newer llama-server answers: which request each slot works on, or was the last to."""
    slots = [{"id": at, "id_task": number, "is_processing": True} for at, number in enumerate(numbers)]
    return 200, json.dumps(slots + [{"id": 9, "id_task": 1, "is_processing": False}] * (of - len(numbers))).encode()


def test_work_that_came_later_is_not_taken_for_a_drained_one() -> None:
    """Requests whose heads come with their ends are not known to be at work, and others may use the server too."""

    async def story(bench: Bench) -> None:
        bench.drain("a", seconds=10.0)
        await asyncio.sleep(0.1)
        assert bench.freed == []
        await asyncio.sleep(1)
        assert bench.freed == ["a"]

    play(story, tasks(7, 8), tasks(8, 9), tasks(8, 9), tasks(8, 9), tasks(9, 10), tasks(10, 11))


def test_one_whose_task_may_still_be_at_work_is_not_given_back() -> None:
    async def story(bench: Bench) -> None:
        bench.drain("a", seconds=100.0)
        await asyncio.sleep(20)
        assert bench.freed == []

    play(story, tasks(7, 8), tasks(7, 9))


def test_one_after_the_other_the_oldest_first() -> None:
    async def story(bench: Bench) -> None:
        bench.drain("a", "b", "c")
        seen = []
        for _ in range(60):
            await asyncio.sleep(0.02)
            if bench.freed not in seen:
                seen.append(list(bench.freed))
        assert seen == [[], ["a"], ["a", "b", "c"]]

    play(story, busy(3), busy(2), busy(3), busy(2), busy(0))


def test_asked_soon_then_less_and_less_often() -> None:
    async def story(bench: Bench) -> None:
        begun = this_loop().time()
        bench.drain("a", seconds=100)
        await asyncio.sleep(5)
        moments = [begun, *bench.server.asked]
        pauses = [after - before for before, after in pairwise(moments)]
        assert pauses[0] == pytest.approx(FIRST_SECONDS)
        assert pauses[1] == pytest.approx(FIRST_SECONDS * 1.5)
        assert pauses[-1] == pytest.approx(LAST_SECONDS)
        assert pauses == pytest.approx(sorted(pauses))

    play(story, busy(1))


@pytest.mark.parametrize("gone", ["", "b", "c", "bc"])
def test_ours_that_run_are_told_from_it_by_their_heads(gone: str) -> None:
    async def story(bench: Bench) -> None:
        bench.work_on("b", "c")
        bench.drain("a")
        await asyncio.sleep(0.025)
        assert bench.freed == ["a"], "two are busy, and two of ours with a head are"
        bench.drain("d")
        for name in gone:
            bench.traffic.over(name)
        await asyncio.sleep(0.5)
        assert bench.freed == (["a"] if gone else ["a", "d"])

    play(story, busy(2))


def test_one_without_a_head_may_not_have_begun() -> None:
    """What is busy then may be the one that drains."""

    async def story(bench: Bench) -> None:
        bench.traffic.sent("b", this_loop().time())
        bench.drain("a")
        await asyncio.sleep(0.5)
        assert bench.freed == []
        bench.traffic.answered("b")
        await asyncio.sleep(0.5)
        assert bench.freed == ["a"]

    play(story, busy(1))


@pytest.mark.parametrize("change", ["head", "over"])
def test_what_changed_during_the_question_is_not_certain(change: str) -> None:
    async def story(bench: Bench) -> None:
        async def change_meanwhile() -> tuple[int, bytes]:
            if change == "head":
                bench.traffic.answered("b")
            else:
                bench.traffic.over("b")
            return busy(1)

        bench.traffic.sent("b", this_loop().time())
        if change == "over":
            bench.traffic.answered("b")
        bench.server.replies.appendleft(change_meanwhile)
        bench.drain("a")
        await asyncio.sleep(0.04)
        assert (bench.freed, len(bench.server.asked)) == ([], 1)
        await asyncio.sleep(0.5)
        assert bench.freed == (["a"] if change == "head" else [])

    play(story, busy(1))


@pytest.mark.parametrize("late_reply", [busy(0), DOWN])
def test_one_that_drains_since_the_question_was_asked_waits_for_the_next(late_reply: Any) -> None:
    """It may have been on its way to the server when that counted its slots."""

    async def story(bench: Bench) -> None:
        async def answer_late() -> tuple[int, bytes]:
            await asyncio.sleep(1)
            if isinstance(late_reply, Exception):
                raise late_reply
            return busy(0)

        bench.server.replies.appendleft(answer_late)
        bench.drain("a")
        await asyncio.sleep(0.5)
        bench.drain("b")
        await asyncio.sleep(0.53)
        told = ["down"] if late_reply is DOWN else []
        assert (bench.freed, len(bench.server.asked)) == ([*told, "a"], 1)
        await asyncio.sleep(0.5)
        assert bench.freed == [*told, "a"]

    play(story, busy(1))


def test_a_server_that_takes_no_connection_is_free_of_all() -> None:
    """That is told first: nobody is to be sent there."""

    async def story(bench: Bench) -> None:
        bench.drain("a", "b")
        await asyncio.sleep(0.025)
        assert bench.freed == ["down", "a", "b"]
        assert bench.watch.is_source

    play(story, DOWN)


@pytest.mark.parametrize("reply", [LATE, BROKEN])
def test_no_answer_gives_nothing_back(reply: Any) -> None:
    async def story(bench: Bench) -> None:
        bench.drain("a", seconds=1.0)
        await asyncio.sleep(10)
        assert (bench.freed, bench.overdue) == ([], [True])
        bench.server.replies[0] = busy(0)
        await asyncio.sleep(0.5)
        assert (bench.freed, bench.overdue) == (["a"], [True, False])

    play(story, reply)


TELLS_NOTHING = [
    *((status, b"{}") for status in (400, 401, 403, 404, 405, 500, 501, 503)),
    *((200, body) for body in GARBAGE),
]
"""Such as a router of several models, one that asks for a key, another server in its place."""


@pytest.mark.parametrize("reply", TELLS_NOTHING)
def test_a_server_that_does_not_tell_gives_back_by_time(reply: Any) -> None:
    async def story(bench: Bench) -> None:
        bench.drain("a", seconds=1.0)
        bench.drain("b", seconds=2.0)
        await asyncio.sleep(0.99)
        assert (bench.freed, bench.watch.is_source) == ([], False)
        await asyncio.sleep(0.3)
        assert bench.freed == ["a"]
        await asyncio.sleep(1)
        assert (bench.freed, bench.overdue) == (["a", "b"], [])
        bench.watch.forget()
        assert bench.watch.is_source

    play(story, reply)


def test_one_that_did_not_tell_once_is_asked_again_later() -> None:
    async def story(bench: Bench) -> None:
        bench.drain("a", seconds=0.5)
        await asyncio.sleep(REFUSED_SECONDS + 1)
        assert (bench.freed, bench.watch.is_source) == (["a"], True)

    play(story, (404, b""))


@pytest.mark.parametrize("kind", ["auto", "ollama", "vllm", "openai", "anthropic"])
def test_only_llama_server_tells(kind: str) -> None:
    async def story(bench: Bench) -> None:
        assert not bench.watch.is_source
        bench.upstream.speech.kind = "llama-server"
        assert bench.watch.is_source

    play(story, busy(0), kind=kind)
