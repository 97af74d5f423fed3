"""States of one request on the stage: each plays it to where something may happen to it, and hands back its socket."""

from collections.abc import Awaitable, Callable

import pytest
from hands import CHAT_START, START, STOP, WHOLE, delta

from llmgate.errors import Refused
from tests.server.stage import PLAIN, Stage, Wire, settle

NO_SUCH_PATH = b'{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}'
"""As llama-server says it."""
NO_SUCH_MODEL = b'{"error":{"message":"The model `m` does not exist.","type":"NotFoundError","code":404}}'
"""As vLLM does."""


async def begin_first(stage: Stage) -> None:
    stage.ask()
    await settle()
    (call,) = stage.calls
    call.connect()
    await settle()
    call.head()
    await settle()
    call.piece(call.spoken.start)
    await settle()


STOPPING = Refused("llmgate: llmgate is stopping, this request was cut (REFUSED)")


async def waiting(stage: Stage) -> Wire:
    await begin_first(stage)
    wire = stage.ask()
    await settle()
    assert stage.taken == (1, 1, 0)
    return wire


async def waiting_in_silence(stage: Stage) -> Wire:
    await begin_first(stage)
    wire = stage.ask(stream=False)
    await settle()
    assert stage.taken == (1, 1, 0)
    return wire


async def just_granted(stage: Stage) -> Wire:
    """The slot is there, the request has not run since."""
    wire = await waiting(stage)
    stage.set_cap(2)
    return wire


async def connecting(stage: Stage) -> Wire:
    wire = stage.ask()
    await settle()
    return wire


async def before_the_headers(stage: Stage) -> Wire:
    wire = await connecting(stage)
    stage.calls[-1].connect()
    await settle()
    return wire


async def streaming(stage: Stage) -> Wire:
    wire = await before_the_headers(stage)
    stage.calls[-1].head()
    await settle()
    stage.calls[-1].piece(START)
    await settle()
    assert wire.answer.body == START
    return wire


async def streaming_after_a_wait(stage: Stage) -> Wire:
    wire = await just_granted(stage)
    await settle()
    call = stage.calls[-1]
    call.connect()
    await settle()
    call.head()
    await settle()
    call.piece(START)
    await settle()
    return wire


async def blocked(stage: Stage) -> Wire:
    wire = await streaming(stage)
    wire.block()
    stage.calls[-1].piece(delta("more"))
    await settle()
    assert stage.calls[-1].paused
    return wire


async def reading_a_whole(stage: Stage) -> Wire:
    wire = stage.ask(stream=False)
    await settle()
    call = stage.calls[-1]
    call.connect()
    await settle()
    call.head(200, PLAIN)
    await settle()
    call.piece(WHOLE[:10])
    await settle()
    return wire


async def reading_an_error(stage: Stage) -> Wire:
    wire = await before_the_headers(stage)
    stage.calls[-1].head(500, PLAIN)
    await settle()
    stage.calls[-1].piece(b"{")
    await settle()
    return wire


async def reading_a_refusal(stage: Stage) -> Wire:
    """The upstream begins to say that it has no such path."""
    wire = await before_the_headers(stage)
    stage.calls[-1].head(404, PLAIN)
    await settle()
    stage.calls[-1].piece(NO_SUCH_PATH[:9])
    await settle()
    return wire


async def just_learnt(stage: Stage) -> Wire:
    """The upstream has said so, the request has not run since."""
    wire = await reading_a_refusal(stage)
    stage.calls[-1].end(NO_SUCH_PATH[9:])
    return wire


async def connecting_again(stage: Stage) -> Wire:
    """It is asked once more, translated."""
    wire = await just_learnt(stage)
    await settle()
    assert stage.calls[-1].target == b"/v1/chat/completions"
    return wire


async def asking_again(stage: Stage) -> Wire:
    wire = await connecting_again(stage)
    stage.calls[-1].connect()
    await settle()
    return wire


async def streaming_translated(stage: Stage) -> Wire:
    wire = await asking_again(stage)
    stage.calls[-1].head()
    await settle()
    stage.calls[-1].piece(CHAT_START)
    await settle()
    assert b"text_delta" in wire.answer.body
    return wire


async def ended(stage: Stage) -> Wire:
    """The upstream's message is over, its last piece is not sent yet."""
    wire = await streaming(stage)
    stage.calls[-1].end(STOP)
    return wire


State = Callable[[Stage], Awaitable[Wire]]
WAITING: list[State] = [waiting, waiting_in_silence]
RUNNING: list[State] = [
    before_the_headers,
    streaming,
    streaming_after_a_wait,
    blocked,
    reading_a_whole,
    reading_an_error,
    reading_a_refusal,
    asking_again,
    streaming_translated,
]


async def finish_first(stage: Stage, wire: Wire) -> None:
    """Whoever had the slot before goes on to its end."""
    for call, other in zip(stage.calls, stage.wires, strict=False):
        if other is not wire and call.speaks:
            call.end(call.spoken.rest)
            await settle()
            assert other.answer.is_whole


def parametrize(states: list[State]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("state", states, ids=lambda state: state.__name__)


def check_refused(wire: Wire) -> None:
    answer = wire.answer
    assert (answer.ended, answer.errors) == (True, 1)
    assert b"this request was cut (REFUSED)" in answer.body
    if answer.status == 503:
        assert answer.headers["llmgate-code"] == "REFUSED"
        assert answer.headers["x-should-retry"] == "false"
