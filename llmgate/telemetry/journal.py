"""Log lines from the gate's events: only of requests that have to wait, and of a queue that is full, once each time.

    llmgate: ha-llm session=a61e6e40 queued (depth 1)
    llmgate: ha-llm session=a61e6e40 purpose=compaction dispatched after 5730ms

The logger writes "llmgate: " in front. A request that gets a slot at once logs nothing.
"""

import logging

from llmgate.core.caller import Caller
from llmgate.core.events import (
    Abandoned,
    Admitted,
    Dismissed,
    Event,
    Expired,
    LimitsChanged,
    ModeChanged,
    Moved,
    Queued,
    Refused,
    Requeued,
    TicketEvent,
)

_SESSION_SHOWN = 8


class Journal:
    """Writes what an operator would ask about to a logger, one line each."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._told_full: set[str] = set()
        """Upstreams of which the newest thing told is that their queue is full: that is told once."""

    def apply(self, event: Event) -> None:
        """One line, or none."""
        text = describe(event)
        if not text or self._is_told_already(event):
            return
        if self._logger.isEnabledFor(logging.INFO):
            caller = event.caller if isinstance(event, (TicketEvent, Refused)) else None
            self._logger.info("%s%s %s", event.upstream, _who(caller) if caller else "", text)

    def _is_told_already(self, event: Event) -> bool:
        if isinstance(event, Refused) and event.outcome == "queue_full":
            told = event.upstream in self._told_full
            self._told_full.add(event.upstream)
            return told
        self._told_full.discard(event.upstream)
        return False


def describe(event: Event) -> str:
    """The event in words, without upstream and request; "" for what is not told."""
    match event:
        case Admitted(queued=True, waited=waited):
            return f"dispatched after {round(waited * 1000)}ms"
        case Queued(depth=depth):
            return f"queued (depth {depth})"
        case Abandoned(outcome=outcome, waited=waited) | Expired(outcome=outcome, waited=waited):
            return f"{outcome} after {round(waited * 1000)}ms"
        case Dismissed(outcome=outcome, waited=waited):
            return f"{outcome} after {round(waited * 1000)}ms"
        case Refused(outcome=outcome, depth=depth):
            return f"{outcome} (depth {depth})"
        case Moved():
            return "moved to the front"
        case Requeued():
            return "requeued: nothing of it was sent"
        case _:
            return _describe_change(event)


def _describe_change(event: Event) -> str:
    match event:
        case ModeChanged(old=old_mode, new=new_mode):
            return f"{new_mode.value} (was {old_mode.value})"
        case LimitsChanged(old=old, new=new):
            changed = [
                f"{name}={getattr(new, name)} (was {getattr(old, name)})"
                for name in ("max_concurrent", "max_queued", "queue_timeout")
                if getattr(new, name) != getattr(old, name)
            ]
            return "limits changed: " + ", ".join(changed)
        case _:
            return ""


def _who(caller: Caller) -> str:
    session = f" session={caller.session[:_SESSION_SHOWN]}" if caller.session else ""
    purpose = f" purpose={caller.purpose}" if caller.purpose else ""
    return session + purpose
