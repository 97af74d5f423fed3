"""A stream that told its end in a message that goes on: the client and the slot wait for the rest a moment only."""

import json

import pytest
from gateprocess import CHAT, MESSAGES
from hands import CHAT_ANSWER, CHAT_START, START, STOP, delta

from llmgate.server.exchange import GRACE_SECONDS
from llmgate.upstreams.answer import Done
from tests.server.schedule import CHAT_ERROR, UPSTREAM_ERROR
from tests.server.stage import Stage, Wire, pass_time, play, settle
from tests.server.states import streaming

FOREIGN = b'event: error\ndata: {"code":500,"message":"slot lost","type":"server_error"}\n\n'
ENDS = pytest.mark.parametrize(
    ("end", "outcome"),
    [(STOP, "completed"), (UPSTREAM_ERROR, "upstream_error"), (FOREIGN, "upstream_error")],
    ids=["complete", "failed", "foreign"],
)


async def told(stage: Stage, end: bytes) -> Wire:
    """The end of the stream is here, that of the message is not."""
    wire = await streaming(stage)
    stage.calls[0].piece(end)
    await settle()
    assert not wire.answer.ended
    assert stage.taken == (0, 1, 0)
    return wire


@ENDS
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_message_that_does_not_end_is_cut(end: bytes, outcome: str, goes_on: bool) -> None:
    async def main() -> None:
        stage = Stage()
        wire = await told(stage, end)
        await pass_time(GRACE_SECONDS - 0.01)
        if goes_on:
            stage.calls[0].piece(b": still here\n\n")
        await settle()
        assert (wire.answer.ended, stage.taken) == (False, (0, 1, 0))
        await pass_time(0.011)
        await settle()
        assert wire.answer.ended
        assert wire.answer.body.startswith(START)
        assert wire.answer.errors == (outcome != "completed")
        assert (stage.outcomes, stage.taken, stage.upstreams.dones) == ([outcome], (0, 0, 1), [Done.CUT])
        await pass_time(0.03)
        stage.check_over()

    play(main())


@ENDS
def test_one_that_ends_in_time_drains_not(end: bytes, outcome: str) -> None:
    async def main() -> None:
        stage = Stage()
        wire = await told(stage, end)
        await pass_time(GRACE_SECONDS - 0.01)
        stage.calls[0].end()
        await settle()
        assert wire.answer.ended
        assert (stage.outcomes, stage.taken, stage.upstreams.dones) == ([outcome], (0, 0, 0), [Done.ENDED])
        await pass_time(1)
        stage.check_over()

    play(main())


@ENDS
def test_a_client_that_leaves_meanwhile_takes_nothing_with_it(end: bytes, outcome: str) -> None:
    async def main() -> None:
        stage = Stage()
        wire = await told(stage, end)
        await pass_time(0.2)
        wire.leave()
        await settle()
        assert stage.taken == (0, 1, 0)
        await pass_time(GRACE_SECONDS + 0.01)
        assert (stage.outcomes, stage.taken) == ([outcome], (0, 0, 1))
        await pass_time(0.03)
        stage.check_over()

    play(main())


def test_the_end_waits_for_no_slow_client() -> None:
    async def main() -> None:
        stage = Stage()
        wire = await streaming(stage)
        wire.block()
        stage.calls[0].piece(delta("x" * 100_000))
        stage.calls[0].piece(delta("x"))
        await settle()
        assert stage.calls[0].paused
        stage.calls[0].piece(STOP)
        await settle()
        assert not stage.calls[0].paused
        stage.calls[0].end()
        await settle()
        assert (stage.outcomes, stage.taken) == (["completed"], (0, 0, 0))
        await pass_time(GRACE_SECONDS + 0.01)
        wire.unblock()
        await settle()
        assert wire.answer.is_whole
        stage.check_over()

    play(main())


def test_a_slow_client_still_gets_its_end_after_the_cut() -> None:
    async def main() -> None:
        stage = Stage()
        wire = await streaming(stage)
        wire.block()
        stage.calls[0].piece(delta("x"))
        stage.calls[0].piece(STOP)
        await pass_time(GRACE_SECONDS + 0.01)
        assert (stage.outcomes, stage.taken) == (["completed"], (0, 0, 1))
        wire.unblock()
        await settle()
        assert wire.answer.is_whole
        assert wire.answer.body == START + delta("x") + STOP
        await pass_time(0.03)
        stage.check_over()

    play(main())


@pytest.mark.parametrize("in_time", [False, True])
def test_so_does_an_answer_that_is_put_together(in_time: bool) -> None:
    async def main() -> None:
        stage = Stage(upstream={"force_stream": True})
        wire = stage.ask(stream=False, path=CHAT)
        await settle()
        (call,) = stage.calls
        call.connect()
        await settle()
        call.head()
        await settle()
        call.piece(CHAT_START)
        call.piece(CHAT_ANSWER.removeprefix(CHAT_START))
        await pass_time(GRACE_SECONDS - 0.01)
        assert (wire.received, stage.taken) == (b"", (0, 1, 0))
        if in_time:
            call.end()
        await pass_time(0.011)
        await settle()
        assert wire.answer.is_whole
        assert json.loads(wire.answer.body)["choices"]
        assert (stage.outcomes, stage.taken) == (["completed"], (0, 0, 0 if in_time else 1))
        await pass_time(0.03)
        stage.check_over()

    play(main())


@pytest.mark.parametrize(("path", "own"), [(MESSAGES, UPSTREAM_ERROR), (CHAT, CHAT_ERROR)])
@pytest.mark.parametrize("fault", [FOREIGN, b'data: {"object":"error","message":"slot lost","code":500}\n\n'])
def test_an_error_of_a_foreign_shape_fails_the_request(path: str, own: bytes, fault: bytes) -> None:
    async def main() -> None:
        stage = Stage()
        wire = stage.ask(path=path)
        await settle()
        (call,) = stage.calls
        call.connect()
        await settle()
        call.head()
        await settle()
        call.piece(call.spoken.start)
        call.end(fault + b"data: [DONE]\n\n")
        await settle()
        rest = wire.answer.body.removeprefix(call.spoken.start)
        assert wire.answer.ended
        assert rest.startswith(own[:14])
        assert rest.endswith(b"data: [DONE]\n\n") is (path == CHAT)
        assert b"slot lost" in rest
        assert (path == CHAT) is (b'"request_id":"req_' not in rest)
        assert stage.outcomes == ["upstream_error"]
        stage.check_over()

    play(main())
