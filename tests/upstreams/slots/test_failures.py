"""Servers that break off, hang or are gone, and faults of ours: what drains is given back, and the watch goes on."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from puppet import LIVENESS_SECONDS, Connection, Puppet, refusing_port

from llmgate.upstreams import slots
from llmgate.upstreams.answer import Timeouts
from llmgate.upstreams.slots import (
    FIRST_SECONDS,
    SlotWatch,
)
from llmgate.upstreams.transport import WireTransport
from llmgate.upstreams.upstream import Upstream
from tests.upstreams.slot_bench import BROKEN, DOWN, LATE, Bench, busy, hold_back, play


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
