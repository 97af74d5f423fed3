"""Why a request waits, or an upstream stands still, as sentences: the nearest cause first, then what it means."""

from llmgate.adminapi import RequestView, UpstreamView
from llmgate.tui.figures import age
from llmgate.tui.model import Lane, View
from llmgate.tui.state import Why

WAIT_OF_HEADERS_MS = 5_000
"""A server that is free answers its headers at once; a long silence before the first byte is worth a word."""

HOLDS = "Its queue is kept, and goes on by itself as soon as a server answers."
FAILS = 'Its queue is not kept (on_down = "fail"): requests fail with UPSTREAM_DOWN until a server answers.'


def why_text(view: View, asked: Why) -> str:
    """The answer as things are in that view."""
    if asked.kind == "request":
        request = view.request(asked.id)
        return f"{asked.id} is over, and no longer kept here." if request is None else why_request(view, request)
    lane = view.lane(asked.id)
    return f"There is no upstream {asked.id} any more." if lane is None else why_upstream(view, lane)


def why_request(view: View, request: RequestView) -> str:
    """What holds this request."""
    lane = view.lane(request.upstream)
    if lane is None:
        return f"{request.id}: its upstream {request.upstream} is not known here any more."
    match request.state:
        case "waiting":
            return _said(_waiting(view, request, lane))
        case "running":
            return _said(_running(view, request, lane))
        case "draining":
            said = f"{request.id} is over for its client ({request.outcome or 'ended'})"
            busy = f"but {request.upstream} is not yet known to be free: its slot is handed on when it is"
            return _said([f"{said}, {busy}.", *lane.upstream.alarms])
        case _:
            how = ": ".join(filter(None, [request.outcome or "without a word", request.reason]))
            return f"{request.id} waits for nothing: it ended ({how})."


def why_upstream(view: View, lane: Lane) -> str:
    """What holds those who wait there."""
    if lane.waiting:
        return _said([f"{len(lane.waiting):,} wait on {lane.upstream.name}.", *_cause(view, lane, 1)])
    cause = _cause(view, lane, 1)
    return _said([f"Nobody waits on {lane.upstream.name}.", *(cause if _is_shut(lane.upstream) else []), *_notes(lane)])


def _said(sentences: list[str]) -> str:
    ended = [text if text.endswith((".", "?")) else f"{text}." for text in sentences if text]
    return " ".join(dict.fromkeys(ended))


def _is_shut(upstream: UpstreamView) -> bool:
    return upstream.state in ("down", "paused", "draining", "drained")


def _waiting(view: View, request: RequestView, lane: Lane) -> list[str]:
    position = lane.position(request.id) or 1
    waited = age(view.now_ms - request.arrived_ms)
    sentences = [f"{request.id} has been waiting for {waited}, at position {position} of {len(lane.waiting)}."]
    return [*sentences, *_cause(view, lane, position), *_notes(lane), *_outlook(view, request)]


def _cause(view: View, lane: Lane, position: int) -> list[str]:
    upstream = lane.upstream
    name = upstream.name
    if view.status is not None and view.status.state != "running":
        return ["The daemon is stopping: it takes no new request, and those that wait are sent away."]
    match upstream.state:
        case "down":
            why = f": {upstream.detail}" if upstream.detail else ""
            return [f"{name} is down{why}", HOLDS if upstream.holds else FAILS]
        case "paused":
            return [f"An operator has paused {name}: nobody gets a slot until it is resumed (R)."]
        case "draining":
            return [f"{name} is draining: it takes nobody new, and those that are there are served to the end."]
        case "drained":
            return [f"{name} is drained: it takes nobody new, and nobody is left there. R resumes it."]
    return _slots(view, lane, position)


def _slots(view: View, lane: Lane, position: int) -> list[str]:
    upstream, ahead = lane.upstream, position - 1
    taken, slots = upstream.running + upstream.draining, upstream.max_concurrent
    if slots == 0:
        return [f"{upstream.name} is not gated: it gets a slot at once."]
    if taken < slots:
        return [_free(lane, ahead)]
    sentences = []
    if taken > slots:
        end = taken - slots + 1
        sentences.append(f"{taken} have a slot though max_concurrent is {slots} now: {end} must end for the next one.")
    elif slots == 1:
        sentences.append(f"The only slot of {upstream.name} is taken.")
    else:
        sentences.append(f"All {slots} slots of {upstream.name} are taken.")
    if upstream.draining:
        sentences.append(f"{upstream.draining} of them: over for the client, the server is not yet known to be free.")
    oldest = min(lane.running, key=lambda one: one.dispatched_ms or 0, default=None)
    if oldest is not None and oldest.dispatched_ms is not None:
        who = f"{oldest.id} ({oldest.client})" if oldest.client else oldest.id
        sentences.append(f"The longest, {who}, has been running for {age(view.now_ms - oldest.dispatched_ms)}.")
    if ahead:
        sentences.append(f"{ahead:,} {'stand' if ahead > 1 else 'stands'} before it.")
    return sentences


def _free(lane: Lane, ahead: int) -> str:
    down = [endpoint for endpoint in lane.upstream.endpoints if not endpoint.up]
    if down:
        names = ", ".join(endpoint.name for endpoint in down)
        return f"Of its {len(lane.upstream.endpoints)} servers these are down: {names}."
    return f"A slot is free: it goes to the first of the {ahead} before it." if ahead else "A slot is free: it is next."


def _notes(lane: Lane) -> list[str]:
    """Alarms: among them that the server itself makes a request wait (hidden wait)."""
    detail = lane.upstream.detail if lane.upstream.state != "down" else ""
    return [text for text in (detail, *lane.upstream.alarms) if text]


def _outlook(view: View, request: RequestView) -> list[str]:
    sentences = []
    eta = view.eta_ms(request)
    if eta is not None:
        sentences.append(f"It gets a slot in about {age(eta)}, by the last runs.")
    if request.deadline_ms is not None:
        sentences.append(f"It gives up in {age(request.deadline_ms - view.now_ms)} (queue_timeout).")
    return sentences


def _running(view: View, request: RequestView, lane: Lane) -> list[str]:
    ran = view.now_ms - (request.dispatched_ms if request.dispatched_ms is not None else view.now_ms)
    sentences = [f"{request.id} does not wait: it has had a slot of {request.upstream} for {age(ran)}."]
    if request.first_byte_ms is None and ran > WAIT_OF_HEADERS_MS:
        sentences.append("No byte of its answer has come yet: the server reads its prompt, or makes it wait.")
    elif request.output_tokens:
        sentences.append(f"{request.output_tokens:,} tokens have come so far.")
    return [*sentences, *lane.upstream.alarms]
