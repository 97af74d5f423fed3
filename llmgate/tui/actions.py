"""What the screen can have done by the daemon: a verb and its object, the words for it, and its performance."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from llmgate.adminapi import LimitsAnswer, Reloaded, RequestDetail, Requests, UpstreamAnswer
from llmgate.adminclient.limits import Limit, limit_text, write_limits
from llmgate.errors import AdminError, DaemonSilent, SettingsError

Verb = Literal["pause", "resume", "drain", "set", "reload", "cancel", "move"]
DONE: dict[Verb, str] = {
    "pause": "paused: what comes waits until R resumes it",
    "resume": "resumed",
    "drain": "draining: takes no new request, serves those that are there",
    "reload": "read again",
    "cancel": "cancelled",
    "move": "moved to the front",
}
ON_REQUESTS = frozenset[Verb](("cancel", "move"))


class Acting(Protocol):
    """What AsyncAdminClient offers to those who act and ask. Every call raises AdminError."""

    async def pause(self, name: str) -> UpstreamAnswer: ...

    async def resume(self, name: str) -> UpstreamAnswer: ...

    async def drain(self, name: str) -> UpstreamAnswer: ...

    async def set_limits(self, name: str, **limits: Limit) -> LimitsAnswer: ...

    async def reload(self) -> Reloaded: ...

    async def cancel(self, request_id: str) -> RequestDetail: ...

    async def move(self, request_id: str) -> RequestDetail: ...

    async def request(self, request_id: str) -> RequestDetail: ...

    async def ended(self) -> Requests: ...


@dataclass(frozen=True, slots=True)
class Action:
    """`target` is an upstream's name, the id of a request for a verb in ON_REQUESTS, or "settings" for a reload."""

    verb: Verb
    target: str
    limits: tuple[tuple[str, Limit], ...] = ()
    """What limits are to become, by their names; for the verb "set" only."""
    file: str = ""
    """Where these limits are to be written, too; "" = nowhere."""

    @property
    def slots(self) -> int | None:
        """The number that max_concurrent is to become; None = it stays, or is the server's own."""
        slots = dict(self.limits).get("max_concurrent")
        return int(slots) if isinstance(slots, (int, float)) else None


def question(actions: tuple[Action, ...]) -> str:
    """Cancel q-7f3a21?  Pause 3 upstreams?"""
    verb = actions[0].verb
    things = "requests" if verb in ON_REQUESTS else "upstreams"
    what = actions[0].target if len(actions) == 1 else f"{len(actions)} {things}"
    return f"{verb.capitalize()} {what}?"


def outcome(actions: tuple[Action, ...]) -> str:
    """What is to be said when all went well."""
    first = actions[0]
    what = first.target if len(actions) == 1 else f"{len(actions)} of them"
    told = [f"{name} is {limit_text(name, value)}" for name, value in first.limits]
    told += [f"written to {first.file}"] if first.file else []
    return f"{what}: {', '.join(told) or DONE[first.verb]}"


async def perform(acting: Acting, actions: tuple[Action, ...]) -> tuple[str, bool]:
    """Does all of them, one after another: the sentence that tells how it went, and whether something failed."""
    errors, notes = list[str](), list[str]()
    for action in actions:
        try:
            notes.append(await _perform(acting, action))
        except (AdminError, SettingsError) as error:
            errors.append(_why_not(error))
    if not errors:
        return " ".join([outcome(actions), *filter(None, notes)]), False
    done = len(actions) - len(errors)
    return errors[0] + (f" ({done} of {len(actions)} done)" if len(actions) > 1 else ""), True


def _why_not(error: AdminError | SettingsError) -> str:
    if isinstance(error, DaemonSilent):
        return "The daemon did not answer in time; it may still do this when it goes on"
    return str(error).split("\n", 1)[0]


async def _perform(acting: Acting, action: Action) -> str:
    """What is to be said of it besides that it was done."""
    match action.verb:
        case "pause":
            return _remark(await acting.pause(action.target))
        case "resume":
            return _remark(await acting.resume(action.target))
        case "drain":
            return _remark(await acting.drain(action.target))
        case "set":
            answer = await acting.set_limits(action.target, **dict(action.limits))
            if action.file:
                await asyncio.to_thread(write_limits, Path(action.file), action.target, dict(action.limits))
                await acting.set_limits(action.target, persisted=True, **dict(action.limits))
            return f"({answer.note})" if answer.note else ""
        case "reload":
            return _differences(await acting.reload())
        case "cancel":
            await acting.cancel(action.target)
        case "move":
            await acting.move(action.target)
    return ""


def _differences(reloaded: Reloaded) -> str:
    """Which settings are others now, and which wait for a new start."""
    if reloaded.error:
        raise SettingsError(reloaded.error)
    told = [change.key + (" after a restart" if change.reload == "restart" else "") for change in reloaded.changed]
    return "; ".join([f"({', '.join(told) or 'nothing changed'})", *reloaded.warnings])


def _remark(answer: UpstreamAnswer) -> str:
    return "" if answer.changed else f"({answer.upstream.name} was so already)"
