"""A slot that drains is given back when the server is free of it for certain, and not before."""

import asyncio
import json
import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from puppet import LIVENESS_SECONDS, Connection, Puppet, refusing_port
from virtual_loop import run, this_loop, turns

from llmgate.core.drift import LASTING_SECONDS
from llmgate.errors import UpstreamDown, UpstreamFailed, UpstreamTimeout
from llmgate.upstreams import slots
from llmgate.upstreams.answer import Done, OnDone, Timeouts
from llmgate.upstreams.slot_source import REFUSED_SECONDS
from llmgate.upstreams.slots import (
    FIRST_SECONDS,
    HIDDEN_WAIT_SECONDS,
    LAST_SECONDS,
    ROOM_SECONDS,
    UNSEEN_SECONDS,
    SlotWatch,
)
from llmgate.upstreams.transport import WireTransport
from llmgate.upstreams.upstream import Upstream

Reply = tuple[int, bytes] | Exception | Callable[[], Awaitable[tuple[int, bytes]]]

DOWN = UpstreamDown("llmgate: no (UPSTREAM_DOWN)")
LATE = UpstreamTimeout("llmgate: late (UPSTREAM_TIMEOUT)")
BROKEN = UpstreamFailed("llmgate: broken (UPSTREAM_ERROR)")
GARBAGE = [b"", b"{}", b"[1]", b'[{"id":0}]', b'[{"is_processing":"yes"}]', b"<html>", b"[" * 100_000, b"\xff\xfe"]


def busy(count: int, of: int = 4) -> tuple[int, bytes]:
    """What llama-server answers (shortened), with so many slots at work."""
    return 200, json.dumps(
        [{"id": number, "n_ctx": 4096, "is_processing": number < count} for number in range(of)]
    ).encode()


class Told:
    """The whole answer of a server."""

    headers: list[tuple[bytes, bytes]] = []  # noqa: RUF012
    ended = True

    def __init__(self, status: int, body: bytes) -> None:
        self.status, self.body = status, body

    async def read(self, limit: int) -> bytes:
        assert len(self.body) < limit
        return self.body

    def close(self, error: Any = None) -> None: ...
    def start(self, sink: Any) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


class Server:
    """A transport to a server that answers as the test says; the last answer again and again."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = deque(replies)
        self.asked: list[float] = []
        """When."""
        self.targets: list[bytes] = []

    async def open(
        self, method: bytes, target: bytes, headers: Any, body: bytes, timeouts: Timeouts, on_done: OnDone
    ) -> Told:
        assert method == b"GET"
        self.targets.append(target)
        assert None not in (timeouts.connect, timeouts.first_byte, timeouts.total)
        self.asked.append(asyncio.get_running_loop().time())
        reply = self.replies.popleft() if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        status, body = reply if isinstance(reply, tuple) else await reply()
        on_done(Done.ENDED, None)
        return Told(status, body)

    async def aclose(self) -> None:
        """Nothing is open."""


class Bench:
    """A watch of a server, with what it gave back and which alarms it told."""

    def __init__(self, *replies: Reply, kind: Any = "llama-server") -> None:
        self.server = Server(*replies)
        self.upstream = Upstream("reasoning", self.server, kind=kind)
        self.traffic = self.upstream.traffic
        self.freed: list[str] = []
        """What was given back, and "down" where it was told that the server is."""
        self.overdue: list[bool] = []
        self.hidden: list[bool] = []
        self.watch = SlotWatch(
            self.upstream, lambda: self.freed.append("down"), self.overdue.append, self.hidden.append, this_loop().time
        )

    def drain(self, *names: str, seconds: float = 1.0) -> None:
        for name in names:
            self.watch.follow(lambda name=name: self.freed.append(name), seconds)  # type: ignore[misc]

    def work_on(self, *names: str) -> None:
        """They run there, and have their heads."""
        for name in names:
            self.traffic.sent(name, this_loop().time())
            self.traffic.answered(name)


def play(story: Callable[[Bench], Awaitable[None]], *replies: Reply, kind: Any = "llama-server") -> Bench:
    """Runs it in virtual time, beside the watch."""

    async def main() -> Bench:
        bench = Bench(*replies, kind=kind)
        running = asyncio.get_running_loop().create_task(bench.watch.run())
        await turns()
        await story(bench)
        assert not running.done()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return bench

    return run(main())


# ---- given back


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


# ---- broken off


@pytest.mark.parametrize(
    ("reply", "down"),
    [
        (DOWN, ["down"]),
        (LATE, []),
        (BROKEN, ["down"]),
        ((200, b"{}"), []),
        ((404, b""), []),
        ((502, b"a page"), ["down"]),
        ((503, b"loading"), ["down"]),
    ],
)
def test_after_it_broke_off_it_is_asked_whether_it_is_there(reply: Any, down: list[str]) -> None:
    async def story(bench: Bench) -> None:
        for name in "ab":
            bench.watch.knock(lambda name=name: bench.freed.append(name))  # type: ignore[misc]
        await asyncio.sleep(FIRST_SECONDS * 0.9)
        assert (bench.freed, bench.server.asked) == ([], [])
        await asyncio.sleep(FIRST_SECONDS)
        assert bench.freed == [*down, "a", "b"]
        assert bench.server.targets == [b"/health"]
        await asyncio.sleep(10)
        assert bench.freed == [*down, "a", "b"]

    play(story, reply, kind="vllm")


def test_one_that_breaks_off_meanwhile_is_asked_for_anew() -> None:
    async def story(bench: Bench) -> None:
        async def answer_late() -> tuple[int, bytes]:
            bench.watch.knock(lambda: bench.freed.append("b"))
            return 200, b""

        bench.server.replies.appendleft(answer_late)
        bench.watch.knock(lambda: bench.freed.append("a"))
        await asyncio.sleep(FIRST_SECONDS * 1.5)
        assert bench.freed == ["a"]
        await asyncio.sleep(FIRST_SECONDS)
        assert bench.freed == ["a", "down", "b"]

    play(story, DOWN)


# ---- alarms


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


def hold_back(bench: Bench, name: str = "h") -> None:
    bench.traffic.sent(name, this_loop().time())


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


# ---- it goes on


MISHAP = ["the slots of reasoning could not be watched"]


@pytest.mark.parametrize("drains", [True, False])
def test_what_goes_wrong_inside_ends_nothing(caplog: pytest.LogCaptureFixture, drains: bool) -> None:
    async def story(bench: Bench) -> None:
        bench.server.replies.appendleft(ZeroDivisionError())
        if drains:
            bench.drain("a")
        else:
            hold_back(bench)
        await asyncio.sleep(5)
        assert (bench.freed, bench.hidden) == ((["a"], []) if drains else ([], [True]))

    play(story, busy(0) if drains else busy(4))
    assert [record.getMessage() for record in caplog.records] == MISHAP


def test_a_question_that_goes_wrong_inside_gives_back_what_was_broken_off(caplog: pytest.LogCaptureFixture) -> None:
    async def story(bench: Bench) -> None:
        bench.watch.knock(lambda: bench.freed.append("a"))
        await asyncio.sleep(1)
        assert bench.freed == ["a"]

    play(story, ZeroDivisionError())
    assert [record.getMessage() for record in caplog.records] == MISHAP


def test_one_that_cannot_be_given_back_does_not_keep_the_others(caplog: pytest.LogCaptureFixture) -> None:
    async def story(bench: Bench) -> None:
        def fail() -> None:
            raise ZeroDivisionError

        bench.watch.follow(fail, 1.0)
        bench.drain("a")
        await asyncio.sleep(1)
        assert bench.freed == ["a"]

    play(story, busy(0))
    assert [record.getMessage() for record in caplog.records] == MISHAP


# ---- over real sockets


@asynccontextmanager
async def watched(url: str) -> AsyncIterator[tuple[SlotWatch, list[Any], list[bool]]]:
    freed: list[Any] = []
    overdue: list[bool] = []
    upstream = Upstream("reasoning", WireTransport(url), kind="llama-server")
    watch = SlotWatch(upstream, lambda: freed.append("down"), overdue.append, overdue.append)
    running = asyncio.get_running_loop().create_task(watch.run())
    try:
        yield watch, freed, overdue
    finally:
        running.cancel()
        await asyncio.wait([running])
        await upstream.aclose()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIVENESS_SECONDS):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def send(connection: Connection, status: int, body: bytes) -> None:
    await connection.send(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body))


async def test_a_server_that_counts_down() -> None:
    counts = iter([2, 2, 1, 1, 0])

    async def script(connection: Connection) -> None:
        while True:
            request = await connection.read_request()
            assert request.line == b"GET /slots HTTP/1.1"
            await send(connection, *busy(next(counts)))

    async with Puppet(script) as puppet, watched(puppet.url) as (watch, freed, _):
        for name in "ab":
            watch.follow(lambda name=name: freed.append((name, len(puppet.requests))), 10.0)
        await until(lambda: len(freed) == 2)
        assert freed == [("a", 3), ("b", 5)]


async def test_a_server_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its silence gives nothing back; when it speaks again, that does."""
    monkeypatch.setattr(slots, "_TIMEOUTS", Timeouts(connect=0.1, first_byte=0.1, idle=0.1, total=0.1))

    async def script(connection: Connection) -> None:
        await connection.read_request()
        if connection.number < 2:
            await connection.wait_closed()
        else:
            await send(connection, *busy(0))

    async with Puppet(script) as puppet, watched(puppet.url) as (watch, freed, overdue):
        watch.follow(lambda: freed.append(len(puppet.requests)), 0.05)
        await until(lambda: freed)
        assert freed[0] > 2, "on a busy machine even an answer may come too late"
        await until(lambda: overdue == [True, False])


async def test_a_server_that_is_gone() -> None:
    with refusing_port() as port:
        async with watched(f"http://127.0.0.1:{port}") as (watch, freed, _):
            watch.follow(lambda: freed.append("a"), 60.0)
            await until(lambda: freed == ["down", "a"])


# ---- others at the server


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
