"""What went wrong, as one client is told: with a status, or as the last event of its stream."""

import json

import pytest
from anthropic_check import read_events

from llmgate.errors import (
    BadRequest,
    BodyTimeout,
    BodyTooLarge,
    GateError,
    QueueFull,
    QueueTimeout,
    Refused,
    UnknownModel,
    UpstreamFailed,
)
from llmgate.protocols.upstream_error import UpstreamTold
from llmgate.server.destination import Destination
from tests.server.booth import Booth, on_stage
from tests.server.house import UPSTREAM
from tests.server.stage import play

FAILED = UpstreamFailed("llmgate: it broke (UPSTREAM_ERROR)")
LATE = QueueTimeout("llmgate: too late (QUEUE_TIMEOUT)", depth=3)
FULL = QueueFull("llmgate: it is full (QUEUE_FULL)", depth=4, limit=4)


@on_stage
async def test_an_error_before_anything_was_sent_has_its_status() -> None:
    booth = Booth()
    await booth.come()
    booth.voice.tell_error(FAILED)
    assert (booth.status, booth.ended) == (502, True)
    assert json.loads(booth.body) == {
        "type": "error",
        "error": {"type": "api_error", "message": "llmgate: it broke (UPSTREAM_ERROR)"},
        "request_id": "req_1",
    }
    assert booth.headers["content-type"] == "application/json"
    assert booth.headers["llmgate-code"] == "UPSTREAM_ERROR"
    assert not {"x-should-retry", "retry-after", "connection", "llmgate-depth"} & booth.headers.keys()
    booth.close()


def test_an_error_in_an_open_stream_is_its_last_event() -> None:
    async def main() -> None:
        booth = Booth()
        await booth.occupy()
        telling = await booth.come()
        booth.voice.tell_error(LATE)
        assert (booth.status, booth.ended) == (200, True)
        name, told = read_events(booth.body)[-1]
        assert (name, told["error"]["type"], told["request_id"]) == ("error", "timeout_error", "req_1")
        telling.cancel()
        booth.close()

    play(main())


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        (FULL, {"llmgate-depth": "4", "llmgate-limit": "4", "x-should-retry": "false", "retry-after": "1"}),
        (LATE, {"llmgate-depth": "3", "x-should-retry": "false", "retry-after": "1"}),
        (Refused("llmgate: no (REFUSED)"), {"llmgate-depth": "0", "x-should-retry": "false", "retry-after": "1"}),
        (BodyTooLarge("llmgate: too large (BODY_TOO_LARGE)"), {"connection": "close"}),
        (BodyTimeout("llmgate: too slow (BODY_TIMEOUT)"), {"connection": "close"}),
        (BadRequest("llmgate: bad (BAD_REQUEST)"), {}),
        (UnknownModel("llmgate: who (UNKNOWN_MODEL)"), {}),
        (GateError("llmgate: ours (INTERNAL)"), {}),
    ],
    ids=lambda value: getattr(value, "code", None),
)
def test_headers_of_an_error(error: GateError, headers: dict[str, str]) -> None:
    """The gate's own, when nothing is known of the request but its id."""

    async def main() -> None:
        booth = Booth()
        booth.voice.destination = Destination(booth.services, UPSTREAM)
        booth.voice.tell_error(error)
        own = {"content-type": "application/json", "llmgate-request-id": "req_1", "llmgate-upstream": UPSTREAM}
        length = {"content-length": str(len(booth.body))}
        assert (booth.status, booth.headers) == (error.status, own | length | {"llmgate-code": error.code} | headers)

    play(main())


@on_stage
async def test_the_depth_of_one_that_waited_is_that_of_its_arrival() -> None:
    booth = Booth()
    await booth.occupy(2)
    telling = await booth.come(streams=False)
    booth.voice.tell_error(LATE)
    assert (booth.status, booth.headers["llmgate-depth"], booth.headers["llmgate-position"]) == (504, "2", "2")
    telling.cancel()
    booth.close()


@pytest.mark.parametrize(
    ("runs", "slots", "seconds"),
    [([], 1, "1"), ([0.2], 1, "1"), ([6.0, 4.0, 5.0], 1, "5"), ([8.0], 2, "4"), ([90.0], 1, "10"), ([8.0], 0, "8")],
)
def test_retry_after_tells_when_a_slot_may_fall_free(runs: list[float], slots: int, seconds: str) -> None:
    async def main() -> None:
        booth = Booth(upstream={"max_concurrent": slots})
        booth.voice.destination = Destination(booth.services, UPSTREAM)
        booth.ledger.figures(UPSTREAM).runs.extend(runs)
        booth.voice.tell_error(LATE)
        assert booth.headers["retry-after"] == seconds

    play(main())


# ---- the upstream's errors


GIVEN = [(b"content-type", b"text/html"), (b"retry-after", b"7")]


@pytest.mark.parametrize(
    ("status", "body", "shown", "kind", "message"),
    [
        (429, b'{"error":{"message":"slowly"}}', 429, "rate_limit_error", "slowly"),
        (404, b'{"error":"model not found"}', 404, "not_found_error", "model not found"),
        (
            500,
            b'{"error":{"message":"\'messages\' is required"}}',
            400,
            "invalid_request_error",
            "'messages' is required",
        ),
        (
            400,
            b'{"error":{"message":"too long","n_prompt_tokens":9,"n_ctx":5}}',
            400,
            "invalid_request_error",
            "prompt is too long: 9 tokens > 5 maximum",
        ),
    ],
)
@pytest.mark.parametrize("opened", [False, True])
def test_an_upstreams_error(status: int, body: bytes, shown: int, kind: str, message: str, opened: bool) -> None:
    """Put into the surface's shape, with the upstream's headers but for the type of its body."""

    async def main() -> None:
        booth = Booth()
        await booth.come()
        if opened:
            booth.voice.open_stream([])
        booth.voice.tell_upstream_error(status, GIVEN, body)
        assert booth.ended
        told = read_events(booth.body)[-1][1] if opened else json.loads(booth.body)
        assert (told["error"]["type"], told["error"]["message"]) == (kind, message)
        if opened:
            assert booth.status == 200
        else:
            assert (booth.status, booth.headers["content-type"]) == (shown, "application/json")
            assert (booth.headers["retry-after"], booth.headers["llmgate-upstream"]) == ("7", UPSTREAM)
        booth.close()

    play(main())


@pytest.mark.parametrize("opened", [False, True])
def test_an_error_that_was_told_within_an_answer_is_an_upstreams(opened: bool) -> None:
    """With the status that it would have had, while a status can be told."""

    async def main() -> None:
        booth = Booth()
        await booth.come()
        if opened:
            booth.voice.open_stream([])
        booth.voice.tell_error(UpstreamTold(429, b'{"error":{"message":"slowly"}}'))
        told = read_events(booth.body)[-1][1] if opened else json.loads(booth.body)
        assert (told["error"]["type"], told["error"]["message"]) == ("rate_limit_error", "slowly")
        assert (booth.status, booth.ended) == (200 if opened else 429, True)
        booth.close()

    play(main())
