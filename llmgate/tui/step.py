"""What one key leads to: the state after it, and what is to be done outside of the screen."""

from dataclasses import dataclass, replace

from llmgate.tui.actions import Action
from llmgate.tui.state import Message, State


@dataclass(frozen=True, slots=True)
class Do:
    """Have the daemon do this."""

    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the daemon for all that it knows of a request."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Copy:
    """Put this on the person's clipboard."""

    text: str


@dataclass(frozen=True, slots=True)
class Retry:
    """Connect again now."""


@dataclass(frozen=True, slots=True)
class Quit:
    """Leave."""


@dataclass(frozen=True, slots=True)
class Examine:
    """Have `llmgate doctor` look, and show what it says."""


Effect = Do | Ask | Copy | Retry | Examine | Quit


@dataclass(frozen=True, slots=True)
class Step:
    state: State
    effects: tuple[Effect, ...] = ()


def says(state: State, text: str, is_bad: bool = True) -> Step:
    """The state with nothing changed but the line that tells the person something."""
    return Step(replace(state, message=Message(text, is_bad)))
