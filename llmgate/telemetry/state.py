"""The daemon's state in lines for the log, which SIGUSR1 asks for: one for each upstream and each live request."""

from collections.abc import Iterator, Sequence

from llmgate.adminapi import RequestView, Status, UpstreamView

MOST_REQUESTS = 200
"""Lines of requests; the rest is counted."""


def state_lines(status: Status, requests: Sequence[RequestView]) -> Iterator[str]:
    """`requests` are the live ones, in the order in which they are told."""
    seconds = status.uptime_ms // 1000
    yield f"state: llmgate {status.version} {status.state}, up {seconds}s, {len(requests)} requests live"
    for upstream in status.upstreams:
        yield f"state: {_upstream(upstream)}"
    for request in requests[:MOST_REQUESTS]:
        yield f"state: {_request(request, status.now_ms)}"
    if len(requests) > MOST_REQUESTS:
        yield f"state: and {len(requests) - MOST_REQUESTS} requests more"


def _upstream(view: UpstreamView) -> str:
    slots = view.max_concurrent or "not gated"
    limit = "none" if view.max_queued is None else view.max_queued
    remarks = f": {view.remarks}" if view.remarks else ""
    return (
        f"{view.name} {view.state}, running {view.running}, draining {view.draining}, slots {slots}, "
        f"waiting {view.waiting}, limit {limit}, served {view.served}{remarks}"
    )


def _request(view: RequestView, now_ms: int) -> str:
    age = now_ms - view.arrived_ms
    about = [f"{name}={value}" for name in ("model", "client", "session", "purpose") if (value := getattr(view, name))]
    return " ".join([view.upstream, view.state, view.id, f"for {age}ms", *about])
