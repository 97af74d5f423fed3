"""One request's place at one gate, and the states that it goes through."""

import enum
from typing import TYPE_CHECKING

from llmgate.core.caller import Caller

if TYPE_CHECKING:
    from llmgate.core.account import Account
    from llmgate.core.timers import Timer


class State(enum.Enum):
    WAITING = "waiting"
    RUNNING = "running"
    DRAINING = "draining"
    """The request is over for the client, the server is not known to be free of it."""
    GONE = "gone"


class Ticket:
    """From arrival until all it stood for is given back. Only its gate writes it."""

    __slots__ = (
        "account",
        "admitted_at",
        "caller",
        "deadline",
        "endpoint",
        "entered_at",
        "number",
        "order",
        "state",
        "timer",
    )

    def __init__(self, number: int, caller: Caller, now: float) -> None:
        self.number = number
        self.caller = caller
        self.order = number
        self.entered_at = now
        self.admitted_at: float | None = None
        self.deadline: float | None = None
        """When its wait ends, should it have to wait; None = it may wait for ever."""
        self.endpoint = ""
        """The server that it was sent to last; "" while a reload has taken that server away."""
        self.account: Account | None = None
        """That server's: it is counted there, wherever the server belongs by now."""
        self.timer: Timer | None = None
        """The one live entry in its gate's timers: the end of the wait, or of draining."""
        self.state = State.RUNNING

    def __repr__(self) -> str:
        return f"<Ticket {self.number} {self.state.value}>"
