"""What is the same for each gathering: errors, the bound, and what cannot be read."""

import json
import tracemalloc
from typing import Any

import pytest

from llmgate.errors import UpstreamFailed
from llmgate.protocols.budget import Budget
from llmgate.protocols.gather.chat import ChatGathering
from llmgate.protocols.gather.completions import CompletionsGathering
from llmgate.protocols.gather.gathering import LIMIT, StreamGathering, token_count
from llmgate.protocols.gather.ollama import OllamaGenerateGathering
from llmgate.protocols.upstream_error import UpstreamTold
from tests.protocols.gather.gathered import CHAT, MESSAGES, OLLAMA_CHAT, events, gather, gathering, lines, start
from tests.protocols.translate.openai_streams import DONE, chunk, say, sse


@pytest.mark.parametrize(
    ("path", "stream", "message"),
    [
        (CHAT, sse(say("a"), {"error": {"message": "slot lost", "code": 500}}, DONE), "slot lost"),
        (CHAT, sse(say("a", "stop"), {"error": "gone"}), "gone"),
        (CHAT, b"event: error\ndata: it broke\n\n", "it broke"),
        (CHAT, b"event: error\ndata: 5\n\n", "gave no reason"),
        (CHAT, b"event: error\n\n", "gave no reason"),
        (CHAT, sse({"object": "error", "message": "vLLM"}), "vLLM"),
        (MESSAGES, events(start(), {"type": "error", "error": {"type": "x", "message": "Overloaded"}}), "Overloaded"),
        (MESSAGES, b'data: {"error":{"message":"nameless"}}\n\n', "nameless"),
        (OLLAMA_CHAT, lines({"message": {"content": "a"}, "done": False}, {"error": "out of memory"}), "out of memory"),
    ],
)
def test_an_error_that_the_upstream_told(path: str, stream: bytes, message: str) -> None:
    found = gathering(path)
    found.feed(stream)
    assert found.failed
    with pytest.raises(UpstreamFailed, match=message):
        found.end()


@pytest.mark.parametrize(
    ("told", "status"),
    [
        ({"error": {"message": "m", "code": 503}}, 503),
        ({"error": {"message": "m", "type": "rate_limit_error"}}, 429),
        ({"error": "m"}, 500),
    ],
)
def test_an_error_keeps_its_status_and_its_bytes(told: dict[str, Any], status: int) -> None:
    with pytest.raises(UpstreamTold) as caught:
        gather(CHAT, sse(say("a"), told))
    assert (caught.value.status, json.loads(caught.value.body)) == (status, told)


def test_no_error() -> None:
    assert gather(CHAT, sse({**say("a"), "error": None}, {**say("b", "stop"), "error": {}}, DONE))


@pytest.mark.parametrize("data", [b"oops", b"[1]", b"5", b'"text"', b'{"choices":', b"\xff"])
def test_what_is_no_object_cannot_be_read(data: bytes) -> None:
    with pytest.raises(UpstreamFailed, match="cannot be read"):
        gather(CHAT, sse(say("a")), b"data: " + data + b"\n\n", sse(say("b", "stop"), DONE))


def test_null_and_nothing_are_skipped() -> None:
    stream = b"data: null\n\ndata:\n\nevent: x\n\n" + sse(say("a", "stop"), DONE)
    assert gather(CHAT, stream)["choices"][0]["message"]["content"] == "a"


def test_events_without_blank_lines_between_them() -> None:
    stream = sse(say("a"), say("b", "stop"), DONE)
    assert gather(CHAT, stream.replace(b"\n\n", b"\n")) == gather(CHAT, stream)


def test_a_stream_that_has_not_ended_may_fail_at_its_end() -> None:
    found = gathering(CHAT)
    found.feed(sse(say("a")))
    assert (found.started, found.complete, found.failed) == (True, False, False)
    for _ in range(2):
        with pytest.raises(UpstreamFailed, match="before the answer was complete"):
            found.end()
    assert found.failed
    found.feed(sse(say("b", "stop"), DONE))
    with pytest.raises(UpstreamFailed):
        found.end()


def test_nothing_has_come() -> None:
    found = gathering(CHAT)
    found.feed(b"")
    found.feed(b": working\n\n")
    assert (found.started, found.output_tokens, found.input_tokens) == (False, 0, None)


def test_one_that_does_not_say_how_it_reads() -> None:
    bare = StreamGathering()
    with pytest.raises(NotImplementedError):
        bare.feed(b"data: {}\n\n")
    bare.feed(sse(DONE))
    bare.complete = True
    with pytest.raises(NotImplementedError):
        bare.end()


@pytest.mark.parametrize("depth", [200, 100_000])
def test_deep_nesting_is_an_error_at_most(depth: int) -> None:
    deep = b'data: {"choices":[{"delta":{"a":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}}]}\n\n"
    found = gathering(CHAT)
    found.feed(deep)
    found.feed(sse(chunk({}, "stop"), DONE))
    try:
        json.loads(found.end())
    except UpstreamFailed:
        assert found.failed


@pytest.mark.parametrize("kind", ["feed", "end"])
def test_too_deep(kind: str) -> None:
    class Deep(StreamGathering):
        def _read(self, name: bytes, document: object) -> None:
            if kind == "feed":
                raise RecursionError
            self.complete = True

        def _assemble(self) -> bytes:
            raise RecursionError

    deep = Deep()
    deep.feed(b"data: {}\n\n")
    assert deep.failed is (kind == "feed")
    with pytest.raises(UpstreamFailed, match="too deeply"):
        deep.end()


def test_the_limit_counts_what_is_kept() -> None:
    found = ChatGathering(limit=20_000)
    for _ in range(1000):
        found.feed(sse({**chunk({"content": "ten bytes "}), "timings": {"a": "x" * 50}}))
    assert not found.failed
    for _ in range(1000):
        found.feed(sse(say("ten bytes ")))
    assert found.failed
    with pytest.raises(UpstreamFailed, match="more at once"):
        found.end()


def test_the_limit_of_an_event_and_of_a_line() -> None:
    for found in (ChatGathering(limit=1000), OllamaGenerateGathering(limit=1000)):
        for _ in range(11):
            assert not found.failed
            found.feed(b"x" * 100)
        assert found.failed


def test_the_memory_is_bounded() -> None:
    event = sse({**say("ten bytes "), "choices": [{"delta": {"content": "ten bytes "}, "logprobs": {"content": [{}]}}]})
    found = ChatGathering(limit=300_000)
    tracemalloc.start()
    try:
        while not found.failed:
            found.feed(event * 20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 900_000


def test_the_limit_of_every_kind() -> None:
    assert LIMIT == 64 << 20
    assert CompletionsGathering()._budget._limit == LIMIT
    assert isinstance(CompletionsGathering()._budget, Budget)


@pytest.mark.parametrize(("told", "tokens"), [(3, 3), (0, 0), (-1, None), (True, None), ("3", None), (2**54, None)])
def test_token_count(told: object, tokens: int | None) -> None:
    assert token_count(told, None) == tokens
    assert token_count("no number", 5) == 5
