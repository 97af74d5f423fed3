"""The settings: frozen models whose fields carry their unit, default and reload class.

Checked here: what one value may be. What several keys say together is checked in checks.py, where a value came from
(file, line, environment) is known to load.py. Every model can be hashed and compared, so that a reload can tell
what changed.
The reload class says whether a changed value is taken on by a reload ("live") or needs a new start ("restart").
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StrictBool,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticKnownError

from llmgate.config import values
from llmgate.config.frozen import FrozenDict
from llmgate.config.units import parse_duration, parse_mode, parse_size
from llmgate.protocols.speech import Kind

LIVE: dict[str, Any] = {"reload": "live"}
RESTART: dict[str, Any] = {"reload": "restart"}

Duration = Annotated[float, BeforeValidator(parse_duration)]
"""Seconds; 0 is a duration like any other."""
Clock = Annotated[float | None, BeforeValidator(values.parse_clock)]
"""Seconds until something is given up; None (written as 0) = never."""
Size = Annotated[int, BeforeValidator(parse_size)]
Count = Annotated[int, BeforeValidator(values.parse_count)]
UpstreamName = Annotated[str, AfterValidator(values.parse_upstream_name)]
HeaderNames = Annotated[tuple[str, ...], BeforeValidator(values.parse_header_names)]
OptionalPath = Annotated[Path | None, BeforeValidator(values.parse_optional_path)]

SESSION_HEADERS = (
    "llmgate-session",
    "x-claude-code-session-id",
    "x-deepseek-harness-session-id",
    "session-id",
    "session_id",
    "x-session-id",
    "x-session-affinity",
    "x-openwebui-chat-id",
    "x-litellm-session-id",
    "thread-id",
    "x-client-request-id",
)
PURPOSE_HEADERS = ("llmgate-purpose", "x-deepseek-harness-compact", "x-codex-turn-metadata")


class Section(BaseModel):
    """Base of all: frozen, no unknown key, no value in an error's text."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, strict=False)


class Cors(Section):
    """Pages in browsers that may ask."""

    origins: Annotated[tuple[str, ...], BeforeValidator(values.parse_web_origins)] = Field(
        default=(),
        description='Exact origins whose pages may ask, such as "https://chat.example.org"; [] = no other site\'s.',
        json_schema_extra=LIVE,
    )


class Server(Section):
    """The front door: where clients come in."""

    listen: Annotated[tuple[str, ...], BeforeValidator(values.parse_listens)] = Field(
        default=("127.0.0.1:8080",),
        description='Where clients connect: "host:port" (port 0 = a free one), "[::1]:port", "unix:/path", "fd:3".',
        json_schema_extra=RESTART,
    )
    allow_open: StrictBool = Field(
        default=False,
        description="Whether to listen beyond loopback without keys_file: then who reaches the port may use it.",
        json_schema_extra=RESTART,
    )
    keys_file: OptionalPath = Field(
        default=None,
        description='Path of the TOML file with the keys of clients, [keys.NAME]; "" = nobody is asked for a key.',
        json_schema_extra=LIVE,
    )
    tls_cert: OptionalPath = Field(
        default=None,
        description='Path of the PEM file with the certificate for TLS, and its chain; "" = plain HTTP.',
        json_schema_extra=LIVE,
    )
    tls_key: OptionalPath = Field(
        default=None,
        description='Path of the PEM file with the private key of tls_cert, not encrypted; "" = plain HTTP.',
        json_schema_extra=LIVE,
    )
    allowed_hosts: Annotated[tuple[str, ...], BeforeValidator(values.parse_host_names)] = Field(
        default=(),
        description='Host names that clients may ask under, beside addresses and localhost: "gpu", "*.lan", "*".',
        json_schema_extra=LIVE,
    )
    trusted_proxies: Annotated[tuple[str, ...], BeforeValidator(values.parse_networks)] = Field(
        default=(),
        description="Networks (CIDR) of proxies whose X-Forwarded-For says who asks.",
        json_schema_extra=LIVE,
    )
    path_prefix: Annotated[tuple[str, ...], BeforeValidator(values.parse_prefixes)] = Field(
        default=("/llm", ""),
        description='Path prefixes, under each of which every surface is served; "" = without a prefix.',
        json_schema_extra=RESTART,
    )
    default_upstream: Annotated[str, BeforeValidator(values.parse_text)] = Field(
        default="",
        description='The upstream for models that none lists; "" = refused, but for an only one without models.',
        json_schema_extra=LIVE,
    )
    max_body: Size = Field(
        default=64 << 20,
        description="Largest request body in bytes; a larger one is refused with BODY_TOO_LARGE.",
        json_schema_extra=LIVE,
    )
    max_held_bodies: Size = Field(
        default=1 << 30,
        description="Bytes of the bodies of all requests that are not answered yet; more is refused for the moment.",
        json_schema_extra=RESTART,
    )
    max_connections: Annotated[int, BeforeValidator(values.parse_positive_count)] = Field(
        default=20_000,
        description="Connections of clients at once; fewer where the limit on open files allows no more.",
        json_schema_extra=RESTART,
    )
    header_timeout: Clock = Field(
        default=10.0,
        description="Seconds for the first byte of a connection, and then for a request's whole head; 0 = no limit.",
        json_schema_extra=RESTART,
    )
    body_timeout: Clock = Field(
        default=60.0,
        description="Seconds in which a request's body must have arrived, else BODY_TIMEOUT; 0 = no limit.",
        json_schema_extra=LIVE,
    )
    client_stall_timeout: Clock = Field(
        default=60.0,
        description="Seconds after which a client of a running stream that reads nothing is cut; 0 = never.",
        json_schema_extra=LIVE,
    )
    drain_timeout: Duration = Field(
        default=300.0,
        description="Seconds that running requests get to end after SIGTERM; 0 = they are cut at once.",
        json_schema_extra=LIVE,
    )
    cors: Cors = Field(default=Cors(), description=Cors.__doc__, json_schema_extra=LIVE)


class Admin(Section):
    """The admin socket: where `llmgate status`, `top` and `ps` look in."""

    socket: Annotated[Path | None, BeforeValidator(values.parse_socket)] = Field(
        default=None,
        description='Path of the admin socket; "" = $XDG_RUNTIME_DIR/llmgate/admin.sock, as root in /run/llmgate.',
        json_schema_extra=RESTART,
    )
    mode: Annotated[int, BeforeValidator(parse_mode)] = Field(
        default=0o600,
        description='Permission bits of the admin socket in octal: "0600" = its owner only, "0660" = also its group.',
        json_schema_extra=RESTART,
    )
    group: Annotated[str, BeforeValidator(values.parse_text)] = Field(
        default="",
        description='Name or number of the group that the admin socket belongs to; "" = the daemon\'s own.',
        json_schema_extra=RESTART,
    )
    read_only_uids: Annotated[tuple[int, ...], BeforeValidator(values.parse_uids)] = Field(
        default=(),
        description="User ids that may look at the admin socket's state, but change nothing.",
        json_schema_extra=RESTART,
    )
    history: Count = Field(
        default=2000,
        description="Number of finished requests, and of events, that are kept in memory to be looked at.",
        json_schema_extra=RESTART,
    )


class Waiting(Section):
    """What a waiting client is told, and how often."""

    heartbeat: Annotated[float, BeforeValidator(values.parse_heartbeat)] = Field(
        default=4.0,
        description="Seconds between two signs of life on a stream on which nothing else is sent; at least 10ms.",
        json_schema_extra=LIVE,
    )
    openai_keepalive: Literal["comment", "chunk", "off"] = Field(
        default="comment",
        description='What OpenAI streams carry before the answer: "comment", "chunk" = empty chunks, "off" = nothing.',
        json_schema_extra=LIVE,
    )
    nonstream_keepalive: Literal["off", "whitespace"] = Field(
        default="off",
        description='What a whole answer begins with while it waits: "off" = nothing, or "whitespace" under a 200.',
        json_schema_extra=LIVE,
    )
    eta: StrictBool = Field(
        default=True,
        description="Whether a queue frame tells how long the wait will last: an estimate from the requests before it.",
        json_schema_extra=LIVE,
    )
    retry_after_max: Annotated[float, BeforeValidator(values.parse_retry_after)] = Field(
        default=10.0,
        description="Largest number of seconds in a Retry-After header, at least 1s; some clients give up beyond 10s.",
        json_schema_extra=LIVE,
    )


class Identify(Section):
    """Request headers that say who is asking; the first that is not empty counts."""

    session: HeaderNames = Field(
        default=SESSION_HEADERS,
        description="Names of the request headers that may hold the client's session, best first.",
        json_schema_extra=LIVE,
    )
    purpose: HeaderNames = Field(
        default=PURPOSE_HEADERS,
        description="Names of the request headers that may hold what the request is for, best first.",
        json_schema_extra=LIVE,
    )


class Log(Section):
    """The log, on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description='Least important lines that are written: "debug", "info", "warning" or "error".',
        json_schema_extra=LIVE,
    )
    format: Literal["auto", "text", "json"] = Field(
        default="auto",
        description='Form of a line: "text", "json", or "auto" = JSON in a container unless it goes to a terminal.',
        json_schema_extra=RESTART,
    )


class Metrics(Section):
    """Metrics for Prometheus, which the admin socket has in any case."""

    listen: Annotated[str, BeforeValidator(values.parse_metrics_listen)] = Field(
        default="",
        description='Where /metrics is served too: "main" = where clients come in, "host:port"; "" = nowhere.',
        json_schema_extra=RESTART,
    )
    model_label: StrictBool = Field(
        default=False,
        description="Whether counts are told apart by the model that was asked for as well: up to 200 names.",
        json_schema_extra=RESTART,
    )


class EndpointSettings(Section):
    """One of several servers that serve the same models behind one queue."""

    url: Annotated[str, BeforeValidator(values.parse_url)] = Field(
        description="Base URL of this server, http or https; its path is put in front of every request's path.",
        json_schema_extra=LIVE,
    )
    max_concurrent: Annotated[int | Literal["auto"], BeforeValidator(values.parse_endpoint_max_concurrent)] = Field(
        description='Requests at this server at once, at most, 1 or more; "auto" = as many slots as it says it has.',
        json_schema_extra=LIVE,
    )


def _required_unless_endpoints(instead: str) -> WrapValidator:
    """Without endpoints the key is missing, as any other that must be there; beside them, left out is `instead`."""

    def validate(value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        if value is not None and value != "":
            return handler(value)
        # Endpoints that were refused are not among the data: they are told, and that they stand there is enough here.
        if info.data.get("endpoints", ()) is None:
            raise PydanticKnownError("missing")
        return instead

    return WrapValidator(validate)


class UpstreamSettings(Section):
    """One upstream: a server, or several endpoints, and the one queue in front."""

    # First, since whether the next two may be left out depends on it.
    endpoints: Annotated[tuple[EndpointSettings, ...] | None, BeforeValidator(values.parse_endpoints)] = Field(
        default=None,
        description="Several servers of the same models instead of url, each a table of url and max_concurrent.",
        json_schema_extra=LIVE,
    )
    url: Annotated[str, BeforeValidator(values.parse_url), _required_unless_endpoints("")] = Field(
        default=None,
        validate_default=True,
        description="Base URL of the server, http or https; its path is put in front of every request's path.",
        json_schema_extra=LIVE,
    )
    kind: Kind = Field(
        default="auto",
        description='The server: "llama-server", "ollama", "vllm", "openai", "anthropic"; "auto" = it is asked.',
        json_schema_extra=LIVE,
    )
    models: Annotated[tuple[str, ...], BeforeValidator(values.parse_models)] = Field(
        default=(),
        description='Models served here, exact or with *, ? and [...]; "*" = the rest, [] = those it lists; alone all.',
        json_schema_extra=LIVE,
    )
    aliases: Annotated[dict[str, str], BeforeValidator(values.parse_aliases), AfterValidator(FrozenDict)] = Field(
        default=FrozenDict(),
        description="Further names for models: what a client may ask for = the model that the server is asked for.",
        json_schema_extra=LIVE,
    )
    max_concurrent: Annotated[
        int | Literal["auto"], BeforeValidator(values.parse_max_concurrent), _required_unless_endpoints("auto")
    ] = Field(
        default=None,
        validate_default=True,
        description='Requests at the server at once, at most (as its --parallel); "auto" = its slots, 0 = not gated.',
        json_schema_extra=LIVE,
    )
    max_queued: Annotated[int | None, BeforeValidator(values.parse_max_queued)] = Field(
        default=None,
        description='Requests that may wait, beyond which QUEUE_FULL; 0 = none may; "none" or left out = no limit.',
        json_schema_extra=LIVE,
    )
    queue_timeout: Clock = Field(
        default=None,
        description='Longest wait in seconds, then QUEUE_TIMEOUT; "none", 0 or left out = for ever.',
        json_schema_extra=LIVE,
    )
    queue_timeout_nonstream: Clock = Field(
        default=270.0,
        description="Longest wait in seconds without a stream, unless queue_timeout is shorter; 0 = no other limit.",
        json_schema_extra=LIVE,
    )
    on_down: Literal["hold", "fail"] = Field(
        default="hold",
        description='While no server takes a request: "hold" = who comes waits until one does, "fail" = is refused.',
        json_schema_extra=LIVE,
    )
    connect_timeout: Clock = Field(
        default=5.0,
        description="Seconds in which a connection to the server must stand, TLS included; 0 = no limit.",
        json_schema_extra=LIVE,
    )
    first_byte_timeout: Clock = Field(
        default=None,
        description="Seconds from dispatch to the answer's first byte, or to the last sign of its work; 0 = no limit.",
        json_schema_extra=LIVE,
    )
    idle_timeout: Clock = Field(
        default=None,
        description="Seconds that may pass between two pieces of an answer; 0 = no limit.",
        json_schema_extra=LIVE,
    )
    total_timeout: Clock = Field(
        default=None,
        description="Seconds that a request may take from dispatch to the end of its answer; 0 = no limit.",
        json_schema_extra=LIVE,
    )
    release_timeout: Duration = Field(
        default=1.0,
        description="Seconds from an early end to a free slot; to an alarm only, where the server tells its slots.",
        json_schema_extra=LIVE,
    )
    stall_alarm: Clock = Field(
        default=600.0,
        description="Seconds in which no slot fell free although somebody waits, then an alarm is raised; 0 = none.",
        json_schema_extra=LIVE,
    )
    force_stream: StrictBool = Field(
        default=True,
        description="Whether the server is always asked for a stream: then who leaves frees the slot at once.",
        json_schema_extra=LIVE,
    )
    transport: Literal["native", "httpx"] = Field(
        default="native",
        description='HTTP client towards the server: "native" = our own, fast; "httpx" = the well-known library.',
        json_schema_extra=LIVE,
    )
    passthrough: StrictBool = Field(
        default=False,
        description="Whether /upstream/NAME/... leads to every path of the server, those that manage it included.",
        json_schema_extra=LIVE,
    )
    reasoning_history: Literal["drop", "reasoning_content"] = Field(
        default="drop",
        description='Earlier thinking, translated for a server that speaks chat only: "drop" or "reasoning_content".',
        json_schema_extra=LIVE,
    )
    server_tools: Literal["reject", "drop"] = Field(
        default="reject",
        description='Tools that only Anthropic runs, asked of a server that speaks chat only: "reject" or "drop".',
        json_schema_extra=LIVE,
    )
    api_key_env: Annotated[str, BeforeValidator(values.parse_variable)] = Field(
        default="",
        description='Name of the environment variable that holds the key to send to the server; "" = none.',
        json_schema_extra=LIVE,
    )
    api_key_file: OptionalPath = Field(
        default=None,
        description='Path of the file that holds the key to send to the server; "" = none.',
        json_schema_extra=LIVE,
    )
    forward_auth: StrictBool = Field(
        default=False,
        description="Whether the client's own key is passed on to the server.",
        json_schema_extra=LIVE,
    )
    headers: Annotated[dict[str, SecretStr], BeforeValidator(values.parse_headers), AfterValidator(FrozenDict)] = Field(
        default=FrozenDict(),
        description="Headers that are added to every request to the server; their values are never shown.",
        json_schema_extra=LIVE,
    )
    ca_file: OptionalPath = Field(
        default=None,
        description='Path of a PEM file with the certificates to trust for https; "" = those of the system.',
        json_schema_extra=LIVE,
    )

    @property
    def all_endpoints(self) -> tuple[EndpointSettings, ...]:
        """Every server of this upstream, at least one; a single `url` is one endpoint with the upstream's own limit.

        max_concurrent is 0 there if the upstream is not gated. The upstream's own is the bound on all together:
        with `endpoints`, "auto" is no bound beyond their sum.
        """
        if self.endpoints is not None:
            return self.endpoints
        # Not validated: no endpoint of a file may be 0.
        return (EndpointSettings.model_construct(url=self.url, max_concurrent=self.max_concurrent),)

    @property
    def display_url(self) -> str:
        """The URL, or those of all endpoints, for people to read."""
        return ", ".join(endpoint.url for endpoint in self.all_endpoints)

    @property
    def nonstream_queue_timeout(self) -> float | None:
        """Longest wait in seconds of a request that does not stream: the smaller of the two; None = for ever."""
        limits = [limit for limit in (self.queue_timeout, self.queue_timeout_nonstream) if limit is not None]
        return min(limits, default=None)


class Settings(Section):
    """All settings of one daemon."""

    server: Server = Field(default=Server(), description=Server.__doc__)
    admin: Admin = Field(default=Admin(), description=Admin.__doc__)
    waiting: Waiting = Field(default=Waiting(), description=Waiting.__doc__)
    identify: Identify = Field(default=Identify(), description=Identify.__doc__)
    log: Log = Field(default=Log(), description=Log.__doc__)
    metrics: Metrics = Field(default=Metrics(), description=Metrics.__doc__)
    upstreams: Annotated[dict[UpstreamName, UpstreamSettings], AfterValidator(FrozenDict)] = Field(
        default=FrozenDict(),
        description="The upstreams by name: letters, digits, dot, dash and underscore.",
        json_schema_extra=LIVE,
    )


def tables() -> dict[tuple[str, ...], type[Section]]:
    """Every table of fixed keys by its path, "server" and "server.cors", but for the upstreams'."""
    found: dict[tuple[str, ...], type[Section]] = {}

    def add(path: tuple[str, ...], model: type[Section]) -> None:
        if path:
            found[path] = model
        for key, field in model.model_fields.items():
            if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
                add((*path, key), field.annotation)

    add((), Settings)
    return found
