"""What the screen can have done by the daemon: a verb and its object, the words for it, and its performance."""

from dataclasses import dataclass
from typing import Literal, Protocol

from llmgate.adminapi import LimitsAnswer, RequestDetail, Requests, UpstreamAnswer
from llmgate.errors import AdminError

Verb = Literal["pause", "resume", "drain", "set", "cancel", "move"]
DONE: dict[Verb, str] = {
    "pause": "paused: what comes waits until R resumes it",
    "resume": "resumed",
    "drain": "draining: it takes no new request, and those that are there are served",
    "set": "max_concurrent is",
    "cancel": "cancelled",
    "move": "moved to the front",
}
ON_REQUESTS = frozenset[Verb](("cancel", "move"))


class Acting(Protocol):
    """What AsyncAdminClient offers to those who act and ask. Every call raises AdminError."""

    async def pause(self, name: str) -> UpstreamAnswer: ...

    async def resume(self, name: str) -> UpstreamAnswer: ...

    async def drain(self, name: str) -> UpstreamAnswer: ...

    async def set_limits(self, name: str, *, max_concurrent: int) -> LimitsAnswer: ...

    async def cancel(self, request_id: str) -> RequestDetail: ...

    async def move(self, request_id: str) -> RequestDetail: ...

    async def request(self, request_id: str) -> RequestDetail: ...

    async def ended(self) -> Requests: ...


@dataclass(frozen=True, slots=True)
class Action:
    """`target` is an upstream's name, or the id of a request for a verb in ON_REQUESTS."""

    verb: Verb
    target: str
    slots: int = 0
    """What max_concurrent is to become; for the verb "set" only."""


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
    return f"{what}: {DONE[first.verb]}" + (f" {first.slots}" if first.verb == "set" else "")


async def perform(acting: Acting, actions: tuple[Action, ...]) -> tuple[str, bool]:
    """Does all of them, one after another: the sentence that tells how it went, and whether something failed."""
    errors, notes = list[str](), list[str]()
    for action in actions:
        try:
            notes.append(await _perform(acting, action))
        except AdminError as error:
            errors.append(str(error).split("\n", 1)[0])
    if not errors:
        return " ".join([outcome(actions), *filter(None, notes)]), False
    done = len(actions) - len(errors)
    return errors[0] + (f" ({done} of {len(actions)} done)" if len(actions) > 1 else ""), True


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
            answer = await acting.set_limits(action.target, max_concurrent=action.slots)
            return f"({answer.note})" if answer.note else ""
        case "cancel":
            await acting.cancel(action.target)
        case "move":
            await acting.move(action.target)
    return ""


def _remark(answer: UpstreamAnswer) -> str:
    return "" if answer.changed else f"({answer.upstream.name} was so already)"
