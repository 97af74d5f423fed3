"""Budget: the limit, exactly."""

import pytest

from llmgate.errors import UpstreamFailed
from llmgate.protocols.budget import Budget


def test_the_limit() -> None:
    budget = Budget(10)
    budget.take(10)
    with pytest.raises(UpstreamFailed, match="more at once"):
        budget.take(1)


def test_what_is_given_back_may_be_taken_again() -> None:
    budget = Budget(10)
    budget.take(8)
    budget.give_back(3)
    budget.take(5)
    with pytest.raises(UpstreamFailed):
        budget.require(1)


def test_what_is_only_required_is_not_taken() -> None:
    budget = Budget(10)
    budget.require(10)
    budget.take(10)
