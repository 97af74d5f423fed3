"""The chat surface: its frames, its errors, what it learns of a stream, and the official SDK on all of it."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest

from llmgate import errors
from llmgate.core.line import Position
from llmgate.errors import GateError
from llmgate.protocols.openai import ChatSurface
from llmgate.protocols.sse import LIMIT
from llmgate.protocols.surface import StreamWatch
from tests.protocols.streams import opening, recorded

SURFACE = ChatSurface()

TYPES = {
    "NotAllowed": ("permission_error", "NOT_ALLOWED"),
    "Unauthorized": ("authentication_error", "UNAUTHORIZED"),
    "HostNotAllowed": ("permission_error", "HOST_NOT_ALLOWED"),
    "OriginNotAllowed": ("permission_error", "ORIGIN_NOT_ALLOWED"),
    "ModelNotAllowed": ("permission_error", "MODEL_NOT_ALLOWED"),
    "KeyLimit": ("rate_limit_error", "KEY_LIMIT"),
    "BadRequest": ("invalid_request_error", "BAD_REQUEST"),
    "HeadTooLarge": ("invalid_request_error", "HEAD_TOO_LARGE"),
    "HeadTimeout": ("invalid_request_error", "HEAD_TIMEOUT"),
    "TooManyConnections": ("server_error", "TOO_MANY_CONNECTIONS"),
    "TooManyBodies": ("server_error", "TOO_MANY_BODIES"),
    "BodyTooLarge": ("invalid_request_error", "BODY_TOO_LARGE"),
    "CodedBody": ("invalid_request_error", "CODED_BODY"),
    "BodyTimeout": ("invalid_request_error", "BODY_TIMEOUT"),
    "MethodNotAllowed": ("invalid_request_error", "METHOD_NOT_ALLOWED"),
    "NotFound": ("not_found_error", "NOT_FOUND"),
    "UnknownModel": ("not_found_error", "UNKNOWN_MODEL"),
    "QueueError": ("server_error", "INTERNAL"),
    "QueueFull": ("server_error", "QUEUE_FULL"),
    "QueueTimeout": ("server_error", "QUEUE_TIMEOUT"),
    "Cancelled": ("server_error", "CANCELLED"),
    "Refused": ("server_error", "REFUSED"),
    "UpstreamDown": ("server_error", "UPSTREAM_DOWN"),
    "UpstreamTimeout": ("server_error", "UPSTREAM_TIMEOUT"),
    "UpstreamFailed": ("server_error", "UPSTREAM_ERROR"),
    "ClientStalled": ("server_error", "CLIENT_STALLED"),
    "GateError": ("server_error", "INTERNAL"),
}


LLAMA_FAULT = b'{"error":{"code":500,"message":"[json.exception.x] y","type":"server_error"}}'
WRONG_KEY = b'{"error":{"message":"no: sk-abcdefgh","code":"invalid_api_key"}}'


def kinds(kind: type[GateError] = GateError) -> Iterator[type[GateError]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from kinds(narrower)


def as_bytes(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def test_waiting_is_told_by_a_comment() -> None:
    position = Position(position=2, depth=3, waited_ms=1200, eta_ms=4000)
    assert SURFACE.queue_frame(position, opening()) == b": queue 2/3\n\n"
    assert SURFACE.heartbeat(position, opening()) == b": queue 2/3\n\n"
    assert SURFACE.heartbeat(None, opening()) == b": working\n\n"


def test_waiting_is_told_by_a_chunk_where_the_settings_say_so() -> None:
    whole = {
        "id": "chatcmpl-req_1",
        "object": "chat.completion.chunk",
        "created": 1796034030,
        "model": "m",
        "choices": [{"index": 0, "delta": {}, "finish_reason": None}],
    }
    position = Position(position=2, depth=3, waited_ms=1200, eta_ms=4000)
    told = as_bytes(whole | {"queue": {"position": 2, "depth": 3}})
    assert SURFACE.queue_frame(position, opening("chunks")) == b"data: " + told + b"\n\n"
    assert SURFACE.heartbeat(position, opening("chunks")) == b"data: " + told + b"\n\n"
    assert SURFACE.heartbeat(None, opening("chunks")) == b"data: " + as_bytes(whole) + b"\n\n"


def test_a_chunk_tells_the_state_of_the_upstream() -> None:
    down = Position(position=2, depth=3, waited_ms=1200, state="upstream_down")
    told = b'"queue":{"position":2,"depth":3,"state":"upstream_down"}}\n\n'
    assert SURFACE.queue_frame(down, opening("chunks")).endswith(told)
    assert SURFACE.heartbeat(down, opening("chunks")).endswith(told)


def test_every_error_is_in_the_table() -> None:
    known = {kind.__name__ for kind in kinds() if kind.__module__ == "llmgate.errors"}
    assert known == set(TYPES)


@pytest.mark.parametrize(("name", "expected"), TYPES.items())
def test_errors(name: str, expected: tuple[str, str]) -> None:
    error = getattr(errors, name)("llmgate: what happened (CODE)")
    kind, code = expected
    shaped = as_bytes({"error": {"message": str(error), "type": kind, "param": None, "code": code}})
    assert SURFACE.error_body(error, "req_1") == shaped
    assert SURFACE.error_frame(error, "req_1") == b"data: " + shaped + b"\n\ndata: [DONE]\n\n"


def test_any_text_becomes_one_line() -> None:
    frame = SURFACE.error_frame(errors.BadRequest('a\n\ndata: "b"\r\n\x1b\ud800 sk-abcdefghijkl'), "req_1")
    assert frame.count(b"\n") == 4
    assert json.loads(frame.split(b"\n")[0][6:])["error"]["message"] == 'a\n\ndata: "b"\r\n ***'


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":{"message":"m","type":"invalid_request_error","param":null,"code":"context_length_exceeded"}}',
        b'{ "error": {"code":400,"message":"m","type":"exceed_context_size_error","n_prompt_tokens":2024} }\n',
    ],
)
def test_an_upstream_error_in_shape_passes_untouched(body: bytes) -> None:
    assert SURFACE.upstream_error_body(400, body, "req_1") == (400, body)
    frame = SURFACE.upstream_error_frame(400, body, "req_1")
    assert frame.count(b"\n") == 4
    assert frame.endswith(b"\n\ndata: [DONE]\n\n")
    assert json.loads(frame.split(b"\n")[0].removeprefix(b"data: ")) == json.loads(body)


@pytest.mark.parametrize(
    ("status", "body", "kept", "kind", "code", "message"),
    [
        (500, LLAMA_FAULT, 400, "invalid_request_error", None, "[json.exception.x] y"),
        (401, WRONG_KEY, 401, "authentication_error", "invalid_api_key", "no: ***"),
        (403, b"no", 403, "permission_error", None, "no"),
        (404, b'{"error":"model not found"}', 404, "not_found_error", None, "model not found"),
        (422, b'{"detail":[{"msg":"Field required"}]}', 422, "invalid_request_error", None, "Field required"),
        (429, b"slow down", 429, "rate_limit_error", None, "slow down"),
        (500, b"oops", 500, "server_error", None, "oops"),
        (503, b'{"type":"error","error":{"type":"t","message":"Overloaded"}}', 503, "server_error", None, "Overloaded"),
        (302, b"moved", 502, "server_error", None, "moved"),
    ],
)  # fmt: skip
def test_an_upstream_error_of_another_shape(
    status: int, body: bytes, kept: int, kind: str, code: str | None, message: str
) -> None:
    shaped = as_bytes({"error": {"message": message, "type": kind, "param": None, "code": code}})
    assert SURFACE.upstream_error_body(status, body, "req_1") == (kept, shaped)
    assert SURFACE.upstream_error_frame(status, body, "req_1") == b"data: " + shaped + b"\n\ndata: [DONE]\n\n"


CHUNK = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":41}}\n\n'


def watch_after(*pieces: bytes) -> StreamWatch:
    watch = SURFACE.watch()
    assert b"".join(map(watch.feed, pieces)) == b"".join(pieces)
    return watch


def test_a_recorded_stream() -> None:
    watch = watch_after(recorded("chat"))
    assert (watch.complete, watch.failed, watch.started) == (True, False, True)
    assert (watch.input_tokens, watch.output_tokens) == (25, 6)


def test_content_is_counted_until_usage_is_told() -> None:
    watch = watch_after(CHUNK, CHUNK, CHUNK * 3)
    assert (watch.input_tokens, watch.output_tokens) == (None, 5)
    watch.feed(USAGE)
    assert (watch.input_tokens, watch.output_tokens) == (7, 41)
    watch.feed(CHUNK)
    watch.feed(CHUNK * 2)
    watch.feed(CHUNK.replace(b"\n", b"\r\n"))
    assert watch.output_tokens == 41


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (b"null", (None, 1)),
        (b'{"prompt_tokens":7}', (7, 1)),
        (b'{"completion_tokens":3}', (None, 3)),
        (b'{"prompt_tokens":-7,"completion_tokens":3}', (None, 1)),
        (b'{"prompt_tokens":"7"}', (None, 1)),
        (b"[" * 100_000, (None, 1)),
        (b"[]", (None, 1)),
    ],
)
def test_usage(usage: bytes, tokens: tuple[int | None, int]) -> None:
    chunk = b'data: {"choices":[{}],"usage":' + usage + b"}\n\n"
    watch = watch_after(b"data: {}\n\n", chunk)
    assert (watch.input_tokens, watch.output_tokens) == tokens


@pytest.mark.parametrize(
    ("block", "complete", "failed", "count"),
    [
        (b"data: [DONE]\n\n", True, False, 0),
        (b"data:[DONE]\r\n\r\n", True, False, 0),
        (b'data: {"error":{"message":"m"}}\n\n', False, True, 0),
        (b'data: {"error":"m","choices":[{}]}\n\n', False, True, 1),
        (b'data: {"error":null,"choices":[{}]}\n\n', False, False, 1),
        (b'data: {"choices":[{"error":{}}]}\n\n', False, False, 1),
        (b"event: error\ndata: {}\n\n", False, True, 0),
        (b'data: {"choices":[]}\n\n', False, False, 0),
        (b'data: {"choices" : [ {}]}\n\n', False, False, 1),
        (b'data: {"choices":\ndata: [{}]}\n\n', False, False, 1),
        (b'data: {"a":1}\n\ndata: {"choices":[{"choices":[{}]}]}\n\n', False, False, 1),
        (b'data: {"text":"[DONE] \\"error\\""}\n\n', False, False, 0),
        (b"data: nonsense\n\n", False, False, 0),
        (b'data: ["error"]\n\n', False, False, 0),
    ],
)
@pytest.mark.parametrize("first", [b"", CHUNK])
def test_what_an_event_means(block: bytes, complete: bool, failed: bool, count: int, first: bytes) -> None:
    watch = SURFACE.watch()
    watch.feed(first)
    watch.feed(block)
    assert (watch.complete, watch.failed, watch.output_tokens) == (complete, failed, count + bool(first))


def test_a_piece_with_an_event_too_long_takes_no_short_cut() -> None:
    watch = watch_after(CHUNK, CHUNK.replace(b'"a"', b'"' + b"a" * LIMIT + b'"'), CHUNK)
    assert watch.output_tokens == 2


DONE = b"data: [DONE]\n\n"
OWN = b'data: {"error":{"message":"no","code":500}}\n\n'


def told(kind: str, message: str, code: str | None = None) -> bytes:
    shaped = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return b"data: " + as_bytes(shaped) + b"\n\ndata: [DONE]\n\n"


@pytest.mark.parametrize(
    ("block", "passed"),
    [
        (OWN, OWN),
        (b"event: error\n" + OWN, OWN + DONE),
        (b"event: message\n" + OWN, OWN + DONE),
        (b'event: error\ndata: {"code":500,"message":"slot lost"}\n\n', told("server_error", "slot lost")),
        (b'data: {"object":"error","message":"m","code":400}\n\n', told("invalid_request_error", "m")),
        (b'data: {"object":"error","message":"m","code":"c"}\n\n', told("server_error", "m", "c")),
        (
            b'data: {"type":"error","error":{"type":"overloaded_error","message":"m"}}\n\n',
            told("server_error", "m"),
        ),
        (b'data: {"error":"m"}\n\n', told("server_error", "m")),
        (b"event: error\ndata: out of memory\n\n", told("server_error", "out of memory")),
        (b'data: {"error":"m","choices":[{"delta":{}}]}\n\n', told("server_error", "m")),
    ],
)
def test_an_error_of_a_foreign_shape_is_told_in_ours_and_nothing_follows_it(block: bytes, passed: bytes) -> None:
    stream = CHUNK + block + CHUNK + DONE
    for size in (1, 7, len(stream)):
        watch = SURFACE.watch("req_1")
        got = b"".join(watch.feed(stream[start : start + size]) for start in range(0, len(stream), size))
        assert got == (stream if passed == block else CHUNK + passed)
        assert watch.failed
        assert watch.complete is (passed == block)
        assert watch.feed(CHUNK) == b""
        assert watch.finish() == b""


def test_after_an_error_of_its_own_no_error_of_ours_is_told() -> None:
    assert watch_after(OWN + b'data: {"error":"m"}\n\n', CHUNK).failed


def answer(stream: bytes, status: int = 200) -> openai.OpenAI:
    kind = "text/event-stream" if status == 200 else "application/json"
    transport = httpx2.MockTransport(
        lambda request: httpx2.Response(status, headers={"content-type": kind}, content=stream)
    )
    return openai.OpenAI(
        api_key="k", base_url="http://gate/llm/v1", http_client=httpx2.Client(transport=transport), max_retries=0
    )


ASKED: Any = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
WAITED = b"".join(
    [
        SURFACE.queue_frame(Position(position=2, depth=2, waited_ms=0), opening()),
        SURFACE.queue_frame(Position(position=1, depth=1, waited_ms=5000, eta_ms=4000), opening()),
        SURFACE.heartbeat(None, opening()),
    ]
)


CHUNKS = b"".join(
    [
        SURFACE.queue_frame(Position(position=1, depth=1, waited_ms=0), opening("chunks")),
        SURFACE.heartbeat(None, opening("chunks")),
    ]
)


@pytest.mark.parametrize("before", [b"", WAITED, CHUNKS])
def test_the_sdk_reads_a_queued_stream(before: bytes) -> None:
    chunks = list(answer(before + recorded("chat")).chat.completions.create(stream=True, **ASKED))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "hi<|im_end"


@pytest.mark.parametrize("before", [b"", WAITED, CHUNKS])
def test_the_helper_of_the_sdk_reads_a_queued_stream(before: bytes) -> None:
    whole = recorded("chat").replace(b'"finish_reason":"length"', b'"finish_reason":"stop"')
    with answer(before + whole).chat.completions.stream(**ASKED) as stream:
        assert stream.get_final_completion().choices[0].message.content == "hi<|im_end"


def test_the_sdk_reads_a_stream_with_ids_and_comments() -> None:
    stream = b"".join(b"id: %d\n" % number + CHUNK + b": alive\n\n" for number in range(3)) + b"data: [DONE]\n\n"
    chunks = list(answer(SURFACE.watch().feed(stream)).chat.completions.create(stream=True, **ASKED))
    assert [chunk.choices[0].delta.content for chunk in chunks] == ["a", "a", "a"]


def test_the_sdk_raises_on_an_error_in_the_stream() -> None:
    frame = SURFACE.error_frame(errors.QueueTimeout("llmgate: waited too long (QUEUE_TIMEOUT)"), "req_1")
    with pytest.raises(openai.APIError, match="QUEUE_TIMEOUT"):
        list(answer(WAITED + frame).chat.completions.create(stream=True, **ASKED))
    frame = SURFACE.upstream_error_frame(503, b"Loading model", "req_1")
    with pytest.raises(openai.APIError, match="Loading model"):
        list(answer(WAITED + CHUNK + frame).chat.completions.create(stream=True, **ASKED))


def test_the_sdk_shows_the_message_of_an_error_body() -> None:
    body = SURFACE.error_body(
        errors.QueueFull("llmgate: the queue of upstream reasoning is full (QUEUE_FULL)"), "req_1"
    )
    with pytest.raises(openai.InternalServerError, match="the queue of upstream reasoning is full") as caught:
        answer(body, 503).chat.completions.create(**ASKED)
    assert caught.value.code == "QUEUE_FULL"


@pytest.mark.parametrize("space", [b"", b" "])
@pytest.mark.parametrize("whole", [True, False])
def test_a_server_that_leaves_done_out_has_ended_with_its_finish_reason(space: bytes, whole: bool) -> None:
    chunk = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":%b%b}]}\n\n'
    watch = SURFACE.watch()
    watch.feed(chunk % (space, b"null"))
    watch.feed(chunk % (space, b'"stop"' if whole else b"null"))
    assert not watch.complete
    watch.finish()
    assert watch.complete is whole


def test_a_finish_reason_inside_a_text_ends_nothing() -> None:
    watch = SURFACE.watch()
    watch.feed(b'data: {"choices":[{"index":0,"delta":{"content":"\\"finish_reason\\":\\"stop\\""}}]}\n\n')
    watch.finish()
    assert not watch.complete
