"""The keys that act on what is selected or marked: pause, drain, resume, slots, cancel, move; copying; why."""

import shlex
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import quote

from llmgate.tui import targets
from llmgate.tui.actions import Action, Verb, question
from llmgate.tui.listing import NOBODY, listing
from llmgate.tui.model import View
from llmgate.tui.state import Asking, State, Why
from llmgate.tui.step import Copy, Do, Examine, Step, says

NO_REQUEST = "No request is selected: Tab goes to those that wait, 2 lists them all"
NO_UPSTREAM = "No upstream is selected"


def act(state: State, view: View, key: str) -> Step:
    """A key that changes something, unless nothing may be changed now."""
    refusal = targets.forbidden(view, state)
    return says(state, refusal) if refusal else DEEDS[key](state, view)


def begin(state: State, actions: tuple[Action, ...], view: View, *, asks: bool) -> Step:
    """Does it, or asks first."""
    if asks:
        return Step(replace(state, prompt=Asking(question(actions), actions)))
    return Step(begun(state, actions, view), (Do(actions),))


def begun(state: State, actions: tuple[Action, ...], view: View) -> State:
    """What the next key is to find before the daemon has answered: the slots as they were wanted, and no selection or
    mark on a request that is being cancelled, as that may take a moment to leave its list."""
    wanted = {action.target: action.slots for action in actions if action.slots is not None}
    gone = {action.target for action in actions if action.verb == "cancel"}
    state = replace(state, slots={**state.slots, **wanted}, marked=state.marked - gone)
    if state.detail or state.chosen.get(state.list_name, NOBODY).id not in gone:
        return state
    rows = listing(state.shown(view), state)
    beside = rows.at(rows.beside(state.chosen[state.list_name], gone))
    return replace(state, chosen={**state.chosen, state.list_name: beside})


def _on_upstreams(verb: Verb) -> Callable[[State, View], Step]:
    def deed(state: State, view: View) -> Step:
        lanes = targets.upstreams(view, state)
        if not lanes:
            return says(state, NO_UPSTREAM)
        return begin(state, tuple(Action(verb, lane.upstream.name) for lane in lanes), view, asks=True)

    return deed


def _more_slots(step: int) -> Callable[[State, View], Step]:
    def deed(state: State, view: View) -> Step:
        lanes = targets.upstreams(view, state)
        if not lanes:
            return says(state, NO_UPSTREAM)
        actions = []
        for lane in lanes:
            name = lane.upstream.name
            slots = state.slots.get(name, lane.upstream.max_concurrent)
            if slots == 0:
                return says(state, f"{name} is not gated: a limit is set with :set {name} max_concurrent=1")
            if slots + step < 1:
                return says(state, f"{name} keeps its last slot: p pauses it")
            actions.append(Action("set", name, (("max_concurrent", slots + step),)))
        return begin(state, tuple(actions), view, asks=False)

    return deed


def _cancel(*, asks: bool) -> Callable[[State, View], Step]:
    def deed(state: State, view: View) -> Step:
        found = [request for request in targets.requests(view, state) if request.state != "draining"]
        if not found:
            return _no_request(state, view, "has ended already")
        return begin(state, tuple(Action("cancel", request.id) for request in found), view, asks=asks)

    return deed


def _move(state: State, view: View) -> Step:
    found = [request for request in targets.requests(view, state) if request.state == "waiting"]
    if not found:
        return _no_request(state, view, "does not wait")
    in_front_last = tuple(Action("move", request.id) for request in reversed(found))
    return begin(state, in_front_last, view, asks=False)


def _no_request(state: State, view: View, what: str) -> Step:
    wanted = targets.selected_request_id(view, state)
    return says(state, f"{wanted} {what}" if wanted else NO_REQUEST)


DEEDS: dict[str, Callable[[State, View], Step]] = {
    "p": _on_upstreams("pause"),
    "d": _on_upstreams("drain"),
    "R": _on_upstreams("resume"),
    "+": _more_slots(1),
    "=": _more_slots(1),
    "-": _more_slots(-1),
    "x": _cancel(asks=True),
    "X": _cancel(asks=False),
    "m": _move,
}


def copy_id(state: State, view: View) -> Step:
    text = targets.selected_request_id(view, state) or targets.upstream_name(view, state)
    return _copied(state, text, text)


def copy_curl(state: State, view: View) -> Step:
    """A curl that asks the daemon for what is selected: what a request holds is kept nowhere."""
    request, upstream = targets.selected_request_id(view, state), targets.upstream_name(view, state)
    path = f"/v1/requests/{quote(request, safe='')}" if request else f"/v1/upstreams/{quote(upstream, safe='')}"
    socket = view.status.socket if view.status is not None else ""
    text = f"curl -s --unix-socket {shlex.quote(socket)} {shlex.quote('http://localhost' + path)}"
    return _copied(state, text if request or upstream else "", "a curl for it")


def _copied(state: State, text: str, what: str) -> Step:
    if not text:
        return says(state, "Nothing is selected")
    return Step(
        says(state, f"Copied {what}, if your terminal lets programs copy (OSC 52)", is_bad=False).state, (Copy(text),)
    )


def doctor(state: State) -> Step:
    """Looks at all that can be wrong from outside."""
    said = says(state, "llmgate doctor looks at the socket, the settings and each upstream ...", is_bad=False)
    return Step(said.state, (Examine(),))


def why(state: State, view: View) -> Step:
    """Why it waits, or why there is no connection."""
    if view.link.state == "lost":
        return doctor(state)
    request = view.request(targets.selected_request_id(view, state))
    if request is not None:
        return Step(replace(state, why=Why("request", request.id)))
    lane = view.lane(targets.upstream_name(view, state))
    if lane is None:
        return says(state, "Nothing is selected")
    return Step(replace(state, why=Why("upstream", lane.upstream.name)))
