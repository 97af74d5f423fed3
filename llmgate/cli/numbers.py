"""Numbers of the command line, refused in words of our own: typer's are those of its library."""

import math
from collections.abc import Callable
from typing import Any

import typer


def whole(least: int | None = None, most: int | None = None) -> Callable[[Any], int]:
    """A parser of whole numbers in these bounds."""

    def parse(text: Any) -> int:
        try:
            found = int(text)
        except ValueError:
            raise typer.BadParameter(f"must be a whole number{_bounds(least, most)}") from None
        if (least is not None and found < least) or (most is not None and found > most):
            raise typer.BadParameter(f"must be a whole number{_bounds(least, most)}")
        return found

    return parse


def number(least: float) -> Callable[[Any], float]:
    """A parser of numbers from `least` on."""

    def parse(text: Any) -> float:
        try:
            found = float(text)
        except ValueError:
            found = math.nan
        if not least <= found < math.inf:
            raise typer.BadParameter(f"must be a number{_bounds(least, None)}, such as 2 or 0.5")
        return found

    return parse


def _bounds(least: float | None, most: float | None) -> str:
    if least is None:
        return ""
    return f", {least:g} or more" if most is None else f" from {least:g} to {most:g}"
