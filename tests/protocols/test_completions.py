"""The completions surface: where it differs from chat, and the official SDK on its streams."""

import json
from typing import Any

import httpx2
import openai
import pytest

from llmgate import errors
from llmgate.core.line import Position
from llmgate.protocols.completions import CompletionsSurface
from llmgate.protocols.openai import ChatSurface
from tests.protocols.streams import opening, recorded

SURFACE = CompletionsSurface()
POSITION = Position(position=2, depth=3, waited_ms=1200, eta_ms=4000)


def test_waiting_is_told_by_a_comment() -> None:
    assert SURFACE.queue_frame(POSITION, opening()) == b": queue 2/3\n\n"
    assert SURFACE.heartbeat(None, opening("comments")) == b": working\n\n"


def test_a_chunk_is_one_of_this_surface() -> None:
    whole = {
        "id": "cmpl-req_1",
        "object": "text_completion",
        "created": 1796034030,
        "model": "m",
        "choices": [{"index": 0, "text": "", "logprobs": None, "finish_reason": None}],
    }
    frame = SURFACE.queue_frame(POSITION, opening("chunks"))
    assert frame.startswith(b"data: ")
    assert frame.endswith(b"\n\n")
    assert json.loads(frame[6:]) == whole | {"queue": {"position": 2, "depth": 3}}
    assert json.loads(SURFACE.heartbeat(None, opening("chunks"))[6:]) == whole


def test_a_chunk_tells_the_state_of_the_upstream() -> None:
    down = Position(position=2, depth=3, waited_ms=1200, state="upstream_down")
    told = b'"queue":{"position":2,"depth":3,"state":"upstream_down"}}\n\n'
    assert SURFACE.queue_frame(down, opening("chunks")).endswith(told)
    assert SURFACE.heartbeat(down, opening("chunks")).endswith(told)


def test_errors_are_those_of_chat() -> None:
    error, chat = errors.QueueTimeout("llmgate: waited too long (QUEUE_TIMEOUT)"), ChatSurface()
    assert SURFACE.error_body(error, "req_1") == chat.error_body(error, "req_1")
    assert SURFACE.error_frame(error, "req_1") == chat.error_frame(error, "req_1")
    assert SURFACE.upstream_error_body(500, b"oops", "") == chat.upstream_error_body(500, b"oops", "")
    assert SURFACE.upstream_error_frame(500, b"oops", "") == chat.upstream_error_frame(500, b"oops", "")


def test_a_recorded_stream() -> None:
    watch = SURFACE.watch()
    assert watch.feed(recorded("completions")) == recorded("completions")
    assert (watch.complete, watch.failed, watch.started) == (True, False, True)
    assert (watch.input_tokens, watch.output_tokens) == (4, 6)


def test_a_server_may_leave_done_out_here_too() -> None:
    watch = SURFACE.watch()
    watch.feed(recorded("completions").replace(b"data: [DONE]\n\n", b""))
    assert not watch.complete
    watch.finish()
    assert watch.complete


def answer(stream: bytes) -> openai.OpenAI:
    transport = httpx2.MockTransport(
        lambda request: httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream)
    )
    return openai.OpenAI(
        api_key="k", base_url="http://gate/llm/v1", http_client=httpx2.Client(transport=transport), max_retries=0
    )


ASKED: Any = {"model": "m", "prompt": "Say hi."}
WAITED = SURFACE.queue_frame(POSITION, opening()) + SURFACE.heartbeat(None, opening())
CHUNKS = SURFACE.queue_frame(POSITION, opening("chunks")) + SURFACE.heartbeat(None, opening("chunks"))


@pytest.mark.parametrize("before", [b"", WAITED, CHUNKS])
def test_the_sdk_reads_a_queued_stream(before: bytes) -> None:
    chunks = list(answer(before + recorded("completions")).completions.create(stream=True, **ASKED))
    assert "".join(chunk.choices[0].text for chunk in chunks) == "\n\nI’m a "


def test_the_sdk_raises_on_an_error_in_the_stream() -> None:
    frame = SURFACE.error_frame(errors.QueueTimeout("llmgate: waited too long (QUEUE_TIMEOUT)"), "req_1")
    with pytest.raises(openai.APIError, match="QUEUE_TIMEOUT"):
        list(answer(WAITED + frame).completions.create(stream=True, **ASKED))
