"""Which requests may be answered from a stream."""

import json
from typing import Any

import pytest

from llmgate.protocols.gather.fields import may_be_gathered
from llmgate.protocols.gather.members import read_members
from tests.protocols.gather.gathered import CHAT, COMPLETIONS, GENERATE, MESSAGES, OLLAMA_CHAT, PATHS, RESPONSES


def may(path: str, **fields: Any) -> bool:
    members = read_members(json.dumps({"model": "m", **fields}).encode())
    assert members is not None
    return may_be_gathered(path, members)


@pytest.mark.parametrize("path", PATHS)
def test_a_field_that_nobody_knows(path: str) -> None:
    assert may(path, stream=False)
    assert not may(path, stream=False, tomorrow=1)
    assert not may(path, Stream=False)


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/rerank", "/api/embed", "/v1/messages/count_tokens", ""])
def test_other_paths(path: str) -> None:
    assert not may(path)


@pytest.mark.parametrize(
    ("path", "field", "values"),
    [
        (CHAT, "messages", [[], [{"role": "user", "content": "a"}]]),
        (CHAT, "cache_prompt", [True, False]),
        (CHAT, "tools", [[]]),
        (CHAT, "n", [1, None]),
        (CHAT, "logprobs", [False, None]),
        (CHAT, "top_logprobs", [0, None]),
        (CHAT, "n_probs", [0, None]),
        (CHAT, "modalities", [None, ["text"]]),
        (CHAT, "store", [None, False]),
        (CHAT, "audio", [None]),
        (CHAT, "reasoning_format", ["auto", "none", "deepseek", None]),
        (CHAT, "stream_options", [None, {}]),
        (CHAT, "speculative.n_max", [5]),
        (COMPLETIONS, "prompt", ["a", [1, 2], ["a"], []]),
        (COMPLETIONS, "echo", [False, None]),
        (COMPLETIONS, "best_of", [1, None]),
        (COMPLETIONS, "logprobs", [None, 0, 3]),
        (COMPLETIONS, "n_probs", [None, 0, 3]),
        (COMPLETIONS, "stop", [None, "a", ["a"]]),
        (COMPLETIONS, "suffix", ["a"]),
        (MESSAGES, "thinking", [{"type": "enabled"}]),
        (MESSAGES, "system", ["a"]),
        (RESPONSES, "store", [True, False]),
        (RESPONSES, "background", [False, None]),
        (OLLAMA_CHAT, "logprobs", [True]),
        (OLLAMA_CHAT, "tools", [[]]),
        (GENERATE, "context", [[1]]),
    ],
)
def test_what_may(path: str, field: str, values: list[Any]) -> None:
    assert [value for value in values if not may(path, **{field: value})] == []


@pytest.mark.parametrize(
    ("path", "field", "values"),
    [
        (CHAT, "n", [2, 0, "1", [1]]),
        (CHAT, "n_cmpl", [2]),
        (CHAT, "logprobs", [True, 0]),
        (CHAT, "top_logprobs", [1]),
        (CHAT, "n_probs", [1]),
        (CHAT, "modalities", [["text", "audio"], ["audio"], "text"]),
        (CHAT, "audio", [{"voice": "a"}]),
        (CHAT, "store", [True]),
        (CHAT, "verbose", [True]),
        (CHAT, "echo", [True]),
        (CHAT, "web_search_options", [{}]),
        (CHAT, "prompt", ["a"]),
        (CHAT, "use_beam_search", [True]),
        (CHAT, "prompt_logprobs", [1]),
        (CHAT, "reasoning_format", ["deepseek-legacy"]),
        (COMPLETIONS, "prompt", [["a", "b"], [[1], [2]], [1, "a"], None, {}]),
        (COMPLETIONS, "echo", [True]),
        (COMPLETIONS, "best_of", [2]),
        (COMPLETIONS, "n", [2]),
        (COMPLETIONS, "messages", [[]]),
        (MESSAGES, "logprobs", [True]),
        (MESSAGES, "stream_options", [{}]),
        (RESPONSES, "background", [True]),
        (OLLAMA_CHAT, "_debug_render_only", [True]),
        (OLLAMA_CHAT, "prompt", ["a"]),
        (GENERATE, "width", [64]),
        (GENERATE, "messages", [[]]),
    ],
)
def test_what_may_not(path: str, field: str, values: list[Any]) -> None:
    assert [value for value in values if may(path, **{field: value})] == []


@pytest.mark.parametrize("asked", [{"logprobs": 0}, {"logprobs": 2}, {"n_probs": 2}])
def test_log_probabilities_and_a_stop_string(asked: dict[str, Any]) -> None:
    for nothing in (None, [], ""):
        assert may(COMPLETIONS, prompt="a", stop=nothing, **asked)
    for stop in ("a", ["a", "b"]):
        assert not may(COMPLETIONS, prompt="a", stop=stop, **asked)
        assert may(COMPLETIONS, prompt="a", stop=stop, logprobs=None, n_probs=0)
