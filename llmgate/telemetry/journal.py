"""Log lines from the gate's events: of requests that have to wait, once each of a full queue and of failures, and of
what is wrong with an upstream and when that is over.

    llmgate: ha-llm session=a61e6e40 queued (depth 1)
    llmgate: ha-llm session=a61e6e40 purpose=compaction dispatched after 5730ms
    llmgate: ha-llm http://gpu2:8000 is down: it takes no connection

The logger writes "llmgate: " in front. A request that gets a slot at once, and does not fail, logs nothing.
"""

import logging
import re

from llmgate.core.caller import Caller
from llmgate.core.events import (
    Abandoned,
    Admitted,
    AlarmCleared,
    AlarmRaised,
    Dismissed,
    Drained,
    EndpointChanged,
    Event,
    Expired,
    LimitsChanged,
    Mode,
    ModeChanged,
    Moved,
    Queued,
    Refused,
    Released,
    Requeued,
    SettingsReloaded,
    TicketEvent,
)
from llmgate.errors import Outcome

FAILURES: frozenset[Outcome] = frozenset({"upstream_error", "upstream_timeout", "upstream_down"})
"""Outcomes that are the upstream's doing."""

_TOLD: frozenset[Outcome | None] = FAILURES | {"cancelled"}
"""Ends of a request that ran, of which a line is written."""

_SESSION_SHOWN = 8
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


class Journal:
    """Writes what an operator would ask about to a logger, one line each."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._told_full: set[str] = set()
        """Upstreams of which the newest thing told is that their queue is full: that is told once."""
        self._told_failed: set[tuple[str, Outcome]] = set()
        """Upstreams and how requests fail there, since the last one that was served: that is told once, too."""

    def apply(self, event: Event) -> None:
        """One line, or none."""
        text = describe(event)
        if self._is_told_already(event) or not text:
            return
        level = logging.WARNING if _is_warning(event) else logging.INFO
        if self._logger.isEnabledFor(level):
            caller = event.caller if isinstance(event, (TicketEvent, Refused)) else None
            who = _who(caller) if caller else ""
            self._logger.log(level, "%s%s %s", event.upstream, who, text, extra={"fields": _fields(event, caller)})

    def _is_told_already(self, event: Event) -> bool:
        match event:
            case Refused(outcome="queue_full", upstream=upstream):
                told = upstream in self._told_full
                self._told_full.add(upstream)
                return told
            case Released(outcome="completed", upstream=upstream):
                self._told_failed = {failed for failed in self._told_failed if failed[0] != upstream}
            case Drained(outcome=outcome) | Released(outcome=outcome) if outcome in FAILURES:
                told = (event.upstream, outcome) in self._told_failed
                self._told_failed.add((event.upstream, outcome))
                return told
            case Queued() | Admitted(queued=True):
                self._told_full.discard(event.upstream)
            case ModeChanged(old=old, new=new):
                return {old, new} == {Mode.OPEN, Mode.HELD}  # it follows from an endpoint, which is told
            case _:
                pass
        return False


def _is_warning(event: Event) -> bool:
    """Where something is wrong, or is right again."""
    if isinstance(event, EndpointChanged):
        return event.up is not event.old_up
    if isinstance(event, (Drained, Released)):
        return event.outcome in FAILURES
    return isinstance(event, (AlarmRaised, AlarmCleared))


def kind_of(event: Event) -> str:
    """The event's past-tense word in lower case, such as "limits_changed"."""
    return _CAPITAL.sub("_", type(event).__name__).lower()


def describe(event: Event) -> str:
    """The event in words, without upstream and request; "" for what is not told."""
    text, by = _describe(event), getattr(event, "by", "")
    return f"{text} by {by}" if text and by else text


def _describe(event: Event) -> str:
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
        case Drained(outcome=outcome, ran=ran) | Released(outcome=outcome, ran=ran) if outcome in _TOLD:
            return f"{outcome} after {round(ran * 1000)}ms"
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
                for name in ("max_concurrent", "max_queued", "queue_timeout", "stall_alarm")
                if getattr(new, name) != getattr(old, name)
            ]
            return "limits changed: " + ", ".join(changed)
        case AlarmRaised(text=text) | SettingsReloaded(text=text):
            return text
        case AlarmCleared(alarm=alarm):
            return f"{alarm.replace('_', ' ')} no more"
        case EndpointChanged():
            return _describe_endpoint(event)
        case _:
            return ""


def _describe_endpoint(event: EndpointChanged) -> str:
    """The only one is called as its upstream, whose name stands there already."""
    name = f"{event.endpoint} " if event.endpoint != event.upstream else ""
    told = []
    if event.up is not event.old_up:
        why = f": {event.reason}" if event.reason else ""
        told.append(f"{name}is up again" if event.up else f"{name}is down{why}")
    if event.max_concurrent != event.old_max_concurrent:
        told.append(f"{name}max_concurrent={event.max_concurrent} (was {event.old_max_concurrent})")
    return ", ".join(told)


def _fields(event: Event, caller: Caller | None) -> dict[str, str]:
    """What the line is about, for logs that keep that apart."""
    about = {"upstream": event.upstream, "outcome": getattr(event, "outcome", None) or ""}
    return about if caller is None else {**about, "request": caller.id, "session": caller.session}


def _who(caller: Caller) -> str:
    session = f" session={caller.session[:_SESSION_SHOWN]}" if caller.session else ""
    purpose = f" purpose={caller.purpose}" if caller.purpose else ""
    key = f" key={caller.key}" if caller.key else ""
    return session + purpose + key
