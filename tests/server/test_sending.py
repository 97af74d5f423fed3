"""A slot from its place to its return: what an answer makes of it. The fates of each kind of request: its own tests."""

import pytest

from llmgate.errors import UpstreamFailed
from llmgate.server import exchange
from llmgate.server.sending import check_status
from llmgate.upstreams.answer import NO_TIMEOUTS
from llmgate.upstreams.wire import WireAnswer
from tests.server.passing import PassStage
from tests.server.stage import PLAIN, Stage, play, settle
from tests.server.states import connecting

SECRET = "sk-of-our-own-1"


@pytest.mark.parametrize(
    ("status", "over"), [(404, 1), *((status, over) for status in (400, 429, 500, 503) for over in (0, 1))]
)
def test_an_error_that_is_too_long_only_in_its_last_piece(
    status: int, over: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its message ended, so the slot is free; but no client got it."""
    monkeypatch.setattr(exchange, "LARGEST_ERROR", 20)

    async def main() -> None:
        stage = Stage()
        wire = await connecting(stage)
        (call,) = stage.calls
        call.connect()
        await settle()
        call.head(status, PLAIN)
        await settle()
        call.piece(b"x" * 10)
        await settle()
        call.end(b"x" * (10 + over))
        await settle()
        fault = over or status in (429, 500, 503)
        assert (wire.answer.status, stage.outcomes) == (502 if over else status, [OUTCOMES[bool(fault)]])
        stage.check_over()

    play(main())


OUTCOMES = ["completed", "upstream_error"]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status", [200, 404, 503])
def test_no_header_of_an_answer_tells_a_secret_of_ours(stream: bool, status: int) -> None:
    """Whether it is passed on as a stream, whole, or as an error."""

    async def main() -> None:
        stage = Stage(upstream={"headers": {"authorization": f"Bearer {SECRET}"}})
        wire = await connecting(stage) if stream else stage.ask(stream=False)
        await settle()
        (call,) = stage.calls
        call.connect()
        await settle()
        kind = b"text/event-stream" if stream and status == 200 else b"application/json"
        call.head(status, [(b"content-type", kind), (b"x-request-id", b"of " + SECRET.encode())])
        await settle()
        call.end(call.spoken.start + call.spoken.rest if stream and status == 200 else call.spoken.whole)
        await settle()
        assert (wire.answer.status, wire.answer.headers["x-request-id"]) == (status, "of ***")
        assert SECRET.encode() not in wire.received
        stage.check_over()

    play(main())


@pytest.mark.parametrize("status", [200, 599, 600, 999])
async def test_a_status_that_http_does_not_have(status: int) -> None:
    answer = WireAnswer(NO_TIMEOUTS, lambda _, __: None)
    answer.status = status
    if status > 599:
        with pytest.raises(UpstreamFailed):
            check_status(answer)
    else:
        check_status(answer)


@pytest.mark.parametrize("passed_on", [False, True])
def test_what_its_client_is_ready_to_wait_is_known_of_it(*, passed_on: bool) -> None:
    """Whoever counts those who are near to a timeout tells it from queue_timeout."""

    async def main() -> None:
        stage = PassStage()
        wish = {"llmgate-max-wait": "2s"}
        wire = stage.pass_on(**wish) if passed_on else stage.ask(**wish)
        await settle()
        assert [record.caller.max_wait for record in stage.ledger.live()] == [2.0]
        wire.leave()
        await settle()

    play(main())
