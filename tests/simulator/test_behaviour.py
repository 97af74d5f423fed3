"""The simulated server's plan: when its tokens are due, what its failures are, and that the seed decides."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.simulator.behaviour import Behaviour, Failure, Fate


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("refuse", Failure("refuse", 1.0)),
        ("break:0.25", Failure("break", 0.25)),
        ("503:1", Failure("503", 1.0)),
    ],
)
def test_a_failure_is_read_from_the_command_line(text: str, failure: Failure) -> None:
    assert Failure.parse(text) == failure


@pytest.mark.parametrize("text", ["", "399", "600", "explode", "break:", "break:often", "503:1.1", "503:-1", "٥٠٣"])
def test_what_is_no_failure_is_refused_with_what_to_type(text: str) -> None:
    with pytest.raises(ValueError, match=r"give|a number from 0 to 1"):
        Failure.parse(text)


@pytest.mark.parametrize(
    "fields", [{"slots": 0}, {"tokens": 0}, {"hold": -1}, {"prompt": -0.1}, {"tokens_per_second": -1}]
)
def test_impossible_behaviour_is_refused(fields: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"at least|negative"):
        Behaviour(**fields)


@given(
    hold=st.floats(0, 10),
    prompt=st.floats(0, 10),
    rate=st.floats(0, 100).filter(lambda rate: rate == 0 or rate > 0.01),
    tokens=st.integers(1, 50),
)
def test_tokens_come_in_order_after_the_prompt_and_the_slot_is_kept_for_the_hold(
    hold: float, prompt: float, rate: float, tokens: int
) -> None:
    behaviour = Behaviour(hold=hold, prompt=prompt, tokens_per_second=rate)
    times = behaviour.token_times(tokens)
    assert len(times) == tokens
    assert times == sorted(times)
    assert times[0] == prompt
    assert behaviour.ends_at(tokens) >= max(hold, times[-1])


def test_without_a_rate_the_tokens_are_spread_over_the_hold() -> None:
    assert Behaviour(hold=3, prompt=1).token_times(4) == [1.0, 1.5, 2.0, 2.5]


def test_the_same_seed_draws_the_same_fate() -> None:
    behaviour = Behaviour(failures=(Failure("503", 0.3), Failure("break", 0.3)), seed=7)
    one, two = Fate(behaviour), Fate(behaviour)
    draws = [one.draw() for _ in range(300)]
    assert draws == [two.draw() for _ in range(300)]
    assert set(draws) == {None, "503", "break"}
