"""What an action of the person is about: what is marked and still there, else what is selected.

An action never falls on a row that only slid under the selection: it takes the id that was last drawn as selected, and
says so when that is gone.
"""

from llmgate.adminapi import EventView, RequestView
from llmgate.tui.listing import NOBODY, selected_upstream
from llmgate.tui.model import Lane, View
from llmgate.tui.state import State


def selected_request_id(view: View, state: State) -> str:
    """The request that is open, or that the selection is on; "" where it is on none."""
    if state.detail:
        return state.detail
    if state.holds == "upstreams":
        return ""
    chosen = state.chosen.get(state.list_name, NOBODY).id
    if state.holds != "events":
        return chosen
    event = selected_event(view, state)
    return "" if event is None else event.request_id


def selected_event(view: View, state: State) -> EventView | None:
    chosen = state.chosen.get(state.list_name, NOBODY).id
    return next((event for event in view.events if str(event.number) == chosen), None)


def live(view: View, ids: set[str]) -> list[RequestView]:
    """Those of these requests that have not ended, in the order in which they wait and run."""
    return [request for request in view.requests() if request.id in ids and request.state != "done"]


def requests(view: View, state: State) -> list[RequestView]:
    """The live requests that an action is about."""
    marked = set() if state.detail else set(state.marked)
    return live(view, marked) or live(view, {selected_request_id(view, state)})


def upstreams(view: View, state: State) -> list[Lane]:
    """The upstreams that an action is about: the marked ones where upstreams are listed."""
    if state.holds == "upstreams" and not state.detail:
        marked = [lane for lane in view.lanes if lane.upstream.name in state.marked_upstreams]
        if marked:
            return marked
    name = upstream_name(view, state)
    return [lane for lane in view.lanes if lane.upstream.name == name]


def upstream_name(view: View, state: State) -> str:
    """The upstream that is selected, or that what is selected belongs to."""
    if state.holds == "upstreams" and not state.detail:
        return state.chosen.get("upstreams", NOBODY).id
    request = view.request(selected_request_id(view, state))
    if request is not None:
        return request.upstream
    if state.holds == "events" and (event := selected_event(view, state)) is not None:
        return event.upstream
    return selected_upstream(view, state) if state.page == "overview" else ""


def forbidden(view: View, state: State) -> str:
    """Why nothing may be changed now; "" where it may."""
    if state.read_only:
        return "Nothing is changed: started with --read-only"
    if view.link.state != "live" or view.status is None:
        return "Nothing is changed: there is no connection to the daemon"
    if not view.status.may_act:
        return "Nothing is changed: you may look, not act (read_only_uids in the settings)"
    return ""
