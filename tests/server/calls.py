"""Calls to the upstream of a stage, played by their paths: refused, answered whole, or on to their end."""

from anthropic_message import seen_in

from tests.server.stage import PLAIN, Call, Stage, Wire, settle
from tests.server.states import (
    NO_SUCH_PATH,
)

DIRECT, TRANSLATED = b"/v1/messages", b"/v1/chat/completions"


async def begin(call: Call, status: int) -> None:
    """Up to the head of its answer."""
    call.connect()
    await settle()
    call.head(status, PLAIN)
    await settle()


async def refuse(call: Call, status: int = 404, body: bytes = NO_SUCH_PATH) -> None:
    await begin(call, status)
    call.end(body)
    await settle()


async def answer(call: Call) -> None:
    """A whole stream."""
    call.connect()
    await settle()
    call.head()
    await settle()
    call.end(call.spoken.start + call.spoken.rest)
    await settle()


async def play_on(stage: Stage) -> None:
    """The oldest call that is open goes on to its end, from wherever it stands; so does the one that follows a 404."""
    call = next(call for call in stage.calls if not call.over)
    if not call.answer.has_head:
        await answer(call)
        return
    refused = call.answer.status == 404
    call.end(NO_SUCH_PATH[9:] if refused else call.spoken.rest)
    await settle()
    if refused:
        await answer(stage.calls[-1])


def targets(stage: Stage) -> list[bytes]:
    return [call.target for call in stage.calls]


def check_hello(wire: Wire) -> None:
    """One good message, and nothing of how it came about."""
    seen = seen_in(wire.answer.body)
    assert (seen.faults, seen.content) == ([], [{"type": "text", "text": "Hello"}])
    assert wire.answer.is_whole
