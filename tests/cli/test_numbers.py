"""Numbers of the command line."""

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from llmgate.cli.numbers import number, whole


@given(st.integers(-5, 70_000))
def test_a_whole_number_is_taken_in_its_bounds(value: int) -> None:
    assert whole()(str(value)) == value
    if 1 <= value <= 65535:
        assert whole(1, 65535)(str(value)) == value
    else:
        with pytest.raises(typer.BadParameter, match=r"^must be a whole number from 1 to 65535$"):
            whole(1, 65535)(str(value))


@pytest.mark.parametrize("text", ["", "x", "1.5", "0"])
def test_what_is_no_whole_number_is_told(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"^must be a whole number, 1 or more$"):
        whole(1)(text)


@pytest.mark.parametrize("text", ["", "x", "nan", "inf", "-1", "0.09"])
def test_what_is_no_number_is_told(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"^must be a number, 0.1 or more, such as 2 or 0.5$"):
        number(0.1)(text)


def test_numbers() -> None:
    assert (number(0)("0"), number(0.1)("0.1"), number(0)(2.5)) == (0, 0.1, 2.5)
    with pytest.raises(typer.BadParameter, match=r"^must be a whole number$"):
        whole()("x")
