"""Usage: what is told, and what is estimated."""

from typing import Any

import pytest

from llmgate.protocols.translate.usage import Usage, estimate


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ([{"prompt_tokens": 7, "completion_tokens": 3}], {"input_tokens": 7, "output_tokens": 3}),
        ([{"prompt_tokens": 1}, {"prompt_tokens": 7, "completion_tokens": 3}], {"input_tokens": 7, "output_tokens": 3}),
        ([{"prompt_tokens": 7}, {"prompt_tokens": None}, None, [], 5], {"input_tokens": 7, "output_tokens": 0}),
        ([{"prompt_tokens": True, "completion_tokens": 2**60}], {"input_tokens": 9, "output_tokens": 0}),
        ([{"prompt_tokens": -1, "completion_tokens": 1.5}], {"input_tokens": 9, "output_tokens": 0}),
        (
            [{"prompt_tokens": 7, "completion_tokens": 3, "prompt_cache_hit_tokens": 2}],
            {"input_tokens": 5, "output_tokens": 3, "cache_read_input_tokens": 2},
        ),
        (
            [{"prompt_tokens": 7, "prompt_cache_hit_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}],
            {"input_tokens": 3, "output_tokens": 0, "cache_read_input_tokens": 4},
        ),
        (
            [{"prompt_tokens": 7, "prompt_cache_hit_tokens": 2, "prompt_tokens_details": {"cached_tokens": None}}],
            {"input_tokens": 5, "output_tokens": 0, "cache_read_input_tokens": 2},
        ),
    ],
)
def test_what_is_told(told: list[Any], shown: dict[str, int]) -> None:
    usage = Usage()
    for one in told:
        usage.read(one)
    assert usage.render(9) == shown


def test_a_piece_is_at_least_a_token() -> None:
    usage = Usage()
    usage.count("a")
    usage.count("")
    assert usage.produced == 2
    usage.count("x" * 40)
    assert usage.produced == 11


def test_the_estimate() -> None:
    assert [estimate(characters) for characters in (0, 1, 4, 5)] == [0, 1, 1, 2]
