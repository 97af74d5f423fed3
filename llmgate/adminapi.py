"""What goes over the admin socket: the frozen types of its JSON, and their version.

Times called `*_at` are RFC 3339 in UTC, for people; every `*_ms` is an integer counted by the daemon's monotonic clock
at the moment the view was made (`Status.now_ms` on the same clock), so a viewer never needs its own clock.
Unknown fields are ignored when decoding, so that an older viewer reads a newer daemon.
"""

from typing import Annotated, Any, Literal, get_args

import msgspec

SCHEMA = 1

UPSTREAM_STATES = ("idle", "ok", "full", "paused", "draining", "drained", "down")
"""idle: nothing runs; ok: a slot is free; full: none is; paused: an operator's doing; draining: it takes nobody new, by
an operator's `drain`, a reload or the end of the daemon, and serves those that are there; drained: so, and nobody is
left; down: no server takes a request, and the queue is kept (the gate is held) unless the settings say otherwise."""

REQUEST_STATES = ("waiting", "running", "draining", "done")
"""Of a request draining is another matter than of its upstream: it is over for its client, while its server is not yet
known to be free, so that it has its slot still."""

WantedState = Literal["live", "all", "waiting", "running", "draining", "done"]

_LARGEST_COUNT = (1 << 31) - 1

EVENTS_IN_SNAPSHOT = 200
"""Unless a watcher asks for another number."""
_LONGEST_SECONDS = 10 * 365 * 86400
MaxConcurrent = Annotated[
    Annotated[int, msgspec.Meta(ge=0, le=_LARGEST_COUNT)] | Literal["auto"],
    msgspec.Meta(description='a whole number, 0 (not gated) or more, or "auto" (the server\'s own slots)'),
]
MaxQueued = Annotated[
    Annotated[int, msgspec.Meta(ge=0, le=_LARGEST_COUNT)] | None,
    msgspec.Meta(description="a whole number, 0 (refuse at once when busy) or more, or null (no limit)"),
]
QueueTimeout = Annotated[
    Annotated[float, msgspec.Meta(ge=0, le=_LONGEST_SECONDS)] | None,
    msgspec.Meta(description="a number of seconds, at most ten years, or 0 or null (for ever)"),
]
Named = Annotated[str, msgspec.Meta(description="a text")]
Few = Annotated[int, msgspec.Meta(ge=1, le=_LARGEST_COUNT, description="a whole number, 1 or more")]


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
    client_version: str = ""
    """As the client program tells it; "" where it does not."""
    session: str = ""
    session_from: str = ""
    """The header that told the session, or "body"; "" where there is none."""
    purpose: str = ""
    key: str = ""
    """Name of the key that it came with; "" where none is asked."""
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
    eta_ms: int | None = None
    """While it waits: an estimate of the time from `now_ms` until it gets a slot; None where there is none."""
    output_tokens: int = 0
    """Counted from the answer's own events while it runs, from the server's usage once that is known."""
    queue_frames: int = 0
    """How often its client was told on its stream where it stands."""
    outcome: str | None = None
    reason: str = ""
    """What failed, such as "it answered with status 500", where the outcome does not say all."""
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
    up: bool = True
    """Whether a server of it takes requests, also while an operator has paused it or lets it run empty."""
    leaving: bool = False
    """Whether a reload took it out of the settings: it goes when its last request is over."""
    holds: bool = True
    """Whether requests wait while no server takes any (`on_down`); else they fail with UPSTREAM_DOWN."""
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
    refused: int = 0
    """Requests that came while it took nobody new, or that waited when llmgate stopped."""
    failed: int = 0
    """Requests that ended upstream_error, upstream_timeout or upstream_down."""
    starts_ms: list[int] = []
    """The daemon's clock when those at positions 1, 2, ... will get their slots, the first few; [] = no estimate."""
    pace_us: int = 0
    """Microseconds between two starts behind those: a busy server may have several in a millisecond."""
    rate: float = 0.0
    """Requests ended per second, over the last minute."""
    detail: str = ""
    """Why it is down, or which of its endpoints are and why; "" while all is well."""
    alarms: list[str] = []
    """What lasts and is not as it should be, a sentence each."""
    endpoints: list[EndpointView] = []
    """Where there are several, in the order of the settings."""

    def eta_ms(self, position: int, now_ms: int) -> int | None:
        """An estimate of the time until position 1, 2, ... gets its slot; None where there is none."""
        if not self.starts_ms:
            return None
        beyond = max(0, position - len(self.starts_ms))
        start = self.starts_ms[min(position, len(self.starts_ms)) - 1]
        return max(0, round(start + beyond * self.pace_us / 1000) - now_ms)

    @property
    def is_down(self) -> bool:
        """Whether none of its servers takes requests, whatever an operator does with it. (Daemons that do not tell `up`
        say so by the state.)"""
        return not self.up or self.state == "down"

    @property
    def remarks(self) -> str:
        """All that an operator should read of it, on one line."""
        refuses = "" if self.holds or not self.is_down else "requests fail meanwhile (on_down)"
        return "; ".join(filter(None, [self.detail, refuses, *self.alarms]))


class CertificateView(View, frozen=True, kw_only=True):
    """What clients are shown where they speak TLS."""

    fingerprint: str
    """SHA-256 of the certificate in DER form, in hex; "" where that is not known."""
    names: list[str] = []
    """Host names and addresses that it is for."""
    expires_at: str = ""
    """"" where that is not known."""


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
    certificate: CertificateView | None = None
    """Of the addresses that begin with https; None: clients speak plain HTTP."""
    upstreams: list[UpstreamView]
    renamed: dict[str, str] = {}
    """What a reload calls an upstream now, by the name that it had before."""
    may_act: bool = True
    """Whether who asks may change something here, by the uid at the other end of the socket."""


class Requests(View, frozen=True, kw_only=True):
    """The answer of GET /v1/requests."""

    schema: int = SCHEMA
    now_ms: int
    requests: list[RequestView]


class Upstreams(View, frozen=True, kw_only=True):
    """The answer of GET /v1/upstreams."""

    schema: int = SCHEMA
    now_ms: int
    upstreams: list[UpstreamView]


class UpstreamAnswer(View, frozen=True, kw_only=True):
    """One upstream as it is now: the answer of GET /v1/upstreams/NAME, pause, resume and drain."""

    schema: int = SCHEMA
    now_ms: int
    upstream: UpstreamView
    changed: bool = False
    """What was asked made a difference: pausing what is paused makes none."""


class LimitsView(View, frozen=True, kw_only=True):
    """The limits of an upstream, under the names that they have in the settings."""

    max_concurrent: int
    """0 = not gated; of several endpoints: no bound on all together."""
    max_queued: int | None = None
    """None = no limit."""
    queue_timeout: float | None = None
    """Seconds; None = for ever."""


class LimitsAnswer(View, frozen=True, kw_only=True):
    """The answer of PATCH /v1/upstreams/NAME: what the limits were, and are until the next start, or until a
    reload finds another value in the settings."""

    schema: int = SCHEMA
    now_ms: int
    upstream: str
    old: LimitsView
    new: LimitsView
    was_auto: bool = False
    is_auto: bool = False
    """max_concurrent is the server's own number of slots, and follows it."""
    note: str = ""
    """What an operator should know of this change, a sentence; "" mostly."""


class LimitsChange(View, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of PATCH /v1/upstreams/NAME: at least one limit; those that are left out stay."""

    max_concurrent: MaxConcurrent | msgspec.UnsetType = msgspec.UNSET
    max_queued: MaxQueued | msgspec.UnsetType = msgspec.UNSET
    queue_timeout: QueueTimeout | msgspec.UnsetType = msgspec.UNSET
    persisted: Annotated[bool, msgspec.Meta(description="true or false")] | msgspec.UnsetType = msgspec.UNSET
    """Those that are named, and are in force, were written into the settings file, too: the daemon looks there and
    changes nothing, so that the next reload finds nothing new in them."""


LimitsBody = Annotated[LimitsChange, msgspec.Meta(extra_json_schema={"minProperties": 1})]


class RequestsQuery(View, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What GET /v1/requests may be asked for; what is left out does not matter."""

    state: Annotated[
        WantedState, msgspec.Meta(description=f"one of {', '.join(get_args(WantedState))} (live = all but done)")
    ] = "live"
    upstream: Named | msgspec.UnsetType = msgspec.UNSET
    client: Named | msgspec.UnsetType = msgspec.UNSET
    session: Named | msgspec.UnsetType = msgspec.UNSET
    """The whole of it, or its beginning."""
    model: Named | msgspec.UnsetType = msgspec.UNSET
    limit: Few | msgspec.UnsetType = msgspec.UNSET
    """At most so many: those who run next first, then those that run, then the newest that ended."""


class EventsQuery(View, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of GET /v1/events."""

    events: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=_LARGEST_COUNT,
            description="a whole number, 0 or more: so many of the newest events has the snapshot, if they are kept",
        ),
    ] = EVENTS_IN_SNAPSHOT


class ReadyQuery(View, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of GET /readyz."""

    upstream: Named | msgspec.UnsetType = msgspec.UNSET


class Step(View, frozen=True, kw_only=True):
    """One thing that happened to a request."""

    number: int
    """That of the event."""
    offset_ms: int
    """Since its arrival."""
    kind: str
    """As EventView.kind; "position" where its place in the line changed."""
    word: str = ""
    """As EventView.word; "position" as well."""
    text: str = ""
    position: int | None = None
    """Where it stood then; None where it did not wait, or that is not known any more."""


class RequestDetail(View, frozen=True, kw_only=True):
    """The answer of GET /v1/requests/ID, of DELETE on it and of its move."""

    schema: int = SCHEMA
    now_ms: int
    request: RequestView
    position: int | None = None
    """1 = next to run; None where it does not wait."""
    depth: int = 0
    """How many wait at its upstream."""
    eta_ms: int | None = None
    """An estimate of the time until it gets a slot; None where there is none."""
    journey: list[Step] = []
    """Oldest first, as far as its events are still kept."""
    of_session: list[RequestView] = []
    """Other requests of the same session, the newest first; at most 20."""


class ConfigValue(View, frozen=True, kw_only=True):
    """One setting as it is in force."""

    key: str
    """As in the file, such as "upstreams.reasoning.max_concurrent"."""
    value: Any
    """As it is written in a settings file; secrets are "********"."""
    origin: str
    """"FILE:LINE", "environment variable NAME", "command line" or "default"; "" where that is not known."""
    reload: str
    """"live": a reload takes a change on; "restart": only a new start does."""


class Config(View, frozen=True, kw_only=True):
    """The answer of GET /v1/config."""

    schema: int = SCHEMA
    file: str
    """Path of the settings file, or ""."""
    values: list[ConfigValue]


class ConfigChange(View, frozen=True, kw_only=True):
    """One setting that differs after a reload."""

    key: str
    old: Any = None
    new: Any = None
    """As ConfigValue.value; None where the key is not there."""
    reload: str
    """"live": it is in force; "restart": it waits for a new start."""


class Reloaded(View, frozen=True, kw_only=True):
    """The answer of POST /v1/reload. With an `error` nothing has changed."""

    schema: int = SCHEMA
    changed: list[ConfigChange] = []
    error: str = ""
    """Why the settings cannot be used, a line for each thing that is wrong; "" = they are in force."""
    warnings: list[str] = []
    fates: list[str] = []
    """What became of those who waited and ran at upstreams that have another name now, or were taken away: a sentence
    for each such upstream; and which certificate is shown to new connections, where that is another one."""


class Health(View, frozen=True, kw_only=True):
    """The answer of GET /healthz and GET /health, here and where clients come in."""

    status: Literal["ok"] = "ok"


class Readiness(View, frozen=True, kw_only=True):
    """The answer of GET /readyz, here and where clients come in."""

    ready: bool
    checks: dict[str, str]
    """Of each upstream that was asked about "open", or why nothing is sent there (paused, held, draining, down); of
    "llmgate" itself "listening" or "stopping"."""


class Fault(View, frozen=True, kw_only=True):
    """What is inside of an ErrorAnswer."""

    code: str
    message: str


class ErrorAnswer(View, frozen=True, kw_only=True):
    """Every answer whose status is 400 or above."""

    schema: int = SCHEMA
    error: Fault


class EventView(View, frozen=True, kw_only=True):
    """One change, numbered by the daemon without gaps.

    `kind` is the gate's past-tense word: queued, admitted, drained, released, abandoned, expired, dismissed, refused,
    moved, requeued, limits_changed, mode_changed, ran_empty, endpoint_changed, alarm_raised, alarm_cleared. Drained is
    a request that is over while its slot is not free yet; that an upstream drains is mode_changed, "draining",
    and that nobody is left there ran_empty, "drained". Of no upstream are settings_reloaded, and
    caller_refused: not let in for its key or its page; of like ones one a minute is told, with the number of the
    others.
    """

    number: int
    at: str
    now_ms: int
    kind: str
    upstream: str
    text: str = ""
    """What a log line says of it, such as "queued (depth 3)", "dispatched after 5730ms", "alarm stalled no more" or
    "down http://gpu2:8000: it takes no connection"; "" for a slot at once, for a regular end, and for what follows
    from another event."""
    word: str = ""
    """What happened in a word that people know, with which `text` begins: queued, dispatched, requeued, moved; how a
    request ended, such as completed, cancelled, queue_full; paused, resumed, draining, drained, down, up, limits,
    alarm, renamed, reload, refused."""
    request_id: str = ""
    outcome: str | None = None
    """Where this event is the end of a request: how it ended."""
    reason: str = ""
    """Why: what failed, or why a server is down; it stands in `text`, too."""
    client: str = ""
    session: str = ""
    purpose: str = ""
    key: str = ""
    """Name of the key that its request came with."""
    by: str = ""
    """Who had it done: "uid 1000 (alice)" for an operator on this socket; "" for the rest."""


class FeedItem(View, frozen=True, kw_only=True):
    """One line of GET /v1/events (as the `data` of a server-sent event).

    type "snapshot": `status`, `requests` (waiting, running, draining) and `events` (the newest, oldest first) are all;
    there are as many events as the query says, if so many are kept.
    type "event": `event` happened; `upstream` and `request` are what they are after it (replace what you had). Of
    events that come together, the last of each upstream has its `upstream`. Of what a watcher missed who comes back
    `request` is as it is now, and `upstream` follows in a "progress" item.
    type "progress": once a second: `upstreams` and `requests` that changed without an event. It comes with nothing in
    it as well: whoever hears nothing for longer knows that the daemon does not get to it.
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
