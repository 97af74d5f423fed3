"""What both of OpenAI's completions share: the end, the fields beside the choices, usage."""

import json
from typing import Any

import pytest

from llmgate.errors import UpstreamFailed
from llmgate.protocols.gather.chat import ChatGathering
from tests.protocols.gather.gathered import CHAT, COMPLETIONS, gather, gathering, text_choice
from tests.protocols.translate.openai_streams import DONE, USAGE, chunk, say, sse, told


def reasons(*items: Any) -> list[Any]:
    return [choice["finish_reason"] for choice in gather(CHAT, sse(*items))["choices"]]


def test_the_end() -> None:
    assert reasons(say("a"), chunk({}, "length"), DONE) == ["length"]
    assert reasons(say("a", "stop")) == ["stop"]
    assert reasons(say("a", "weird"), say("b"), chunk({}, ""), DONE) == ["weird"]


@pytest.mark.parametrize("items", [[say("a")], [say("a", "")], [told()], []])
def test_no_end(items: list[Any]) -> None:
    with pytest.raises(UpstreamFailed, match="before the answer was complete"):
        gather(CHAT, sse(*items))


NO_REASON = [
    [DONE],
    [told(), DONE],
    [{"choices": "x"}, DONE],
    [{"choices": [5]}, DONE],
    [say("a"), DONE],
    [say("a", ""), DONE],
    [say("a"), chunk({}, None), told(), DONE],
]


@pytest.mark.parametrize("items", NO_REASON)
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_without_a_reason_there_is_no_answer(path: str, items: list[Any]) -> None:
    """A stream that is passed on says no more than it was told; here a reason would have to be made up."""
    with pytest.raises(UpstreamFailed, match="before the answer was complete"):
        gather(path, sse(*items))


def test_every_choice_must_have_ended() -> None:
    two = [{"choices": [{"index": index, "delta": {"content": text}}]} for index, text in ((1, "b"), (0, "a"))]
    with pytest.raises(UpstreamFailed):
        gather(CHAT, sse(*two, chunk({}, "stop")))
    with pytest.raises(UpstreamFailed):
        gather(CHAT, sse(*two, chunk({}, "stop"), DONE))
    ends = [{"choices": [{"index": index, "finish_reason": "stop"}]} for index in (0, 1)]
    found = gather(CHAT, sse(*two, *ends, DONE))
    assert [(choice["index"], choice["message"]["content"]) for choice in found["choices"]] == [(0, "a"), (1, "b")]


def test_the_fields_beside_the_choices() -> None:
    found = gather(
        CHAT,
        sse(
            {**say("a"), "created": 5, "obfuscation": "xx", "prompt_progress": {"total": 9}, "service_tier": None},
            {**say("b", "stop"), "created": 6, "timings": {"n": 1}, "service_tier": "flex"},
            {**told(), "id": "", "model": None, "timings": {"n": 2}, "system_fingerprint": "b1"},
            DONE,
        ),
    )
    choices = found.pop("choices")
    assert [choice["message"]["content"] for choice in choices] == ["ab"]
    assert found == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "service_tier": "flex",
        "system_fingerprint": "b1",
        "timings": {"n": 2},
        "usage": USAGE,
    }


def test_a_choice_has_what_its_pieces_have() -> None:
    found = gather(
        COMPLETIONS,
        sse(
            text_choice("a", stop_reason=None, token_ids=None),
            text_choice("b", "stop", stop_reason="END", index=False),
            DONE,
        ),
    )
    assert found["choices"] == [
        {"index": 0, "text": "ab", "finish_reason": "stop", "logprobs": None, "stop_reason": "END", "token_ids": None}
    ]


def test_log_probabilities_are_joined() -> None:
    old = [
        {"tokens": ["a"], "token_logprobs": [-0.5], "top_logprobs": [{"a": -0.5}], "text_offset": [0]},
        {"tokens": ["b"], "token_logprobs": [-1.5], "top_logprobs": [None], "text_offset": [1]},
    ]
    found = gather(COMPLETIONS, sse(*(text_choice("x", logprobs=one) for one in old), text_choice("", "stop"), DONE))
    assert found["choices"][0]["logprobs"] == {key: old[0][key] + old[1][key] for key in old[0]}
    new = [{"content": [{"token": token, "logprob": -1}], "refusal": None} for token in "ab"]
    found = gather(CHAT, sse(*(chunk({"content": "x"}, logprobs=one) for one in new), chunk({}, "stop"), DONE))
    assert found["choices"][0]["logprobs"] == {"content": new[0]["content"] + new[1]["content"], "refusal": None}


@pytest.mark.parametrize(
    ("items", "usage", "tokens"),
    [
        ([say("a"), say("b", "stop"), told()], USAGE, (3, 7)),
        ([say("a"), say("b", "stop")], None, (2, None)),
        ([{**say("a"), "usage": None}, say("b", "stop")], None, (2, None)),
        ([say("a"), chunk({}, "stop", usage=USAGE)], USAGE, (3, 7)),
        ([{**say("a"), "usage": {"completion_tokens": 1}}, say("b", "stop")], {"completion_tokens": 1}, (1, None)),
        ([say("a", "stop"), told(prompt_tokens=-1, completion_tokens="x")], {"prompt_tokens": -1}, (1, None)),
        ([{**say("a", "stop"), "usage": 5}], 5, (1, None)),
    ],
)
def test_usage(items: list[Any], usage: Any, tokens: tuple[int, int | None]) -> None:
    found = gathering(CHAT)
    found.feed(sse(*items, DONE))
    assert (found.output_tokens, found.input_tokens) == tokens
    told = json.loads(found.end()).get("usage")
    assert told == usage or {**told, **usage} == told


def test_each_choice_counts() -> None:
    found = ChatGathering(limit=20_000)
    found.feed(sse(*({"choices": [{"index": index, "finish_reason": "stop"}]} for index in range(20))))
    assert found.failed
