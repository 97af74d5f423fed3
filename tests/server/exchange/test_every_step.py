"""F32 without a list of hooks: at each step of a request's task in turn, what it waited for raises instead.

`test_faults` names the places where something may go wrong; here the places are counted, so that none is forgotten: a
request is played again and again, and the error comes up at its first, second, third … wake-up, until it has no more.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any

import pytest
from gateprocess import MESSAGES, request_body
from rawclient import post
from virtual_loop import this_loop

from llmgate.errors import GateError
from tests.server.exchange.test_faults import ENDS, probe_cap
from tests.server.faults import ERRORS, STORIES, Story
from tests.server.house import UPSTREAM, logged
from tests.server.stage import Stage, Wire, pass_time, play
from tests.server.states import begin_first


class Stepped(Coroutine[Any, Any, Any]):
    """A coroutine that is thrown an error at its `at`th wake-up, whatever it is woken with."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], at: int, error: BaseException) -> None:
        self.struck = False
        self._coroutine = coroutine
        self._left = at
        self._error = error

    def send(self, value: Any) -> Any:
        if self._left == 0 and not self.struck:
            self.struck = True
            return self._coroutine.throw(self._error)
        self._left -= 1
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        raise NotImplementedError("only a task steps it")


class Steps:
    """The first request that comes while it is installed is struck at its `at`th wake-up (1: the first one)."""

    def __init__(self, at: int, error: BaseException) -> None:
        self.error = error
        self._at = at
        self._stepped: Stepped | None = None

    @property
    def struck(self) -> bool:
        return self._stepped is not None and self._stepped.struck

    @contextmanager
    def installed(self) -> Generator[None]:
        loop = this_loop()
        loop.set_task_factory(self._make)
        try:
            yield
        finally:
            loop.set_task_factory(None)

    def _make(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        if self._stepped is None and "run_asgi" in coroutine.__qualname__:
            coroutine = self._stepped = Stepped(coroutine, self._at, self.error)
        return asyncio.Task(coroutine, loop=loop, **options)


class Turns:
    """The first request that comes while it is installed is cancelled so many turns of the loop after it began."""

    error = asyncio.CancelledError()

    def __init__(self, after: int) -> None:
        self.struck = False
        self._left = after
        self._task: asyncio.Task[Any] | None = None

    @contextmanager
    def installed(self) -> Generator[None]:
        loop = this_loop()
        loop.set_task_factory(self._make)
        try:
            yield
        finally:
            loop.set_task_factory(None)

    def _make(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
        if self._task is None and "run_asgi" in coroutine.__qualname__:
            self._task = task
            loop.call_soon(self._count)
        return task

    def _count(self) -> None:
        assert self._task is not None
        if self._left > 0:
            self._left -= 1
            this_loop().call_soon(self._count)
        else:
            self.struck = self._task.cancel()


def check_told_once(stage: Stage, wire: Wire) -> None:
    """One answer, with one error; or all of it; or a connection that broke off and holds nothing that looks whole."""
    answer = wire.answer
    if answer.is_whole:
        assert answer.body.endswith(ENDS)
        assert stage.outcomes == ["completed"]
    elif answer.ended:
        assert answer.errors == 1
    else:
        assert wire.gone
        assert answer.errors == 0


class SlowBody(Stage):
    """Each client sends its body some turns after its head."""

    def ask(self, *, stream: bool = True, path: str = MESSAGES, model: str = "m", **headers: str) -> Wire:
        wire = self.connect()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        head, end, body = post(path, request_body(model, stream=stream), named).partition(b"\r\n\r\n")
        wire.send(head + end)
        this_loop().call_later(0, wire.send, body[:9])
        this_loop().call_later(0, this_loop().call_soon, wire.send, body[9:])
        return wire


WAITING_STORIES = [story for story in STORIES if not story.max_wait]
"""The others come to their end without ever waiting."""


@pytest.mark.parametrize("error", ERRORS, ids=lambda make: type(make()).__name__)
@pytest.mark.parametrize("story", WAITING_STORIES, ids=lambda story: story.name.replace(" ", "-"))
def test_f32_at_each_wake_up(story: Story, error: Callable[[], BaseException]) -> None:
    struck = [count_strikes(story, make_stage, error) for make_stage in (Stage, SlowBody)]
    assert struck[0] >= 2
    assert struck[1] >= struck[0] + 1, "the body is waited for, too"


def count_strikes(story: Story, make_stage: Callable[..., Stage], error: Callable[[], BaseException]) -> int:
    at = 1
    while strike(story, make_stage, Steps(at, error())):
        at += 1
    return at - 1


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name.replace(" ", "-"))
def test_f32_cancelled_by_others_in_each_turn_of_the_loop(story: Story) -> None:
    """Whether it was just woken or not."""
    after = 0
    while strike(story, SlowBody, Turns(after)):
        after += 1
    assert after >= 2


def strike(story: Story, make_stage: Callable[..., Stage], steps: "Steps | Turns") -> bool:
    """Whether the request went on so long."""
    with logged() as told:
        play(tell(story, make_stage, steps))
    assert len(told) <= 1, told
    assert told or not steps.struck or isinstance(steps.error, (GateError, asyncio.CancelledError))
    return steps.struck


async def tell(story: Story, make_stage: Callable[..., Stage], steps: "Steps | Turns") -> None:
    stage = make_stage(upstream={"kind": story.kind, "on_down": "hold"})
    if story.waits:
        await begin_first(stage)
    with steps.installed():
        wire = await story.tell(stage)
    if steps.struck:
        check_told_once(stage, wire)
        if type(steps.error) is ValueError and make_stage is Stage and wire.answer.errors:
            assert b"(INTERNAL)" in wire.answer.body
    wire.leave()
    stage.set_cap(1)
    if story.waits:
        stage.calls[0].end(stage.calls[0].spoken.rest)
    await pass_time(1)
    stage.services.admission.set_endpoint(UPSTREAM, UPSTREAM, up=True)
    stage.check_empty()
    await probe_cap(stage)
    stage.check_over()
