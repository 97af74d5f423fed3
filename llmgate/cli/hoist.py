"""The global options may stand anywhere on the line: `llmgate status --json` is `llmgate --json status`."""

import itertools
from collections.abc import Iterator, Sequence

FLAGS = ("--json", "-q", "--quiet", "-v", "--verbose", "--no-color")
VALUED = ("--socket", "--config")


def hoist(arguments: Sequence[str]) -> list[str]:
    """The arguments with every global option put in front of the command; what follows "--" is left alone."""
    front: list[str] = []
    rest: list[str] = []
    pending = iter(arguments)
    for argument in pending:
        if argument == "--":
            rest += ["--", *pending]
        elif argument in FLAGS or argument.startswith(tuple(f"{name}=" for name in VALUED)):
            front.append(argument)
        elif argument in VALUED:
            front += [argument, *_next(pending)]
        else:
            rest.append(argument)
    return front + rest


def is_quiet(arguments: Sequence[str]) -> bool:
    """Whether the global option --quiet is among them."""
    return _has(arguments, ("-q", "--quiet"))


def is_json(arguments: Sequence[str]) -> bool:
    """Whether the global option --json is among them."""
    return _has(arguments, ("--json",))


def _has(arguments: Sequence[str], names: Sequence[str]) -> bool:
    before = itertools.takewhile(lambda argument: argument != "--", arguments)
    return any(argument in names for argument in before)


def _next(pending: Iterator[str]) -> list[str]:
    value = next(pending, None)
    return [] if value is None else [value]
