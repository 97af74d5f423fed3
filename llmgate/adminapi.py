"""What goes over the admin socket: the frozen types of its JSON, and their version.

Times called `*_at` are RFC 3339 in UTC, for people; every `*_ms` is an integer counted by the daemon's monotonic clock
at the moment the view was made (`Status.now_ms` on the same clock), so a viewer never needs its own clock.
Unknown fields are ignored when decoding, so that an older viewer reads a newer daemon.
"""

from typing import Any

import msgspec

SCHEMA = 1

UPSTREAM_STATES = ("idle", "ok", "full", "paused", "closed", "down")
"""idle: nothing runs; ok: a slot is free; full: none is; paused, closed: the gate's mode; down: no server takes a
request, and the queue is kept (the gate is held) unless the settings say otherwise."""

REQUEST_STATES = ("waiting", "running", "draining", "done")


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the views."""


class RequestView(View, frozen=True, kw_only=True):
    """One request. `state` is one of REQUEST_STATES; `outcome` is set once the client's part is over."""

    id: str
    upstream: str
    state: str
    order: int
    """Dispatch order among the waiting requests of one upstream: the lowest is at position 1."""
    model: str
    api: str
    """The surface: "messages", "chat"."""
    path: str
    stream: bool
    client: str = ""
    session: str = ""
    purpose: str = ""
    peer: str = ""
    body_bytes: int = 0
    arrived_at: str = ""
    arrived_ms: int = 0
    """The daemon's clock at arrival: age = now_ms - arrived_ms."""
    dispatched_ms: int | None = None
    first_byte_ms: int | None = None
    """The daemon's clock when the first byte of the answer's body came."""
    ended_ms: int | None = None
    deadline_ms: int | None = None
    """The daemon's clock at which waiting ends with QUEUE_TIMEOUT; None = never."""
    output_tokens: int = 0
    """Counted from the answer's own events while it runs, from the server's usage once that is known."""
    outcome: str | None = None
    endpoint: str = ""
    """Which of the upstream's servers has it, or had it last; "" before it had one, and where there is only one."""


class EndpointView(View, frozen=True, kw_only=True):
    """One of the servers behind an upstream."""

    name: str
    up: bool
    in_flight: int = 0
    """Running and draining."""
    max_concurrent: int = 0
    """0 = no bound of its own."""
    reason: str = ""
    """Why it is down."""


class UpstreamView(View, frozen=True, kw_only=True):
    """One upstream. Waits and runs are over its last requests; None where none was seen."""

    name: str
    state: str
    url: str
    max_concurrent: int
    """Of several endpoints without a bound on all together the sum of theirs; 0 = not gated."""
    max_queued: int | None = None
    queue_timeout_ms: int | None = None
    running: int = 0
    waiting: int = 0
    draining: int = 0
    oldest_arrived_ms: int | None = None
    p50_wait_ms: int | None = None
    p95_wait_ms: int | None = None
    ttft_ms: int | None = None
    """Median time from dispatch to the first byte of the answer's body."""
    p50_run_ms: int | None = None
    served: int = 0
    queue_full: int = 0
    queue_timeout: int = 0
    failed: int = 0
    """Requests that ended upstream_error, upstream_timeout or upstream_down."""
    rate: float = 0.0
    """Requests ended per second, over the last minute."""
    detail: str = ""
    """Why it is down, or which of its endpoints are and why; "" while all is well."""
    alarms: list[str] = []
    """What lasts and is not as it should be, a sentence each."""
    endpoints: list[EndpointView] = []
    """Where there are several, in the order of the settings."""

    @property
    def remarks(self) -> str:
        """All that an operator should read of it, on one line."""
        return "; ".join(filter(None, [self.detail, *self.alarms]))


class Status(View, frozen=True, kw_only=True):
    """The whole state: the answer of GET /v1/status, and the snapshot that opens GET /v1/events."""

    schema: int = SCHEMA
    version: str
    pid: int
    started_at: str
    uptime_ms: int
    now_at: str
    now_ms: int
    state: str
    """"running" or "stopping"."""
    listen: list[str]
    path_prefix: list[str] = []
    """Under each of these every surface is served, the first being the one to tell people."""
    config: str
    """Path of the settings file, or ""."""
    socket: str
    upstreams: list[UpstreamView]


class Requests(View, frozen=True, kw_only=True):
    """The answer of GET /v1/requests."""

    schema: int = SCHEMA
    now_ms: int
    requests: list[RequestView]


class EventView(View, frozen=True, kw_only=True):
    """One change, numbered by the daemon without gaps.

    `kind` is the gate's past-tense word: queued, admitted, drained, released, abandoned, expired, dismissed, refused,
    moved, requeued, limits_changed, mode_changed, endpoint_changed, alarm_raised, alarm_cleared.
    """

    number: int
    at: str
    now_ms: int
    kind: str
    upstream: str
    text: str = ""
    """What a log line would say of it, such as "queued (depth 3)", "dispatched after 5730ms", "stalled no more" or
    "http://gpu2:8000 is down: it takes no connection"; "" for a slot at once and for a regular end."""
    request_id: str = ""
    outcome: str | None = None
    """Where this event is the end of a request: how it ended."""
    client: str = ""
    session: str = ""
    purpose: str = ""


class FeedItem(View, frozen=True, kw_only=True):
    """One line of GET /v1/events (as the `data` of a server-sent event).

    type "snapshot": `status`, `requests` (waiting, running, draining) and `events` (the newest, oldest first) are all.
    type "event": `event` happened; `upstream` and `request` are what they are after it (replace what you had).
    type "progress": once a second while a watcher is there: `upstreams` and `requests` that changed without an event.
    """

    schema: int = SCHEMA
    type: str
    number: int
    """The number of the newest event that this item includes."""
    now_ms: int
    status: Status | None = None
    event: EventView | None = None
    upstream: UpstreamView | None = None
    request: RequestView | None = None
    upstreams: list[UpstreamView] = []
    requests: list[RequestView] = []
    events: list[EventView] = []


def encode(view: View) -> bytes:
    """The JSON of a view, on one line."""
    return msgspec.json.encode(view)


def as_plain(view: View) -> Any:
    """The view as dicts and lists, for `--json`."""
    return msgspec.to_builtins(view)
