"""Completions put together."""

from tests.protocols.gather.gathered import COMPLETIONS, gather, text_choice
from tests.protocols.translate.openai_streams import DONE, sse


def test_text() -> None:
    found = gather(COMPLETIONS, sse(text_choice("Once "), text_choice("upon"), text_choice("", "length"), DONE))
    assert found == {
        "id": "cmpl-1",
        "object": "text_completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "text": "Once upon", "logprobs": None, "finish_reason": "length"}],
    }


def test_what_is_no_text() -> None:
    choices = [{"text": None}, {"delta": {"content": "x"}, "finish_reason": "stop"}]
    found = gather(COMPLETIONS, sse({"choices": choices}, DONE))
    assert found["choices"] == [{"index": 0, "text": "", "finish_reason": "stop", "delta": {"content": "x"}}]
