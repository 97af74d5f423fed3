"""The line of usage of every command, and what is said of options that are not there."""

import re
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        ("status", "[OPTIONS] [UPSTREAM]"),
        ("pause", "[OPTIONS] UPSTREAM"),
        ("set", "[OPTIONS] UPSTREAM LIMIT=VALUE..."),
        ("cancel", "[OPTIONS] ID..."),
        ("config import", "[OPTIONS] --from PROGRAM [FILE]"),
        ("reload", "[OPTIONS]"),
    ],
)
def test_usage_is_written_as_in_the_manual(run: Any, command: str, usage: str) -> None:
    assert run(*command.split(), "-h").out.splitlines()[0] == f"Usage: llmgate {command} {usage}"


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--wach", "--wach. Did you mean --watch?"),
        ("--jsn", "--jsn. Did you mean --json?"),
        ("--xyzzy", "--xyzzy."),
    ],
)
def test_an_option_that_is_none_may_be_meant_for_a_global_one(run: Any, option: str, said: str) -> None:
    done = run("status", option)
    assert (done.status, done.out) == (2, "")
    assert re.search(rf"^llmgate: no such option: {re.escape(said)}$", done.err, re.MULTILINE)
