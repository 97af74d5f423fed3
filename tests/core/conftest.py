"""What the tests of one gate share."""

import pytest

from llmgate.core.caller import Caller
from llmgate.core.events import Event, Limits
from llmgate.core.gate import Gate, Ticket


class Bench:
    """A gate with its own clock; requests are known by one-letter names."""

    def __init__(
        self,
        max_concurrent: int = 1,
        max_queued: int | None = None,
        queue_timeout: float | None = None,
        stall_alarm: float | None = None,
        endpoints: dict[str, int] | None = None,
        holds: bool = True,
    ):
        limits = Limits(max_concurrent, max_queued, queue_timeout, stall_alarm)
        self.gate = Gate("reasoning", limits, endpoints, holds=holds)
        self.now = 0.0

    def enter(self, *names: str, max_wait: float | None = None, session: str = "") -> list[Ticket]:
        return [self.gate.enter(self.now, Caller(id=name, session=session), max_wait=max_wait) for name in names]

    def set_down(self, *names: str, up: bool = False) -> None:
        """Endpoints that go down, or come back; without names, all of them."""
        for name in names or self.gate.endpoints():
            self.gate.set_endpoint(name, self.now, up=up, reason="it takes no connection")

    def leave(self, ticket: Ticket, outcome: str = "completed") -> None:
        self.gate.leave(ticket, self.now, outcome)

    @property
    def line(self) -> str:
        """Who waits, in dispatch order."""
        return "".join(ticket.caller.id for ticket in self.gate.waiting())

    def events(self) -> list[Event]:
        return self.gate.take_events()

    def story(self) -> list[str]:
        """The events since the last look, as "Name of the event" and, for a ticket, its name."""
        return [" ".join([type(event).__name__, *_name(event)]) for event in self.events()]


def _name(event: Event) -> list[str]:
    caller = getattr(event, "caller", None)
    return [caller.id] if caller else []


@pytest.fixture
def bench() -> type[Bench]:
    return Bench
