"""The tree in the docstring is the tree in the code, and every error is one that a client can be told."""

import re

import pytest

from llmgate import errors
from llmgate.errors import GateError, LlmgateError, Outcome, QueueFull

ROW = re.compile(r"^    [│├└─ ]*(\w+) +([A-Z_]+) +(\d+|-) +(\w+|-)", re.MULTILINE)


def all_errors(base: type[LlmgateError]) -> list[type[LlmgateError]]:
    return [base, *(found for child in base.__subclasses__() for found in all_errors(child))]


def told() -> dict[str, tuple[str, str, str]]:
    assert errors.__doc__ is not None
    return {name: (code, status, outcome) for name, code, status, outcome in ROW.findall(errors.__doc__)}


def own(base: type[GateError]) -> list[type[GateError]]:
    return [error for error in all_errors(base) if error.__module__ == errors.__name__]  # type: ignore[misc]


def test_the_docstring_names_each_error_and_no_other() -> None:
    assert set(told()) == {error.__name__ for error in own(GateError)} - {"GateError", "QueueError"}


@pytest.mark.parametrize("name", sorted(told()))
def test_the_docstring_tells_code_status_and_outcome(name: str) -> None:
    error = getattr(errors, name)
    code, status, outcome = told()[name]
    assert error.code == code
    assert status in ("-", str(error.status))
    assert outcome in ("-", error.outcome)


def test_each_outcome_is_of_the_closed_list() -> None:
    assert {error.outcome for error in own(GateError)} <= set(Outcome.__args__)


def test_no_two_errors_share_a_code() -> None:
    codes = [error.code for error in own(GateError) if error.__name__ not in ("GateError", "QueueError")]
    assert len(codes) == len(set(codes))


def test_counts_stand_beside_the_message() -> None:
    error = QueueFull("llmgate: full (QUEUE_FULL)", depth=3, limit=2)
    assert (str(error), error.depth, error.limit) == ("llmgate: full (QUEUE_FULL)", 3, 2)
