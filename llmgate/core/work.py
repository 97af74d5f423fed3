"""Whether a server works, from two looks at its slots: for a request of which nothing was heard between them.

A server does not tell which of its slots has which request. So what moved is shared out:

- A slot that reads a prompt is life for every request: a llama-server fills its batches with one prompt at a time, and
  what else has a slot stands still meanwhile (llmgate's own measurement: 10 s beside a prompt of 3000 tokens).
- A slot that writes is life only where more of them moved than we heard of: the others' own pieces account for theirs.
- Somebody else's request, of which nothing is known here, is taken for the silent one: a clock may run out too late by
  that, never too early.
"""

from collections.abc import Hashable, Mapping
from typing import NamedTuple


class Work(NamedTuple):
    """What one busy slot has done so far; None: the server does not tell it."""

    task: int | None
    read: int | None
    """Tokens of the prompt."""
    written: int | None
    """Tokens of the answer."""


class Look(NamedTuple):
    """The busy slots of a server."""

    at: float
    """When it was asked, in seconds on the monotonic clock."""
    busy: Mapping[Hashable, Work]


def is_at_work(before: Look, after: Look, heard: int) -> bool:
    """Whether a silent request may have come on between the looks; `heard` others had pieces of theirs meanwhile."""
    moved = [work for slot, work in after.busy.items() if before.busy.get(slot) != work]
    return any(not work.written for work in moved) or len(moved) > heard
