"""docs/fault-matrix.md against the tests: every number has a test with it in its name, and no test has another one."""

import functools
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
MATRIX = (TESTS.parent / "docs" / "fault-matrix.md").read_text()

ROWS = dict(re.findall(r"^\| (F\d\d) \|.*\| ([^|]*) \|$", MATRIX, re.MULTILINE))
"""By number: the cell that names the files."""

_TEST = re.compile(r"^\s*(?:async )?def (test_\w+)", re.MULTILINE)
_NUMBER = re.compile(r"(?<=_)f(\d\d)(?=_|$)")


@functools.cache
def numbered_tests() -> dict[str, set[str]]:
    """By number: the files, as the page names them, that have a test of it."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in files_of_tests():
        for name in _TEST.findall(path.read_text()):
            for number in _NUMBER.findall(name):
                found[f"F{number}"].add(str(path.relative_to(TESTS)))
    return found


def files_of_tests() -> Iterator[Path]:
    """Without what was fetched for the JavaScript clients, which is large."""
    for folder, folders, names in os.walk(TESTS):
        folders[:] = [name for name in folders if name not in ("node_modules", "__pycache__")]
        yield from (Path(folder, name) for name in names if re.fullmatch(r"test_\w+\.py", name))


def test_the_page_lists_the_whole_matrix() -> None:
    assert len(ROWS) == 64
    assert list(ROWS) == sorted(ROWS)
    assert (min(ROWS), max(ROWS)) == ("F01", "F83")


@pytest.mark.parametrize("number", sorted(ROWS))
def test_each_number_has_a_test_where_the_page_says(number: str) -> None:
    named = set(re.findall(r"`([^`]+)`", ROWS[number]))
    assert named, f"{number} is shown by no test"
    assert named <= numbered_tests().get(number, set())


def test_no_test_has_a_number_that_is_not_in_the_matrix() -> None:
    assert set(numbered_tests()) <= set(ROWS)
