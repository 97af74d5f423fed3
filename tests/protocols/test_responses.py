"""The Responses surface: its frames, its errors, what it learns of a stream, and the official SDK on all of it."""

import json
from typing import Any

import httpx2
import openai
import pytest

from llmgate import errors
from llmgate.core.line import Position
from llmgate.errors import GateError
from llmgate.protocols.responses import ResponsesSurface
from llmgate.protocols.sse import LIMIT
from llmgate.protocols.surface import Manner, StreamWatch
from tests.protocols.streams import opening, recorded

SURFACE = ResponsesSurface()


@pytest.mark.parametrize("manner", ["frames", "comments", "chunks"])
def test_nothing_but_comments_comes_before_the_first_event(manner: Manner) -> None:
    position = Position(position=2, depth=3, waited_ms=1200, eta_ms=4000)
    assert SURFACE.queue_frame(position, opening(manner)) == b": queue 2/3\n\n"
    assert SURFACE.heartbeat(position, opening(manner)) == b": queue 2/3\n\n"
    assert SURFACE.heartbeat(None, opening(manner)) == b": working\n\n"


# ---- errors


def event_of(kind: str, code: str, message: str, param: str | None = None) -> bytes:
    """Flat and nested, and the end that Codex reads."""
    nested = {"type": kind, "code": code, "message": message, "param": param}
    flat = {"type": "error", "sequence_number": 0, "code": code, "message": message, "param": param}
    ended = {"id": "", "object": "response", "created_at": 0, "model": "", "status": "failed", "output": []}
    ended |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    ended["error"] = {"code": code, "message": message}
    failed = {"type": "response.failed", "sequence_number": 1, "response": ended}
    events = {"error": {**flat, "error": nested}, "response.failed": failed}
    return b"".join(
        f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode() for name, data in events.items()
    )


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.QueueTimeout, "server_error"),
        (errors.QueueFull, "server_error"),
        (errors.Cancelled, "server_error"),
        (errors.Refused, "server_error"),
        (errors.UpstreamDown, "server_error"),
        (errors.UpstreamTimeout, "server_error"),
        (errors.UpstreamFailed, "server_error"),
        (errors.GateError, "server_error"),
        (errors.BadRequest, "invalid_request_error"),
        (errors.UnknownModel, "not_found_error"),
    ],
)
def test_errors(error: type[GateError], kind: str) -> None:
    raised = error("llmgate: what happened (CODE)")
    told = {"message": str(raised), "type": kind, "param": None, "code": error.code}
    assert json.loads(SURFACE.error_body(raised, "req_1")) == {"error": told}
    assert SURFACE.error_frame(raised, "req_1") == event_of(kind, error.code, str(raised))


@pytest.mark.parametrize(
    ("status", "body", "event"),
    [
        (500, b"oops", event_of("server_error", "UPSTREAM_ERROR", "oops")),
        (429, b"slow down", event_of("rate_limit_error", "UPSTREAM_ERROR", "slow down")),
        (
            400,
            b'{ "error": {"message":"m","type":"invalid_request_error","param":"input","code":"too_long"} }\n',
            event_of("invalid_request_error", "too_long", "m", "input"),
        ),
        (400, b'{"error":{"message":"m","type":5,"code":400}}', event_of("server_error", "UPSTREAM_ERROR", "m")),
        (404, b'{"error":{"message":"m"}}', event_of("server_error", "UPSTREAM_ERROR", "m")),
        (502, b"<html>x</html>", event_of("server_error", "UPSTREAM_ERROR", "")),
    ],
)
def test_an_upstream_error_in_an_open_stream(status: int, body: bytes, event: bytes) -> None:
    frame = SURFACE.upstream_error_frame(status, body, "req_1")
    if b"html" in body:
        assert b"gave no reason" in frame
    else:
        assert frame == event
    assert frame.count(b"\n") == 6


def test_an_upstream_error_before_the_stream_is_as_on_the_other_surfaces() -> None:
    body = b'{"error":{"code":400,"message":"m","type":"t"}}'
    assert SURFACE.upstream_error_body(400, body, "req_1") == (400, body)


def test_any_text_becomes_one_line() -> None:
    frame = SURFACE.error_frame(errors.BadRequest('a\n\ndata: "b"\r\n\x1b\ud800 sk-abcdefghijkl'), "req_1")
    told, ended = (json.loads(line[6:]) for line in frame.split(b"\n") if line.startswith(b"data: "))
    assert frame.count(b"\n") == 6
    assert told["message"] == ended["response"]["error"]["message"] == 'a\n\ndata: "b"\r\n ***'


# ---- what is learnt of a stream


def event(name: str, **fields: Any) -> bytes:
    data = json.dumps({"type": name, **fields}, separators=(",", ":"))
    return f"event: {name}\ndata: {data}\n\n".encode()


DELTA = event("response.output_text.delta", delta="a")
OTHER_DELTA = event("response.reasoning_text.delta", delta="a")


def watch_after(*pieces: bytes) -> StreamWatch:
    watch = SURFACE.watch()
    assert b"".join(map(watch.feed, pieces)) == b"".join(pieces)
    return watch


def test_a_recorded_stream() -> None:
    watch = watch_after(recorded("responses"))
    assert (watch.complete, watch.failed, watch.started) == (True, False, True)
    assert (watch.input_tokens, watch.output_tokens) == (26, 6)


def test_deltas_are_counted_until_usage_is_told() -> None:
    watch = watch_after(event("response.created"), DELTA, DELTA, DELTA * 3, OTHER_DELTA * 2, OTHER_DELTA + DELTA)
    assert (watch.input_tokens, watch.output_tokens) == (None, 9)
    watch.feed(event("response.completed", response={"usage": {"input_tokens": 7, "output_tokens": 41}}))
    assert (watch.input_tokens, watch.output_tokens) == (7, 41)
    for more in (DELTA, DELTA * 2, DELTA.replace(b"\n", b"\r\n")):
        watch.feed(more)
    assert watch.output_tokens == 41


@pytest.mark.parametrize(
    ("response", "tokens"),
    [
        (b"null", (None, 1)),
        (b"{}", (None, 1)),
        (b'{"usage":null}', (None, 1)),
        (b'{"usage":{"input_tokens":7}}', (7, 1)),
        (b'{"usage":{"output_tokens":3}}', (None, 3)),
        (b'{"usage":{"input_tokens":-7,"output_tokens":3}}', (None, 1)),
        (b'{"usage":"7"}', (None, 1)),
        (b"[" * 100_000, (None, 1)),
    ],
)
def test_usage(response: bytes, tokens: tuple[int | None, int]) -> None:
    watch = watch_after(DELTA, b'event: response.incomplete\ndata: {"response":' + response + b"}\n\n")
    assert (watch.input_tokens, watch.output_tokens) == tokens
    assert (watch.complete, watch.failed) == (True, False)


@pytest.mark.parametrize(
    ("block", "complete", "failed", "count"),
    [
        (event("response.completed"), True, False, 0),
        (event("response.incomplete"), True, False, 0),
        (event("response.failed"), True, True, 0),
        (event("response.completed").replace(b"\n", b"\r\n"), True, False, 0),
        (b'data: {"type":"response.completed"}\n\n', True, False, 0),
        (b'data: {"type":"response.output_text.delta"}\n\n', False, False, 1),
        (b'event: message\ndata: {"type":"response.failed"}\n\n', True, True, 0),
        (b'event: message\ndata: {"type":"error"}\n\n', False, True, 0),
        (b'event: error\ndata: {"type":"error"}\n\n', False, True, 0),
        (b'data: {"error":{"message":"m"}}\n\n', False, True, 0),
        (b'data: {"error":null}\n\n', False, False, 0),
        (b"data: nonsense\n\n", False, False, 0),
        (b"data: [DONE]\n\n", False, False, 0),
        (event("response.output_text.done"), False, False, 0),
        (event("response.output_text.delta", delta="event: response.failed"), False, False, 1),
        (event("response.output_item.done", item={"type": "response.completed"}), False, False, 0),
        (b"event: response.output_text.delta\n\n", False, False, 1),
        (b"event: response.output_text.delta\nevent: response.completed\ndata: {}\n\n", True, False, 0),
        (b"event: response.delta\ndata: {}\n\nevent: response.completed\ndata: {}\n\n", True, False, 1),
    ],
)
@pytest.mark.parametrize("first", [b"", DELTA])
def test_what_an_event_means(block: bytes, complete: bool, failed: bool, count: int, first: bytes) -> None:
    watch = SURFACE.watch()
    watch.feed(first)
    watch.feed(block)
    assert (watch.complete, watch.failed, watch.output_tokens) == (complete, failed, count + bool(first))


def test_a_piece_with_an_event_too_long_takes_no_short_cut() -> None:
    watch = watch_after(DELTA, event("response.output_text.delta", delta="a" * LIMIT), DELTA)
    assert watch.output_tokens == 2


# ---- the official SDK


OWN = (
    b'event: error\ndata: {"type":"error","sequence_number":4,"code":"c","message":"m","param":null,'
    b'"error":{"message":"m","type":"server_error"}}\n\n'
)


@pytest.mark.parametrize(
    ("block", "passed"),
    [
        (OWN, OWN),
        (OWN.removeprefix(b"event: error\n"), event_of("server_error", "c", "m")),
        (
            b'event: error\ndata: {"type":"error","code":"c","message":"m","param":null,"sequence_number":4}\n\n',
            event_of("server_error", "c", "m"),
        ),
        (
            b'event: error\ndata: {"type":"error","error":{"type":"t","code":"c","message":"m"}}\n\n',
            event_of("server_error", "c", "m"),
        ),
        (OWN.replace(b'"code":"c"', b'"code":""'), event_of("server_error", "UPSTREAM_ERROR", "m")),
        (b'event: error\ndata: {"code":500,"message":"m"}\n\n', event_of("server_error", "UPSTREAM_ERROR", "m")),
        (b'data: {"error":{"message":"m"}}\n\n', event_of("server_error", "UPSTREAM_ERROR", "m")),
        (
            b'event: message\ndata: {"object":"error","message":"m","code":429}\n\n',
            event_of("rate_limit_error", "UPSTREAM_ERROR", "m"),
        ),
    ],
)
def test_an_error_of_a_foreign_shape_is_told_in_ours_and_nothing_follows_it(block: bytes, passed: bytes) -> None:
    stream = DELTA + block + DELTA + event("response.completed")
    for size in (1, 7, len(stream)):
        watch = SURFACE.watch("req_1")
        got = b"".join(watch.feed(stream[start : start + size]) for start in range(0, len(stream), size))
        assert got == (stream if passed == block else DELTA + passed)
        assert watch.failed
        assert watch.complete is (passed == block)
        assert watch.feed(DELTA) == b""


def test_after_an_error_of_its_own_no_error_of_ours_is_told() -> None:
    assert watch_after(OWN + b'data: {"error":"m"}\n\n', DELTA).failed


def answer(stream: bytes, status: int = 200) -> openai.OpenAI:
    kind = "text/event-stream" if status == 200 else "application/json"
    transport = httpx2.MockTransport(
        lambda request: httpx2.Response(status, headers={"content-type": kind}, content=stream)
    )
    return openai.OpenAI(
        api_key="k", base_url="http://gate/llm/v1", http_client=httpx2.Client(transport=transport), max_retries=0
    )


ASKED: Any = {"model": "m", "input": "Say hi."}
WAITED = b"".join(
    [
        SURFACE.queue_frame(Position(position=2, depth=2, waited_ms=0), opening()),
        SURFACE.queue_frame(Position(position=1, depth=1, waited_ms=5000, eta_ms=4000), opening("chunks")),
        SURFACE.heartbeat(None, opening()),
    ]
)


def whole(**fields: Any) -> dict[str, Any]:
    empty = {"output": [], "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {"id": "r", "object": "response", "created_at": 0, "model": "m", "status": "in_progress", **empty, **fields}


TEXT = {"type": "output_text", "text": "Hello", "annotations": []}
MESSAGE = {"id": "i", "type": "message", "role": "assistant", "status": "completed", "content": [TEXT]}
PLACE = {"item_id": "i", "output_index": 0, "content_index": 0}
STREAM = b"".join(
    [
        event("response.created", sequence_number=0, response=whole()),
        event("response.output_item.added", sequence_number=1, output_index=0, item={**MESSAGE, "content": []}),
        event("response.content_part.added", sequence_number=2, part={**TEXT, "text": ""}, **PLACE),
        event("response.output_text.delta", sequence_number=3, delta="Hello", logprobs=[], **PLACE),
        event("response.output_text.done", sequence_number=4, text="Hello", logprobs=[], **PLACE),
        event("response.completed", sequence_number=5, response=whole(status="completed", output=[MESSAGE])),
    ]
)


@pytest.mark.parametrize("before", [b"", WAITED])
def test_the_sdk_reads_a_queued_stream(before: bytes) -> None:
    raw = list(answer(before + recorded("responses")).responses.create(stream=True, **ASKED))
    assert (raw[0].type, raw[-1].type) == ("response.created", "response.completed")
    assert "".join(item.delta for item in raw if item.type == "response.output_text.delta") == "Say hi.<|im_"
    with answer(before + STREAM).responses.stream(**ASKED) as stream:
        assert next(iter(stream)).type == "response.created"
        assert stream.get_final_response().output_text == "Hello"


def test_the_sdk_raises_on_an_error_in_the_stream() -> None:
    frame = SURFACE.error_frame(errors.QueueTimeout("llmgate: waited too long (QUEUE_TIMEOUT)"), "req_1")
    with pytest.raises(openai.APIError, match="QUEUE_TIMEOUT") as caught:
        list(answer(WAITED + frame).responses.create(stream=True, **ASKED))
    assert caught.value.code == "QUEUE_TIMEOUT"
    frame = SURFACE.upstream_error_frame(503, b"Loading model", "req_1")
    for begun in (WAITED, WAITED + STREAM[: STREAM.index(b"event: response.output_text.done")]):
        with (
            pytest.raises(openai.APIError, match="Loading model"),
            answer(begun + frame).responses.stream(**ASKED) as stream,
        ):
            list(stream)


def test_the_sdk_shows_the_message_of_an_error_body() -> None:
    body = SURFACE.error_body(errors.QueueFull("llmgate: the queue of upstream a is full (QUEUE_FULL)"), "req_1")
    with pytest.raises(openai.InternalServerError, match="the queue of upstream a is full") as caught:
        answer(body, 503).responses.create(**ASKED)
    assert caught.value.code == "QUEUE_FULL"
