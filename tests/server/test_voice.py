"""What llmgate itself says to one client, in each of the ways it may be said, on a clock that the test moves."""

import json
from typing import Any

import pytest

from llmgate.errors import QueueTimeout, UpstreamFailed
from llmgate.protocols.surface import Surface
from llmgate.protocols.surfaces import CHAT, MESSAGES, OLLAMA_CHAT
from llmgate.server.wishes import QueueEvents
from tests.server.booth import SSE, Booth, on_stage, queue
from tests.server.house import UPSTREAM
from tests.server.stage import pass_time, play, settle

FAILED = UpstreamFailed("llmgate: it broke (UPSTREAM_ERROR)")
BLANKS = {"nonstream_keepalive": "whitespace"}


@on_stage
async def test_with_a_free_slot_nothing_is_told() -> None:
    booth = Booth()
    telling = await booth.come()
    assert telling.done()
    assert (booth.status, dict(booth.voice.headers())) == (
        None,
        {b"llmgate-request-id": b"req_1", b"llmgate-upstream": UPSTREAM.encode()},
    )
    booth.close()


@on_stage
async def test_positions_are_told_once_each_until_the_slot_is_there() -> None:
    booth = Booth()
    first, second = await booth.occupy(2)
    telling = await booth.come()
    assert (booth.status, booth.body) == (200, queue(2, 2))
    record = booth.ledger.record("req_1")
    assert record is not None
    assert record.queue_frames == 1
    assert booth.headers == {
        "content-type": SSE,
        "cache-control": "no-cache",
        "x-accel-buffering": "no",
        "llmgate-request-id": "req_1",
        "llmgate-upstream": UPSTREAM,
        "llmgate-position": "2",
        "llmgate-depth": "2",
    }
    await pass_time(1)
    first.leave("completed")
    await settle()
    assert booth.body == queue(2, 2) + queue(1, 1, 1000)
    assert record.queue_frames == 2
    later = booth.enter(5)
    await later.__aenter__()
    await settle()
    later.leave("abandoned")
    assert booth.body == queue(2, 2) + queue(1, 1, 1000)
    second.leave("completed")
    await settle()
    assert telling.done()
    assert booth.body == queue(2, 2) + queue(1, 1, 1000)
    booth.close()


@on_stage
async def test_once_the_wait_is_over_the_headers_tell_how_long_it_took() -> None:
    booth = Booth()
    (first,) = await booth.occupy()
    await booth.come(streams=False)
    await pass_time(1.25)
    assert b"llmgate-queued-ms" not in dict(booth.voice.headers())
    first.leave("completed")
    await settle()
    told = dict(booth.voice.headers())
    assert (told[b"llmgate-queued-ms"], told[b"llmgate-position"], told[b"llmgate-depth"]) == (b"1250", b"1", b"1")
    booth.close()


@on_stage
async def test_a_slow_client_is_told_the_newest_when_it_has_caught_up() -> None:
    booth = Booth()
    *leaving, last = await booth.occupy(4)
    await booth.come()
    booth.block()
    for place in leaving:
        place.leave("completed")
        await settle()
    assert booth.body == queue(4, 4)
    booth.unblock()
    await settle()
    assert booth.body == queue(4, 4) + queue(3, 3) + queue(1, 1)
    last.leave("completed")
    await settle()
    booth.close()


@on_stage
async def test_a_slow_client_that_missed_nothing_is_told_nothing_again() -> None:
    booth = Booth()
    first, second = await booth.occupy(2)
    await booth.come()
    booth.block()
    first.leave("completed")
    await settle()
    booth.unblock()
    await settle()
    assert booth.body == queue(2, 2) + queue(1, 1)
    second.leave("completed")
    await settle()
    booth.close()


@on_stage
async def test_a_slow_client_that_has_its_slot_is_told_no_old_position() -> None:
    booth = Booth()
    (first,) = await booth.occupy()
    booth.block()
    telling = await booth.come()
    first.leave("completed")
    await settle()
    assert telling.done()
    booth.unblock()
    await settle()
    assert (booth.status, booth.body) == (200, b"")
    booth.close()


WAYS: list[tuple[Surface, QueueEvents | None, dict[str, Any], bytes | None]] = [
    (MESSAGES, None, {}, queue(1, 1)),
    (MESSAGES, "on", {}, queue(1, 1)),
    (MESSAGES, "comment", {}, b": queue 1/1\n\n"),
    (MESSAGES, "off", {}, None),
    (MESSAGES, None, {"openai_keepalive": "off"}, queue(1, 1)),
    (CHAT, None, {}, b": queue 1/1\n\n"),
    (CHAT, "off", {}, None),
    (CHAT, None, {"openai_keepalive": "off"}, None),
    (CHAT, "on", {"openai_keepalive": "off"}, b": queue 1/1\n\n"),
    (CHAT, None, {"openai_keepalive": "chunk"}, b'data: {"'),
    (OLLAMA_CHAT, None, {}, b'{"model":"m"'),
    (OLLAMA_CHAT, "off", {}, None),
]


@pytest.mark.parametrize(("surface", "wish", "waiting", "frame"), WAYS)
def test_how_a_wait_is_told(
    surface: Surface, wish: QueueEvents | None, waiting: dict[str, Any], frame: bytes | None
) -> None:
    """Who is told nothing hears no heartbeat either."""

    async def main() -> None:
        booth = Booth(surface, waiting={"heartbeat": 2, **waiting})
        (first,) = await booth.occupy()
        telling = await booth.come(wish=wish)
        assert booth.body.startswith(frame or b"")
        assert (booth.status, booth.body == b"") == ((200, False) if frame else (None, True))
        await pass_time(3)
        assert (booth.status is None) == (frame is None)
        first.leave("completed")
        await settle()
        assert telling.done()
        booth.close()

    play(main())


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("wish", [None, "off"])
def test_what_ends_the_wait_is_raised(streams: bool, wish: QueueEvents | None) -> None:
    async def main() -> None:
        booth = Booth(upstream={"queue_timeout": 5})
        await booth.occupy()
        telling = await booth.come(streams=streams, wish=wish)
        await pass_time(6)
        with pytest.raises(QueueTimeout):
            await telling
        assert (booth.status is None) == (wish == "off" or not streams)
        booth.close()

    play(main())


# ---- signs of life


@on_stage
async def test_signs_of_life_say_where_it_stands_until_it_is_hushed() -> None:
    booth = Booth(waiting={"heartbeat": 2})
    (first,) = await booth.occupy()
    await booth.come(wish="comment")
    await pass_time(5)
    assert booth.body == b": queue 1/1\n\n" * 3
    first.leave("completed")
    await pass_time(2)
    assert booth.body == b": queue 1/1\n\n" * 3 + b": working\n\n"
    booth.voice.hush()
    await pass_time(9)
    assert booth.body.count(b":") == 4
    booth.close()


@on_stage
async def test_the_first_sign_of_life_opens_a_stream_that_did_not_wait() -> None:
    booth = Booth(waiting={"heartbeat": 2})
    await booth.come()
    await pass_time(1.9)
    assert booth.status is None
    await pass_time(0.2)
    assert (booth.status, booth.headers["content-type"], booth.body) == (200, SSE, b": working\n\n")
    assert "llmgate-position" not in booth.headers
    booth.close()


@on_stage
async def test_no_sign_of_life_for_one_that_does_not_read_or_has_all() -> None:
    booth = Booth(waiting={"heartbeat": 2})
    await booth.come()
    booth.block()
    await pass_time(9)
    booth.unblock()
    await settle()
    assert booth.body == b": working\n\n"
    booth.reply.finish(b"x")
    await pass_time(9)
    assert booth.body == b": working\n\nx"
    booth.close()


@on_stage
async def test_before_a_place_is_taken_there_is_nothing_to_hush() -> None:
    booth = Booth()
    booth.voice.hush()
    assert booth.voice.headers() == [(b"llmgate-request-id", b"req_1")]


# ---- one that asked for no stream


@pytest.mark.parametrize(
    ("waiting", "wish", "blanks"),
    [
        ({}, None, 0),
        ({"nonstream_keepalive": "off"}, "on", 0),
        (BLANKS, None, 3),
        (BLANKS, "on", 3),
        (BLANKS, "comment", 3),
        (BLANKS, "off", 0),
    ],
)
def test_one_that_asked_for_no_stream_hears_blanks_or_nothing(
    waiting: dict[str, Any], wish: QueueEvents | None, blanks: int
) -> None:
    """No queue frame ever; a client that wants nothing before its answer gets nothing."""

    async def main() -> None:
        booth = Booth(waiting={"heartbeat": 2, **waiting})
        (first,) = await booth.occupy()
        await booth.come(streams=False, wish=wish)
        await pass_time(5)
        first.leave("completed")
        await pass_time(2)
        assert (booth.status, booth.body) == ((200, b" " * blanks) if blanks else (None, b""))
        booth.close()

    play(main())


@on_stage
async def test_a_stream_that_is_told_nothing_hears_no_blanks_either() -> None:
    booth = Booth(CHAT, waiting={"heartbeat": 2, "openai_keepalive": "off", **BLANKS})
    await booth.come()
    await pass_time(5)
    assert booth.status is None
    booth.close()


@on_stage
async def test_blanks_stand_in_front_of_the_answer() -> None:
    booth = Booth(waiting={"heartbeat": 2, **BLANKS})
    await booth.come(streams=False)
    await pass_time(5)
    assert booth.headers == {
        "content-type": "application/json",
        "llmgate-request-id": "req_1",
        "llmgate-upstream": UPSTREAM,
        "cache-control": "no-cache",
        "x-accel-buffering": "no",
    }
    booth.voice.hush()
    booth.voice.answer(201, [(b"content-type", b"application/json")], b'{"a":1}')
    assert (booth.status, booth.body, booth.ended) == (200, b'  {"a":1}', True)
    assert json.loads(booth.body) == {"a": 1}
    booth.close()


@pytest.mark.parametrize("surface", [MESSAGES, CHAT, OLLAMA_CHAT])
@pytest.mark.parametrize("theirs", [False, True], ids=["ours", "the-upstreams"])
def test_an_error_behind_blanks_is_the_body_without_its_status(surface: Surface, theirs: bool) -> None:
    async def main() -> None:
        booth = Booth(surface, waiting={"heartbeat": 2, **BLANKS})
        await booth.come(streams=False)
        await pass_time(3)
        if theirs:
            booth.voice.tell_upstream_error(503, [(b"retry-after", b"7")], b'{"error":{"message":"come again"}}')
        else:
            booth.voice.tell_error(FAILED)
        assert (booth.status, booth.ended) == (200, True)
        told = json.loads(booth.body)["error"]
        message = told if surface is OLLAMA_CHAT else told["message"]
        assert message == ("come again" if theirs else "llmgate: it broke (UPSTREAM_ERROR)")
        assert not {"retry-after", "llmgate-code"} & booth.headers.keys()
        booth.close()

    play(main())


@on_stage
async def test_without_blanks_the_answer_has_its_status_and_headers() -> None:
    booth = Booth()
    (first,) = await booth.occupy()
    await booth.come(streams=False)
    first.leave("completed")
    await settle()
    booth.voice.answer(201, [(b"content-type", b"text/x"), (b"request-id", b"up")], b"{}")
    assert (booth.status, booth.body, booth.ended) == (201, b"{}", True)
    assert booth.headers == {
        "content-type": "text/x",
        "request-id": "up",
        "content-length": "2",
        "llmgate-request-id": "req_1",
        "llmgate-upstream": UPSTREAM,
        "llmgate-position": "1",
        "llmgate-depth": "1",
        "llmgate-queued-ms": "0",
    }
    booth.close()


# ---- the stream's frame


@pytest.mark.parametrize(
    ("surface", "given", "shown"),
    [
        (MESSAGES, [], SSE),
        (OLLAMA_CHAT, [], "application/x-ndjson"),
        (MESSAGES, [(b"content-type", b"text/event-stream; charset=x")], "text/event-stream; charset=x"),
    ],
)
def test_a_stream_says_what_it_is(surface: Surface, given: list[tuple[bytes, bytes]], shown: str) -> None:
    async def main() -> None:
        booth = Booth(surface)
        booth.voice.open_stream([*given, (b"request-id", b"up")])
        assert (booth.status, booth.headers["content-type"], booth.headers["request-id"]) == (200, shown, "up")

    play(main())
