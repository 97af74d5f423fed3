"""How long a command waits for something to become true, and what it exits with when that time is over."""

import time
from typing import NoReturn

import typer

from llmgate.cli.context import Context
from llmgate.cli.failure import complain

TIMED_OUT = 5


def seconds(text: str) -> float:
    """A duration of the command line: 30, 90s, 5m."""
    from llmgate.config.units import BadValue, parse_duration

    try:
        return parse_duration(text)
    except BadValue as error:
        raise typer.BadParameter(str(error)) from None


class Patience:
    """So many seconds from now; None = without end."""

    def __init__(self, limit: float | None) -> None:
        self._until = None if limit is None else time.monotonic() + limit

    def left(self) -> float | None:
        """Seconds; None = without end."""
        return None if self._until is None else max(0.0, self._until - time.monotonic())

    def is_over(self) -> bool:
        return self._until is not None and time.monotonic() >= self._until


def time_out(why: str, context: Context) -> NoReturn:
    """Ends the command: what it waited for is not true yet, and `why`."""
    if not context.quiet:
        complain("TIMED_OUT", f"llmgate: timed out: {why}", as_json=context.json)
    raise typer.Exit(TIMED_OUT)
