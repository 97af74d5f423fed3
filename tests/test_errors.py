"""The tree in the docstring is the tree in the code, and every error is one that a client can be told."""

import re

import pytest

from llmgate import errors
from llmgate.errors import AdminRefusal, BadRequest, GateError, LlmgateError, Outcome, QueueFull, UpstreamDown

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


def test_what_an_operator_is_told_of_it() -> None:
    refused = UpstreamDown("llmgate: no connection to the upstream (UPSTREAM_DOWN)")
    assert refused.reason == "no connection to the upstream"
    refused.__cause__ = ConnectionRefusedError(111, "Connection refused")
    assert refused.reason == "no connection to the upstream: Connection refused"
    refused.__cause__ = ValueError("some text")
    assert refused.reason == "no connection to the upstream", "nobody knows what is in it"
    assert GateError().reason == ""
    assert "role" not in BadRequest("llmgate: there is no role 'words of it' (BAD_REQUEST)").reason


def test_a_refusal_of_the_daemon_has_its_word_beside_the_message() -> None:
    refusal = AdminRefusal("llmgate: no upstream is called x", "UNKNOWN_UPSTREAM")
    assert (str(refusal), refusal.code) == ("llmgate: no upstream is called x", "UNKNOWN_UPSTREAM")
