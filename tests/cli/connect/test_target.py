"""How patient a client must be."""

import pytest

from llmgate.cli.connect.target import ANSWER_SECONDS, LONGEST_MS, Target


def test_clients_of_openai_want_v1() -> None:
    assert Target("http://h:1/llm").openai == "http://h:1/llm/v1"


@pytest.mark.parametrize("wait", [0.5, 270.0, 3600.0, 86400.0])
def test_patience_is_longer_than_any_wait(wait: float) -> None:
    target = Target("http://h", queue_timeout=wait)
    assert target.patience_ms == (wait + ANSWER_SECONDS) * 1000
    assert target.patience > wait
    assert not target.for_ever


@pytest.mark.parametrize("wait", [None, 30 * 86400.0])
def test_it_never_overflows_a_timer_of_node(wait: float | None) -> None:
    target = Target("http://h", queue_timeout=wait)
    assert (target.patience_ms, target.for_ever) == (LONGEST_MS, True)


def test_a_key_that_is_asked_for_is_to_be_filled_in() -> None:
    assert Target("http://h").key == "llmgate"
    assert Target("http://h", key_needed=True).key == "YOUR-LLMGATE-KEY"
