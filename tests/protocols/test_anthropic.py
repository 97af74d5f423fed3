"""The Messages surface: its frames, its errors, what it learns of a stream, and the official SDK on all of it."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import pytest

from llmgate import errors
from llmgate.core.line import Position
from llmgate.errors import GateError
from llmgate.protocols.anthropic import MessagesSurface
from llmgate.protocols.sse import LIMIT
from llmgate.protocols.surface import StreamWatch
from tests.protocols.streams import opening, recorded

SURFACE = MessagesSurface()

TYPES = {
    "BadRequest": ("invalid_request_error", "invalid_request_error"),
    "HeadTooLarge": ("invalid_request_error", "invalid_request_error"),
    "HeadTimeout": ("invalid_request_error", "invalid_request_error"),
    "TooManyConnections": ("overloaded_error", "overloaded_error"),
    "TooManyBodies": ("overloaded_error", "overloaded_error"),
    "BodyTooLarge": ("request_too_large", "request_too_large"),
    "CodedBody": ("invalid_request_error", "invalid_request_error"),
    "BodyTimeout": ("invalid_request_error", "invalid_request_error"),
    "MethodNotAllowed": ("invalid_request_error", "invalid_request_error"),
    "NotFound": ("not_found_error", "not_found_error"),
    "UnknownModel": ("not_found_error", "not_found_error"),
    "QueueError": ("overloaded_error", "timeout_error"),
    "QueueFull": ("overloaded_error", "timeout_error"),
    "NotAllowed": ("permission_error", "permission_error"),
    "Unauthorized": ("authentication_error", "authentication_error"),
    "HostNotAllowed": ("permission_error", "permission_error"),
    "OriginNotAllowed": ("permission_error", "permission_error"),
    "ModelNotAllowed": ("permission_error", "permission_error"),
    "KeyLimit": ("rate_limit_error", "rate_limit_error"),
    "QueueTimeout": ("timeout_error", "timeout_error"),
    "Cancelled": ("overloaded_error", "timeout_error"),
    "Refused": ("overloaded_error", "timeout_error"),
    "UpstreamDown": ("overloaded_error", "overloaded_error"),
    "UpstreamTimeout": ("timeout_error", "timeout_error"),
    "UpstreamFailed": ("api_error", "api_error"),
    "ClientStalled": ("api_error", "api_error"),
    "GateError": ("api_error", "api_error"),
}


LLAMA_FAULT = b'{"error":{"code":500,"message":"\'messages\' is required","type":"server_error"}}'
WITH_KEY = b'{"type":"error","error":{"type":"t","message":"Bearer abc"}}'
LLAMA_OVERFLOW = b'{"error":{"message":"long","n_prompt_tokens":2024,"n_ctx":512}}'


def kinds(kind: type[GateError] = GateError) -> Iterator[type[GateError]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from kinds(narrower)


def as_bytes(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def test_queue_frame_exactly() -> None:
    with_eta = Position(position=2, depth=3, waited_ms=1200, eta_ms=4000)
    assert SURFACE.queue_frame(with_eta, opening()) == (
        b'event: queue\ndata: {"type":"ping","position":2,"depth":3,"waited_ms":1200,"eta_ms":4000}\n\n'
    )
    assert SURFACE.queue_frame(Position(position=1, depth=1, waited_ms=0), opening()) == (
        b'event: queue\ndata: {"type":"ping","position":1,"depth":1,"waited_ms":0}\n\n'
    )


def test_queue_frame_of_an_upstream_that_is_down() -> None:
    down = Position(position=1, depth=2, waited_ms=7, state="upstream_down")
    assert SURFACE.queue_frame(down, opening()) == (
        b'event: queue\ndata: {"type":"ping","position":1,"depth":2,"waited_ms":7,"state":"upstream_down"}\n\n'
    )
    with_eta = Position(position=1, depth=2, waited_ms=7, eta_ms=9, state="upstream_down")
    assert b'"eta_ms":9,"state":"upstream_down"}' in SURFACE.queue_frame(with_eta, opening())


def test_comments_where_they_are_wished_for() -> None:
    assert SURFACE.queue_frame(Position(position=2, depth=3, waited_ms=0), opening("comments")) == b": queue 2/3\n\n"


def test_every_error_is_in_the_table() -> None:
    known = {kind.__name__ for kind in kinds() if kind.__module__ == "llmgate.errors"}
    assert known == set(TYPES)


@pytest.mark.parametrize(("name", "expected"), TYPES.items())
def test_errors(name: str, expected: tuple[str, str]) -> None:
    error = getattr(errors, name)("llmgate: what happened (CODE)")
    before, after = (
        as_bytes({"type": "error", "error": {"type": kind, "message": str(error)}, "request_id": "req_1"})
        for kind in expected
    )
    assert SURFACE.error_body(error, "req_1") == before
    assert SURFACE.error_frame(error, "req_1") == b"event: error\ndata: " + after + b"\n\n"


def test_an_error_of_a_new_kind_takes_the_type_of_its_parent() -> None:
    class TooManyTools(errors.BadRequest):
        pass

    assert b'"invalid_request_error"' in SURFACE.error_body(TooManyTools("x"), "r")


def test_any_text_becomes_one_line() -> None:
    frame = SURFACE.error_frame(errors.BadRequest('a\n\ndata: "b"\r\n\x1b\ud800 sk-abcdefghijkl'), "req_1")
    assert frame.count(b"\n") == 3
    assert json.loads(frame.partition(b"data: ")[2])["error"]["message"] == 'a\n\ndata: "b"\r\n ***'


@pytest.mark.parametrize(
    "body",
    [
        b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_up"}',
        b'{ "error": {"message":"m", "type":"api_error", "more":1}, "type":"error" }\n',
    ],
)
def test_an_upstream_error_in_shape_passes_untouched(body: bytes) -> None:
    assert SURFACE.upstream_error_body(529, body, "req_1") == (529, body)
    frame = SURFACE.upstream_error_frame(529, body, "req_1")
    assert frame.count(b"\n") == 3
    assert frame.endswith(b"\n\n")
    assert json.loads(frame.removeprefix(b"event: error\ndata: ")) == json.loads(body)


@pytest.mark.parametrize(
    ("status", "body", "kept", "kind", "message"),
    [
        (500, LLAMA_FAULT, 400, "invalid_request_error", "'messages' is required"),
        (400, b'{"error":{"code":400,"message":"bad","type":"x"}}', 400, "invalid_request_error", "bad"),
        (401, b'{"error":{"message":"no: sk-abcdefgh"}}', 401, "authentication_error", "no: ***"),
        (402, b"pay", 402, "billing_error", "pay"),
        (403, b"no", 403, "permission_error", "no"),
        (404, b'{"error":{"message":"File Not Found"}}', 404, "not_found_error", "File Not Found"),
        (409, b"no", 409, "invalid_request_error", "no"),
        (413, b"big", 413, "request_too_large", "big"),
        (422, b'{"detail":[{"msg":"Field required"}]}', 422, "invalid_request_error", "Field required"),
        (429, b'{"error":"slow down"}', 429, "rate_limit_error", "slow down"),
        (500, b"oops", 500, "api_error", "oops"),
        (502, b"bad", 502, "api_error", "bad"),
        (503, b'{"error":{"message":"Loading model"}}', 503, "overloaded_error", "Loading model"),
        (504, b"late", 504, "timeout_error", "late"),
        (529, b"busy", 529, "overloaded_error", "busy"),
        (302, b"moved", 502, "api_error", "moved"),
        (400, b'{"type":"error","error":{"type":"","message":"m"}}', 400, "invalid_request_error", "m"),
        (400, b'{"type":"error","error":{"message":"m"}}', 400, "invalid_request_error", "m"),
        (400, WITH_KEY, 400, "invalid_request_error", "Bearer ***"),
        (400, LLAMA_OVERFLOW, 400, "invalid_request_error", "prompt is too long: 2024 tokens > 512 maximum"),
    ],
)  # fmt: skip
def test_an_upstream_error_of_another_shape(status: int, body: bytes, kept: int, kind: str, message: str) -> None:
    shaped = as_bytes({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
    assert SURFACE.upstream_error_body(status, body, "req_1") == (kept, shaped)
    assert SURFACE.upstream_error_frame(status, body, "req_1") == b"event: error\ndata: " + shaped + b"\n\n"


def event(name: str, **data: Any) -> bytes:
    return f"event: {name}\n".encode() + b"data: " + as_bytes({"type": name, **data}) + b"\n\n"


DELTA = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "a"})


def watch_after(*pieces: bytes) -> StreamWatch:
    watch = SURFACE.watch()
    assert b"".join(map(watch.feed, pieces)) == b"".join(pieces)
    return watch


def test_a_recorded_stream() -> None:
    watch = watch_after(recorded("messages"))
    assert (watch.complete, watch.failed, watch.started) == (True, False, True)
    assert (watch.input_tokens, watch.output_tokens) == (25, 6)


def test_deltas_are_counted_until_usage_is_told() -> None:
    start = event("message_start", message={"usage": {"input_tokens": 7, "output_tokens": 1}})
    watch = watch_after(start, DELTA, DELTA * 3)
    assert (watch.input_tokens, watch.output_tokens) == (7, 4)
    watch.feed(event("message_delta", usage={"output_tokens": 41}))
    watch.feed(DELTA)
    watch.feed(DELTA.replace(b"\n", b"\r\n"))
    assert (watch.input_tokens, watch.output_tokens) == (7, 41)
    watch.feed(event("message_delta", usage={"input_tokens": 9, "output_tokens": 50}))
    assert (watch.input_tokens, watch.output_tokens) == (9, 50)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"input_tokens": 5, "cache_read_input_tokens": 20}, 25),
        ({"input_tokens": 5, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 3}, 28),
        ({"input_tokens": 5, "cache_read_input_tokens": None}, 5),
        ({"cache_read_input_tokens": 20}, None),
        ({"input_tokens": -1}, None),
        ({"input_tokens": "5"}, None),
        ({"input_tokens": 2**60}, None),
        ({"input_tokens": 5.5}, None),
        (None, None),
        ([], None),
    ],
)
def test_input_tokens(usage: object, tokens: int | None) -> None:
    assert watch_after(event("message_start", message={"usage": usage})).input_tokens == tokens
    assert watch_after(event("message_delta", usage=usage)).input_tokens == tokens


def test_usage_in_a_message_delta_without_output_tokens() -> None:
    watch = watch_after(DELTA, event("message_delta", usage={"input_tokens": 3}), DELTA)
    assert watch.output_tokens == 2


@pytest.mark.parametrize("data", [b'{"usage":' + b"[" * 100_000, b'{"usage"', b'["usage"]'])
def test_broken_usage_is_no_usage(data: bytes) -> None:
    watch = watch_after(b"event: message_delta\ndata: " + data + b"\n\n")
    assert (watch.input_tokens, watch.output_tokens) == (None, 0)


@pytest.mark.parametrize(
    ("block", "complete", "failed", "count"),
    [
        (b'event: message_stop\ndata: {"type":"message_stop"}\n\n', True, False, 0),
        (b"event:message_stop\n\n", True, False, 0),
        (b'data: {"type":"message_stop"}\n\n', True, False, 0),
        (b'event: message\ndata: {"type":"message_stop"}\n\n', True, False, 0),
        (b'data: {"type":"content_block_delta"}\n\n', False, False, 1),
        (b'event: error\ndata: {"type":"error","error":{}}\n\n', False, True, 0),
        (b'data: {"type":"error"}\n\n', False, True, 0),
        (b'data: {"error":{"message":"m"}}\n\n', False, True, 0),
        (b'data: {"error":null}\n\n', False, False, 0),
        (b'data: {"type":5,"error":{}}\n\n', False, True, 0),
        (b'data: {"type":5}\n\n', False, False, 0),
        (b'data: {"type":"\\ud800"}\n\n', False, False, 0),
        (b"event: ping\ndata: {}\n\n", False, False, 0),
        (b'event: content_block_start\ndata: {"type":"message_stop"}\n\n', False, False, 0),
        (b'event: content_block_delta\ndata: {"text":"event: message_stop"}\n\n', False, False, 1),
        (b"event: content_block_delta\nevent: message_stop\n\n", True, False, 0),
        (b"data: nonsense\n\n", False, False, 0),
        (b"data: message_stop\n\n", False, False, 0),
    ],
)
@pytest.mark.parametrize("first", [b"", DELTA])
def test_what_an_event_means(block: bytes, complete: bool, failed: bool, count: int, first: bytes) -> None:
    watch = SURFACE.watch()
    watch.feed(first)
    watch.feed(block)
    assert (watch.complete, watch.failed, watch.output_tokens) == (complete, failed, count + bool(first))


OWN = b'event: error\ndata: {"error":{"message":"no","type":"api_error"}, "type":"error"}\n\n'
OVERFLOW = b"request (2024 tokens) exceeds the available context size (512 tokens), try increasing it"


def told(kind: str, message: str) -> bytes:
    shaped = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    return b"event: error\ndata: " + as_bytes(shaped) + b"\n\n"


@pytest.mark.parametrize(
    ("block", "passed"),
    [
        (OWN, OWN),
        (OWN.replace(b"\n", b"\r\n"), OWN.replace(b"\n", b"\r\n")),
        (b"data: " + OWN.partition(b"data: ")[2], OWN.replace(b", ", b",")),
        (
            b'data: {"error":{"code":500,"message":"slot lost","type":"server_error"}}\n\n',
            told("api_error", "slot lost"),
        ),
        (b'event: error\ndata: {"code":503,"message":"no","type":"x"}\n\n', told("overloaded_error", "no")),
        (
            b'event: error\ndata: {"code":400,"message":"' + OVERFLOW + b'","type":"exceed_context_size_error"}\n\n',
            told("invalid_request_error", "prompt is too long: 2024 tokens > 512 maximum"),
        ),
        (
            b'data: {"error":{"code":400,"message":"m","n_prompt_tokens":9,"n_ctx":4}}\n\n',
            told("invalid_request_error", "prompt is too long: 9 tokens > 4 maximum"),
        ),
        (b'data: {"object":"error","message":"gone","code":404}\n\n', told("not_found_error", "gone")),
        (b'event: message\ndata: {"type":"error","error":"no"}\n\n', told("api_error", "no")),
        (b"event: error\ndata: out of memory\n\n", told("api_error", "out of memory")),
        (b'event: error\ndata: {"type":"error","error":{"type":"","message":"m"}}\n\n', told("api_error", "m")),
    ],
)
def test_an_error_of_a_foreign_shape_is_told_in_ours_and_nothing_follows_it(block: bytes, passed: bytes) -> None:
    stream = DELTA + block + DELTA + event("message_stop")
    for size in (1, 7, len(stream)):
        watch = SURFACE.watch("req_1")
        got = b"".join(watch.feed(stream[start : start + size]) for start in range(0, len(stream), size))
        assert got == (stream if passed == block else DELTA + passed)
        assert (watch.failed, watch.complete) == (True, passed == block)
        assert watch.feed(DELTA) == b""
        assert watch.finish() == b""


def test_after_an_error_of_its_own_no_error_of_ours_is_told() -> None:
    assert watch_after(OWN + b'data: {"error":"m"}\n\n', DELTA).failed


def test_an_error_without_its_blank_line() -> None:
    watch = SURFACE.watch("req_1")
    assert watch.feed(b'data: {"error":"m"}') == b""
    assert watch.finish() == told("api_error", "m")
    assert (watch.finish(), watch.feed(DELTA)) == (b"", b"")


def test_a_piece_with_an_event_too_long_takes_no_short_cut() -> None:
    watch = watch_after(DELTA, DELTA.replace(b'"a"', b'"' + b"a" * LIMIT + b'"'), DELTA)
    assert watch.output_tokens == 2


def answer(stream: bytes, status: int = 200) -> anthropic.Anthropic:
    kind = "text/event-stream" if status == 200 else "application/json"
    response = httpx2.Response(status, headers={"content-type": kind}, content=stream)
    transport = httpx2.MockTransport(lambda request: response)
    return anthropic.Anthropic(
        api_key="k", base_url="http://gate/llm", http_client=httpx2.Client(transport=transport), max_retries=0
    )


ASKED: Any = {"model": "m", "max_tokens": 16, "messages": [{"role": "user", "content": "hi"}]}
WAITED = b"".join(
    [
        SURFACE.queue_frame(Position(position=2, depth=2, waited_ms=0), opening()),
        SURFACE.heartbeat(Position(position=2, depth=2, waited_ms=4000), opening()),
        SURFACE.queue_frame(Position(position=1, depth=1, waited_ms=5000, eta_ms=4000), opening()),
        SURFACE.heartbeat(None, opening()),
    ]
)


@pytest.mark.parametrize("before", [b"", WAITED])
def test_the_sdk_reads_a_queued_stream(before: bytes) -> None:
    client = answer(before + recorded("messages"))
    with client.messages.stream(**ASKED) as stream:
        assert stream.get_final_text() == "hi<|im_end"
    raw = [item.type for item in client.messages.create(stream=True, **ASKED)]
    assert next(kind for kind in raw if kind != "ping") == "message_start"
    assert raw[-1] == "message_stop"


def test_the_sdk_raises_on_an_error_in_the_stream() -> None:
    frame = SURFACE.error_frame(errors.QueueTimeout("llmgate: waited too long (QUEUE_TIMEOUT)"), "req_1")
    with pytest.raises(anthropic.APIStatusError, match="QUEUE_TIMEOUT"):
        list(answer(WAITED + frame).messages.create(stream=True, **ASKED))
    frame = SURFACE.upstream_error_frame(503, b'{"error":{"message":"Loading model"}}', "req_1")
    with pytest.raises(anthropic.APIStatusError, match="Loading model"):
        list(answer(WAITED + frame).messages.create(stream=True, **ASKED))


def test_the_sdk_shows_the_message_of_an_error_body() -> None:
    body = SURFACE.error_body(
        errors.QueueFull("llmgate: the queue of upstream reasoning is full (QUEUE_FULL)"), "req_1"
    )
    with pytest.raises(anthropic.InternalServerError, match="the queue of upstream reasoning is full") as caught:
        answer(body, 503).messages.create(**ASKED)
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["error"]["type"] == "overloaded_error"
