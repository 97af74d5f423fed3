"""What llmgate itself says to one client, in each of the ways it may be said, on a clock that the test moves."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from anthropic_check import read_events
from virtual_loop import this_loop

from llmgate.admission.local import LocalPlace
from llmgate.core.caller import Caller
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
from llmgate.protocols.surface import Surface
from llmgate.protocols.surfaces import CHAT, MESSAGES, OLLAMA_CHAT
from llmgate.server.reply import Reply
from llmgate.server.voice import Voice
from llmgate.server.wishes import QueueEvents
from tests.server.house import UPSTREAM, Guests, services_for
from tests.server.stage import pass_time, play, settle

FAILED = UpstreamFailed("llmgate: it broke (UPSTREAM_ERROR)")
LATE = QueueTimeout("llmgate: too late (QUEUE_TIMEOUT)", depth=3)
FULL = QueueFull("llmgate: it is full (QUEUE_FULL)", depth=4, limit=4)
BLANKS = {"nonstream_keepalive": "whitespace"}


class Booth(Guests):
    """One client, whose voice speaks into `body`; the slot of its upstream is taken once `occupy` was called."""

    def __init__(self, surface: Surface = MESSAGES, *, user_agent: bytes = b"", **sections: Any) -> None:
        super().__init__()
        self.services = services_for("http://upstream.invalid", self.on_event, self.ledger, **sections)
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.body = b""
        self.ended = False
        self._readable: asyncio.Future[None] | None = None
        self.reply = Reply(self._send, None)
        self.voice = Voice(self.services, surface, self.reply, {b"user-agent": user_agent}, "req_1")
        self.place: LocalPlace

    async def _send(self, message: Any) -> None:
        if self._readable is not None:
            await self._readable
        if message["type"] == "http.response.start":
            assert self.status is None
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            assert len(self.headers) == len(message["headers"]), "a header twice"
        else:
            assert not self.ended
            self.body += message["body"]
            self.ended = not message["more_body"]

    def block(self) -> None:
        """It stops reading."""
        self._readable = this_loop().create_future()

    def unblock(self) -> None:
        assert self._readable is not None
        self._readable.set_result(None)
        self._readable = None

    def enter(self, number: int = 0) -> LocalPlace:
        return self.services.admission.enter(UPSTREAM, Caller(id=f"req_{number}"))

    async def occupy(self, count: int = 1) -> list[LocalPlace]:
        """So many requests came before: the first has the slot."""
        places = [self.enter(number) for number in range(count)]
        for place in places:
            await place.__aenter__()
        return places

    async def come(self, *, streams: bool = True, wish: QueueEvents | None = None) -> "asyncio.Task[None]":
        """The request takes its place, and its wait is told from now on."""
        self.voice.upstream = UPSTREAM
        self.place = self.enter(99)
        await self.place.__aenter__()
        self.voice.take_place(self.place, model="m", streams=streams, wish=wish)
        telling = asyncio.ensure_future(self.voice.tell_wait(self.place))
        await settle()
        return telling

    def close(self) -> None:
        self.voice.hush()
        self.services.admission.stop()
        assert this_loop().timers == []


def on_stage(main: Callable[[], Any]) -> Callable[[], None]:
    """The test runs in a virtual loop."""

    def test() -> None:
        play(main())

    test.__name__ = main.__name__
    return test


def queue(position: int, depth: int, waited_ms: int = 0) -> bytes:
    told = {"type": "ping", "position": position, "depth": depth, "waited_ms": waited_ms}
    return b"event: queue\ndata: " + json.dumps(told, separators=(",", ":")).encode() + b"\n\n"


# ---- the wait of a stream


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
    assert booth.headers == {
        "content-type": "text/event-stream",
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
    first, second, third = await booth.occupy(3)
    await booth.come()
    booth.block()
    first.leave("completed")
    await settle()
    second.leave("completed")
    await settle()
    assert booth.body == queue(3, 3)
    booth.unblock()
    await settle()
    assert booth.body == queue(3, 3) + queue(2, 2)[:0] + b"".join([queue(2, 2), queue(1, 1)])
    third.leave("completed")
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
    assert booth.body == queue(1, 1)
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
    assert (booth.status, booth.headers["content-type"], booth.body) == (200, "text/event-stream", b": working\n\n")
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
        (MESSAGES, [], "text/event-stream"),
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


# ---- errors


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


@pytest.mark.parametrize(("user_agent", "kind"), [(b"", "timeout_error"), (b"claude-cli/2.0", "overloaded_error")])
def test_an_error_in_an_open_stream_is_its_last_event(user_agent: bytes, kind: str) -> None:
    async def main() -> None:
        booth = Booth(user_agent=user_agent)
        await booth.occupy()
        telling = await booth.come()
        booth.voice.tell_error(LATE)
        assert (booth.status, booth.ended) == (200, True)
        name, told = read_events(booth.body)[-1]
        assert (name, told["error"]["type"], told["request_id"]) == ("error", kind, "req_1")
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
        booth.voice.upstream = UPSTREAM
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
        booth.voice.upstream = UPSTREAM
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
        (500, b'{"error":{"message":"\'messages\' is required"}}', 400, "invalid_request_error", "'messages' is required"),
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
def test_an_upstreams_error(
    status: int, body: bytes, shown: int, kind: str, message: str, opened: bool
) -> None:
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
