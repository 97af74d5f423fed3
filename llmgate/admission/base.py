"""What the conductor may ask of an admission, whatever keeps the queue: one process's memory, later a shared store."""

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Protocol, Self

from llmgate.core.account import Account
from llmgate.core.caller import Caller
from llmgate.core.line import Position
from llmgate.errors import Outcome

NO_CONNECTION = "it takes no connection"
LOADING_MODEL = "it is loading its model"
"""Why a server is down, for a person."""


class Place(Protocol):
    """One request's place at one upstream, held by `async with`.

    Leaving the block gives everything back, with the outcome of the exception that ended it, unless the slot was handed
    over: then whoever owns the upstream call gives it back with `leave` or `drain`, exactly once or oftener.
    """

    async def __aenter__(self) -> Self:
        """QueueFull or Refused where there is no room. Does not wait for the slot."""
        ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @property
    def queued(self) -> bool:
        """Whether it had to wait, or waits."""
        ...

    @property
    def had_slot(self) -> bool:
        """Whether it had a slot once and lost it again: see `requeue`."""
        ...

    @property
    def endpoint(self) -> str:
        """The server that it was sent to last."""
        ...

    @property
    def account(self) -> Account | None:
        """Of that server, also where a reload took it away from this upstream, so that it is no endpoint any more."""
        ...

    @property
    def time_left(self) -> float:
        """Seconds that it may still wait; inf: as long as it likes."""
        ...

    @property
    def waited(self) -> float:
        """Seconds from arrival to the slot, or until now."""
        ...

    def position(self) -> Position | None:
        """Where it stands now; None when it does not wait."""
        ...

    def positions(self) -> AsyncIterator[Position]:
        """Where it stands, at once and whenever that changed, the newest only; ends with the slot.

        Nothing at all when a slot was free. Raises QueueTimeout, Cancelled or Refused when the wait ends otherwise.
        """
        ...

    async def wait_admitted(self) -> None:
        """Waits for the slot without being told positions; raises as `positions` does."""
        ...

    def hand_over(self) -> None:
        """From here on the slot is given back by `leave` or `drain`, not by the end of the block."""
        ...

    @property
    def is_handed_over(self) -> bool:
        """Whether a call is being made with its slot."""
        ...

    def take_back(self) -> None:
        """Undoes `hand_over`: the call is over, and another one is to be made with the same slot."""
        ...

    def requeue(self, reason: str) -> bool:
        """Its server is down (`reason` says why, for a person), and nothing of it was sent: back to its old place.

        False where nobody waits for a server to come back, and no other one is there: it still has its slot then.
        """
        ...

    def note_up(self) -> None:
        """Its server answers."""
        ...

    def leave(self, outcome: Outcome, reason: str = "") -> None:
        """Gives the slot or the place back. Never waits; the first outcome counts. `reason`, here and below: why it
        ended so, for an operator."""
        ...

    def give_up(self, outcome: Outcome, reason: str = "") -> None:
        """As `leave`, unless the slot was handed over: then nothing happens."""
        ...

    def drain(self, outcome: Outcome, seconds: float | None, reason: str = "") -> None:
        """The request is over; the slot comes back after that long at the latest (None: only by `leave`)."""
        ...


class Admission(Protocol):
    """The queues of all upstreams."""

    def enter(self, upstream: str, caller: Caller, *, max_wait: float | None = None) -> Place:
        """A place that is taken when its `async with` begins. `max_wait` (seconds) shortens the upstream's limit."""
        ...
