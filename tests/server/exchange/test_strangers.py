"""Others use the server beside the gate: a request that has its slot is sent when the server can take it."""

import asyncio
from typing import Any

import pytest
from hands import ANSWER

from tests.server.house import UPSTREAM
from tests.server.stage import Stage, Wire, play, settle

PATHS = pytest.mark.parametrize("path", ["/llm/v1/messages", "/llm/upstream/reasoning/completion"])


class Watch:
    """Of a server that is full of what others sent, until `free` is set."""

    is_source = False

    def __init__(self) -> None:
        self.has_strangers = True
        self.free = asyncio.Event()
        self.waiting = 0

    async def wait_for_room(self, seconds: float) -> None:
        assert seconds > 0
        self.waiting += 1
        await self.free.wait()


def begin(path: str) -> tuple[Stage, Watch, Wire]:
    stage, watch = Stage(upstream={"passthrough": True, "max_concurrent": 1}), Watch()
    stage.services.slot_watches = {UPSTREAM: watch}  # type: ignore[dict-item]
    return stage, watch, stage.ask(path=path)


@PATHS
def test_it_is_sent_when_there_is_room(path: str) -> None:
    async def main() -> None:
        stage, watch, wire = begin(path)
        await settle()
        assert (watch.waiting, len(stage.calls), stage.taken) == (1, 0, (0, 1, 0))
        watch.free.set()
        await settle()
        await serve(stage)
        assert wire.answer.body == ANSWER
        stage.check_over()

    play(main())


@PATHS
def test_one_whose_client_leaves_meanwhile_is_never_sent(path: str) -> None:
    async def main() -> None:
        stage, watch, wire = begin(path)
        await settle()
        wire.leave()
        await settle()
        watch.free.set()
        await settle()
        assert (stage.calls, stage.outcomes) == ([], ["client_gone"])
        stage.check_over()

    play(main())


def test_nobody_waits_where_no_stranger_was_seen() -> None:
    async def main() -> None:
        stage, watch, wire = begin("/llm/v1/messages")
        watch.has_strangers = False
        await settle()
        await serve(stage)
        assert (watch.waiting, wire.answer.body) == (0, ANSWER)
        stage.check_over()

    play(main())


async def serve(stage: Stage) -> None:
    (call,) = stage.calls
    call.connect()
    await settle()
    call.head(200)
    await settle()
    call.end(ANSWER)
    await settle()


def asides(stage: Stage) -> Any:
    return stage.services.upstreams[UPSTREAM].asides


def test_what_needs_no_slot_is_known_while_it_runs() -> None:
    async def main() -> None:
        stage = Stage(upstream={"passthrough": True})
        wire = stage.connect()
        wire.send(b"GET /llm/upstream/reasoning/props HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await settle()
        assert (asides(stage), stage.taken) == (1, (0, 0, 0))
        await serve(stage)
        assert asides(stage) == 0
        left = stage.connect()
        left.send(b"GET /llm/upstream/reasoning/props HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await settle()
        assert asides(stage) == 1
        left.leave()
        await settle()
        assert asides(stage) == 0

    play(main())
