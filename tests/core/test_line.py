"""The line against a plain list, and what it may cost."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.core import line as line_module
from llmgate.core.line import Line

OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["append", "append", "push_front", "remove", "remove head"]), st.integers(0, 1000)),
    max_size=300,
)


@pytest.fixture(params=[4, 64], ids=["small arrays", "real arrays"], scope="module")
def smallest(request):
    """Small arrays are laid out anew every few steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_module, "_SMALLEST", request.param)
        yield request.param


@given(operations=OPERATIONS)
def test_it_is_a_list_that_knows_positions(smallest, operations):
    line: Line[int] = Line()
    expected: list[int] = []
    for member, (operation, which) in enumerate(operations):
        if operation == "append":
            line.append(member)
            expected.append(member)
        elif operation == "push_front":
            line.push_front(member)
            expected.insert(0, member)
        elif expected:
            left = expected.pop(0 if operation == "remove head" else which % len(expected))
            line.remove(left)
            assert left not in line
        assert list(line) == expected
        assert len(line) == len(expected)
        assert [line.position(member) for member in expected] == list(range(1, len(expected) + 1))
        if expected:
            assert line.head() == expected[0]
            assert expected[0] in line


def test_nobody_is_head_of_an_empty_line():
    with pytest.raises(IndexError, match="empty"):
        Line().head()


def test_one_who_does_not_stand_there_has_no_position_and_cannot_leave():
    line: Line[str] = Line()
    line.append("a")
    with pytest.raises(KeyError):
        line.position("b")
    with pytest.raises(KeyError):
        line.remove("b")
    assert list(line) == ["a"]


@pytest.mark.parametrize("call", ["append", "push_front"])
def test_nobody_stands_there_twice_and_a_try_changes_nothing(call):
    line: Line[str] = Line()
    line.append("a")
    line.append("b")
    with pytest.raises(ValueError, match="already"):
        getattr(line, call)("b")
    assert line.head() == "a"
    assert list(line) == ["a", "b"]
    line.remove("a")
    line.append("c")
    assert [line.position(member) for member in "bc"] == [1, 2]


def test_a_long_line_that_has_gone_leaves_no_long_array():
    line: Line[int] = Line()
    for member in range(10_000):
        line.append(member)
    for member in range(9_999):
        line.remove(member)
    assert len(line._members) == len(line._counts) - 1 <= 64
    assert (line.head(), line.position(9_999)) == (9_999, 1)


# ---- cost: cells of the arrays touched, not time


class Cells(list):
    """A list that counts how often one of its cells is read or written."""

    touched = 0

    def __getitem__(self, index):
        Cells.touched += 1
        return super().__getitem__(index)

    def __setitem__(self, index, value):
        Cells.touched += 1
        super().__setitem__(index, value)


class CountedLine(Line):
    """A line whose arrays count; laying one out costs all its cells."""

    def _lay_out(self, members):
        super()._lay_out(members)
        Cells.touched += 2 * len(self._members) + len(members) * len(self._members).bit_length()
        self._members, self._counts = Cells(self._members), Cells(self._counts)


def cost_of(action) -> int:
    before = Cells.touched
    action()
    return Cells.touched - before


@pytest.fixture(params=[1, 100, 1_000, 10_000])
def waiting(request) -> int:
    return request.param


@pytest.fixture
def line(waiting) -> CountedLine:
    line = CountedLine()
    for member in range(waiting):
        line.append(member)
    return line


def test_a_position_costs_the_logarithm_of_the_line(line, waiting):
    bound = math.log2(8 * max(waiting, 64))
    assert max(cost_of(lambda member=member: line.position(member)) for member in range(waiting)) <= bound


@pytest.mark.parametrize("leaver", ["head", "anybody"])
def test_one_who_comes_and_one_who_leaves_cost_the_logarithm_of_the_line(line, waiting, leaver):
    """Over many of them: now and then the line is laid out anew."""
    dice = random.Random(waiting)
    there = list(range(waiting))
    rounds = 2 * waiting + 1_000

    def come_and_leave() -> None:
        for member in range(waiting, waiting + rounds):
            line.append(member)
            there.append(member)
            place = 0 if leaver == "head" else dice.randrange(len(there))
            there[place], left = there[-1] if leaver == "anybody" else there[place], there[place]
            if leaver == "anybody":
                there.pop()
                line.remove(left)
            else:
                line.remove(line.head())

    assert cost_of(come_and_leave) / rounds <= 8 * math.log2(8 * max(waiting, 64))


def test_moving_to_the_front_costs_the_logarithm_of_the_line(line, waiting):
    rounds = 2 * waiting + 1_000

    def move_them() -> None:
        for turn in range(rounds):
            line.remove(turn % waiting)
            line.push_front(turn % waiting)

    assert cost_of(move_them) / rounds <= 8 * math.log2(8 * max(waiting, 64))
