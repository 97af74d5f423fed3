"""Global options are found wherever they stand, and nothing else is moved."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.cli.hoist import FLAGS, VALUED, hoist, is_json, is_quiet

LOCAL = ["status", "ps", "reasoning", "-a", "--watch", "2", "--upstream", "a=http://x,max_concurrent=1"]


@pytest.mark.parametrize(
    ("line", "hoisted"),
    [
        ("status --json", "--json status"),
        ("ps -a --socket /s --upstream x", "--socket /s ps -a --upstream x"),
        ("serve --config=/f --check", "--config=/f serve --check"),
        ("status -- --json", "status -- --json"),
        ("status --socket", "--socket status"),
        ("", ""),
    ],
)
def test_examples(line: str, hoisted: str) -> None:
    assert hoist(line.split()) == hoisted.split()


@given(st.lists(st.one_of(st.sampled_from([*FLAGS, *LOCAL]), st.sampled_from(VALUED).map(lambda name: f"{name}=/x"))))
def test_globals_come_first_and_every_order_is_kept(line: list[str]) -> None:
    known = [part for part in line if part in FLAGS or part.startswith(VALUED)]
    assert hoist(line) == known + [part for part in line if part not in known]


@pytest.mark.parametrize(
    ("line", "quiet"), [("status -q", True), ("--quiet ps", True), ("status", False), ("status -- -q", False)]
)
def test_whether_it_is_to_be_quiet(line: str, quiet: bool) -> None:
    assert is_quiet(line.split()) == quiet


@pytest.mark.parametrize(("line", "wanted"), [("status --json", True), ("status", False), ("status -- --json", False)])
def test_whether_it_is_to_be_json(line: str, wanted: bool) -> None:
    assert is_json(line.split()) == wanted
