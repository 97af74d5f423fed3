"""Log lines from the gate's events: of requests that have to wait, once each of a full queue and of failures, and of
what is wrong with an upstream and when that is over.

    llmgate: ha-llm session=a61e6e40 queued (depth 1)
    llmgate: ha-llm session=a61e6e40 purpose=compaction dispatched after 5730ms
    llmgate: ha-llm down: it takes no connection

After upstream and caller comes what happened, one word for each kind of event: the same word stands in the events and
in `top`. The logger writes "llmgate: " in front. A request that gets a slot at once, and does not fail, logs nothing.
"""

import logging
import re

from llmgate.config.units import format_duration
from llmgate.core.caller import Caller
from llmgate.core.events import (
    Abandoned,
    Admitted,
    AlarmCleared,
    AlarmRaised,
    CallerRefused,
    Dismissed,
    Drained,
    EndpointChanged,
    EndpointsReplaced,
    Event,
    Expired,
    LimitsChanged,
    Mode,
    ModeChanged,
    Moved,
    Queued,
    RanEmpty,
    Refused,
    Released,
    Requeued,
    SettingsReloaded,
    TicketEvent,
    UpstreamRenamed,
)
from llmgate.errors import Outcome

FAILURES: frozenset[Outcome] = frozenset({"upstream_error", "upstream_timeout", "upstream_down"})
"""Outcomes that are the upstream's doing."""

_TOLD: frozenset[Outcome | None] = FAILURES | {"cancelled"}
"""Ends of a request that ran, of which a line is written."""

_FOLLOWS: frozenset[Mode] = frozenset({Mode.OPEN, Mode.HELD})
"""That a gate goes from the one to the other follows from an endpoint, which is told."""

_LIMITS = "limits"
_WORDS: dict[type[Event], str] = {
    Admitted: "dispatched",
    LimitsChanged: _LIMITS,
    EndpointsReplaced: "servers",
    UpstreamRenamed: "renamed",
    SettingsReloaded: "reload",
    CallerRefused: "refused",
    AlarmRaised: "alarm",
    AlarmCleared: "alarm",
    RanEmpty: "drained",
}
"""Of the events that are not called by their outcome, nor as their kind is."""

_SESSION_SHOWN = 8
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


class Journal:
    """Writes what an operator would ask about to a logger, one line each."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._told_full: set[str] = set()
        """Upstreams of which the newest thing told is that their queue is full: that is told once."""
        self._told_failed: set[tuple[str, Outcome, str]] = set()
        """Upstreams, and how and why requests fail there, since the last that was served: that is told once, too."""

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
        if event.number == 1:  # a new gate, perhaps under the name of one that is gone
            self._told_full.discard(event.upstream)
            self._forget_failed(event.upstream)
        match event:
            case Refused(outcome="queue_full", upstream=upstream):
                told = upstream in self._told_full
                self._told_full.add(upstream)
                return told
            case Released(outcome="completed", upstream=upstream):
                self._forget_failed(upstream)
            case Drained(outcome=outcome, reason=reason) | Released(outcome=outcome, reason=reason) if (
                outcome in FAILURES
            ):
                failed = event.upstream, outcome, reason
                told = failed in self._told_failed
                self._told_failed.add(failed)
                return told
            case Queued() | Admitted(queued=True):
                self._told_full.discard(event.upstream)
            case UpstreamRenamed(old=old, upstream=new):
                self._rename(old, new)
            case _:
                pass
        return False

    def _forget_failed(self, upstream: str) -> None:
        self._told_failed = {failed for failed in self._told_failed if failed[0] != upstream}

    def _rename(self, old: str, new: str) -> None:
        """It goes on under the new name. What was called `new` before is gone."""
        self._told_full = {new if name == old else name for name in self._told_full if name != new}
        self._told_failed = {
            (new if name == old else name, outcome, why) for name, outcome, why in self._told_failed if name != new
        }


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


def word_of(event: Event) -> str:
    """What happened, in one word that an operator knows; `describe` begins with it."""
    match event:
        case EndpointChanged(up=up, old_up=old_up):
            return _LIMITS if up is old_up else "up" if up else "down"
        case ModeChanged(old=old, new=new):
            return _word_of_mode(old, new)
        case _:
            return getattr(event, "outcome", None) or _WORDS.get(type(event)) or kind_of(event)


def _word_of_mode(old: Mode, new: Mode) -> str:
    if {old, new} == _FOLLOWS:
        return "held" if new is Mode.HELD else "unheld"
    return "resumed" if new in _FOLLOWS else new.value


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
        case Dismissed(outcome=outcome, waited=waited, reason=reason):
            return f"{outcome} after {round(waited * 1000)}ms" + (f": {reason}" if reason else "")
        case Refused(outcome="refused", reason=reason):
            return f"refused ({reason or 'draining'})"
        case Refused(outcome=outcome, depth=depth):
            return f"{outcome} (depth {depth})"
        case Moved():
            return "moved to the front"
        case Drained(outcome=outcome, ran=ran, reason=reason) | Released(outcome=outcome, ran=ran, reason=reason) if (
            outcome in _TOLD
        ):
            return f"{outcome} after {round(ran * 1000)}ms" + (f": {reason}" if reason else "")
        case Requeued():
            return "requeued, nothing of it was sent"
        case _:
            return _describe_change(event)


def _describe_change(event: Event) -> str:
    match event:
        case ModeChanged(old=old_mode, new=new_mode):
            was = "" if old_mode in _FOLLOWS else f" (was {old_mode.value})"
            return "" if {old_mode, new_mode} == _FOLLOWS else word_of(event) + was
        case LimitsChanged(old=old, new=new):
            changed = [
                f"{name}={_limit(name, getattr(new, name))} (was {_limit(name, getattr(old, name))})"
                for name in ("max_concurrent", "max_queued", "queue_timeout", "stall_alarm")
                if getattr(new, name) != getattr(old, name)
            ]
            return f"{_LIMITS} " + ", ".join(changed)
        case SettingsReloaded(text=text) | CallerRefused(text=text):
            return text
        case AlarmRaised(text=text):
            return f"{word_of(event)} {text}"
        case RanEmpty():
            return "drained"
        case AlarmCleared(alarm=alarm):
            return f"{word_of(event)} {alarm.replace('_', ' ')} no more"
        case EndpointChanged():
            return _describe_endpoint(event)
        case UpstreamRenamed(old=old_name):
            return f"renamed by a reload, from {old_name}: who waits and runs there stays"
        case _:
            return ""


def _limit(name: str, value: float | None) -> str:
    """As it is written in settings."""
    if value is None:
        return "none"
    return format_duration(value) if name in ("queue_timeout", "stall_alarm") else str(value)


def _describe_endpoint(event: EndpointChanged) -> str:
    """The only one is called as its upstream, whose name stands there already."""
    parts = [word_of(event), event.endpoint if event.endpoint != event.upstream else ""]
    if event.max_concurrent != event.old_max_concurrent:
        parts.append(f"max_concurrent={event.max_concurrent} (was {event.old_max_concurrent})")
    if event.up or not event.old_up:
        return " ".join(filter(None, parts))
    held = f"holding {event.holding} waiter{'s' if event.holding > 1 else ''}" if event.holding else ""
    why = ", ".join(filter(None, [event.reason, held]))
    return " ".join(filter(None, parts)) + (f": {why}" if why else "")


def _fields(event: Event, caller: Caller | None) -> dict[str, str]:
    """What the line is about, for logs that keep that apart."""
    about = {"upstream": event.upstream, "outcome": getattr(event, "outcome", None) or ""}
    return about if caller is None else {**about, "request": caller.id, "session": caller.session}


def _who(caller: Caller) -> str:
    session = f" session={caller.session[:_SESSION_SHOWN]}" if caller.session else ""
    purpose = f" purpose={caller.purpose}" if caller.purpose else ""
    key = f" key={caller.key}" if caller.key else ""
    return session + purpose + key
