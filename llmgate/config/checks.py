"""What settings that are each allowed may not be together, and what is allowed but probably not meant."""

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from llmgate.config.listen import Listen, parse_listen, points_at
from llmgate.config.problems import Path, Problem
from llmgate.config.settings import Settings, UpstreamSettings

_OPEN = (
    "which others than this machine may reach, and no key is asked: "
    "listen on 127.0.0.1 or a Unix socket, or name the keys of your clients with keys_file in [server], "
    "or, if a firewall or a proxy keeps strangers out, "
    "say allow_open = true in [server], or LLMGATE_SERVER__ALLOW_OPEN=true in the environment"
)


def find_problems(settings: Settings) -> list[Problem]:
    """Everything that makes these settings unusable, in the order of the settings."""
    return [
        *_open_listens(settings),
        *_half_a_certificate(settings),
        *_default_upstream(settings),
        *_group(settings),
        *(problem for name, upstream in settings.upstreams.items() for problem in _upstream(settings, name, upstream)),
        *_names_taken_twice(settings),
    ]


def find_passed_problems(settings: Settings, passed: Mapping[str, Listen]) -> list[Problem]:
    """As `find_problems`, for the addresses of sockets that were passed to us, by what each is called: fd:3."""
    opened = [
        Problem(("socket",), f"{name} is {listen}, {_OPEN}")
        for name, listen in passed.items()
        if not listen.is_local and not _may_be_open(settings)
    ]
    loops = [
        Problem(place, f"points at llmgate itself ({name}): requests would go round for ever")
        for upstream_name, upstream in settings.upstreams.items()
        for place, url in _urls(upstream_name, upstream)
        for name, listen in passed.items()
        if points_at(urlsplit(url), listen)
    ]
    return [*opened, *loops]


def find_oddities(settings: Settings) -> list[Problem]:
    """What does not hinder, but should be told once."""
    single = [problem for name, upstream in settings.upstreams.items() for problem in _oddities(name, upstream)]
    return [*single, *_idle_certificate(settings), *_stopped_keys(settings), *_servers_named_twice(settings)]


def _stopped_keys(settings: Settings) -> Iterator[Problem]:
    for name, upstream in settings.upstreams.items():
        if upstream.forward_auth and settings.server.keys_file is not None:
            yield Problem(
                ("upstreams", name, "forward_auth"),
                "passes nothing on, since with server.keys_file the keys of clients are ours and stay here: "
                "name this upstream's key with api_key_env or api_key_file",
            )


def _open_listens(settings: Settings) -> Iterator[Problem]:
    for text in settings.server.listen if not _may_be_open(settings) else ():
        listen = parse_listen(text)
        if listen.fd is None and not listen.is_local:
            yield Problem(("server", "listen"), f"has {text}, {_OPEN}")


def _may_be_open(settings: Settings) -> bool:
    return settings.server.allow_open or settings.server.keys_file is not None


def _half_a_certificate(settings: Settings) -> Iterator[Problem]:
    server = settings.server
    if server.tls_cert is not None and server.tls_key is None:
        yield Problem(("server", "tls_cert"), "needs tls_key too, the file of its private key (which may be the same)")
    if server.tls_key is not None and server.tls_cert is None:
        yield Problem(("server", "tls_key"), "needs tls_cert too, the file of its certificate (which may be the same)")


def _idle_certificate(settings: Settings) -> Iterator[Problem]:
    if settings.server.tls_cert is not None and all(text.startswith("unix:") for text in settings.server.listen):
        yield Problem(("server", "tls_cert"), "is not used, since listen has Unix sockets only, which speak plain HTTP")


def _group(settings: Settings) -> Iterator[Problem]:
    if settings.admin.group and settings.admin.mode == 0o600:
        yield Problem(("admin", "group"), 'is let in only with mode = "0660" in [admin]')


def _default_upstream(settings: Settings) -> Iterator[Problem]:
    name = settings.server.default_upstream
    if name and name not in settings.upstreams:
        known = ", ".join(settings.upstreams) or "none"
        yield Problem(("server", "default_upstream"), f"must be the name of an upstream; there are: {known}")


def _upstream(settings: Settings, name: str, upstream: UpstreamSettings) -> Iterator[Problem]:
    path: Path = ("upstreams", name)
    listens = [parse_listen(text) for text in settings.server.listen]
    for place, url in _urls(name, upstream):
        if any(points_at(urlsplit(url), listen) for listen in listens):
            yield Problem(place, "points at llmgate itself (server.listen): requests would go round for ever")
    yield from _endpoints(name, upstream)
    if upstream.api_key_env and upstream.api_key_file:
        yield Problem((*path, "api_key_file"), "must not be set together with api_key_env: there can be one key")


def _endpoints(name: str, upstream: UpstreamSettings) -> Iterator[Problem]:
    """Where an upstream has several endpoints: there is no other server, and each is another one."""
    path: Path = ("upstreams", name)
    if upstream.endpoints is None:
        return
    if upstream.url:
        yield Problem((*path, "url"), "must not be set together with endpoints: one of them says where the servers are")
    if upstream.max_concurrent == 0:
        yield Problem(
            (*path, "max_concurrent"),
            "must not be 0 (not gated), since each of the endpoints has its own limit: leave it out",
        )
    first: dict[tuple[str, int, str], int] = {}
    for index, endpoint in enumerate(upstream.endpoints):
        owner = first.setdefault(server_of(endpoint.url), index)
        if owner != index:
            yield Problem(
                (*path, "endpoints", index, "url"), f"leads where that of endpoints[{owner}] does: leave it out"
            )


def _urls(name: str, upstream: UpstreamSettings) -> Iterator[tuple[Path, str]]:
    """Every URL of an upstream, and what leads to it in the settings."""
    if upstream.url:
        yield ("upstreams", name, "url"), upstream.url
    for index, endpoint in enumerate(upstream.endpoints or ()):
        yield ("upstreams", name, "endpoints", index, "url"), endpoint.url


def _names_taken_twice(settings: Settings) -> Iterator[Problem]:
    """Names that two upstreams have: it would depend on their order who gets the request."""
    owners: dict[str, str] = {}
    for name, upstream in settings.upstreams.items():
        for key in ("models", "aliases"):
            for model in getattr(upstream, key):
                owner = owners.setdefault(model, name)
                if owner != name:
                    yield Problem(("upstreams", name, key), f'has "{model}", which upstreams.{owner} has too')


def _servers_named_twice(settings: Settings) -> Iterator[Problem]:
    owners: dict[tuple[str, int, str], str] = {}
    places = [(name, *found) for name, upstream in settings.upstreams.items() for found in _urls(name, upstream)]
    for name, place, url in places:
        owner = owners.setdefault(server_of(url), name)
        if owner != name:
            yield Problem(
                place,
                f"leads where that of {owner} does: upstreams {owner} and {name} have the same server, "
                "each has its own queue, so together they may exceed its slots",
            )


def server_of(url: str) -> tuple[str, int, str]:
    """Which server a URL leads to: host, port and path, each in the one form that all of its spellings have."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return "127.0.0.1" if host == "localhost" else host, port, parts.path.rstrip("/")


def _oddities(name: str, upstream: UpstreamSettings) -> Iterator[Problem]:
    path: Path = ("upstreams", name)
    yield from _idle_bound(path, upstream)
    has_key = bool(upstream.api_key_env or upstream.api_key_file)
    if upstream.forward_auth and has_key:
        yield Problem((*path, "forward_auth"), "passes the client's own key on, so this upstream's key is not used")
    if has_key and {"authorization", "x-api-key"} & upstream.headers.keys():
        yield Problem((*path, "headers"), "has a header that holds a key, beside this upstream's key")
    for place, url in _urls(name, upstream):
        if urlsplit(url).path.endswith("/v1"):
            yield Problem(
                place,
                "ends with /v1, which every path of a request begins with, so requests go to .../v1/v1/messages: "
                "leave it out",
            )
    if upstream.ca_file and not any(url.startswith("https:") for _, url in _urls(name, upstream)):
        yield Problem((*path, "ca_file"), "is not used, since no URL is https")


def _idle_bound(path: Path, upstream: UpstreamSettings) -> Iterator[Problem]:
    counts = [endpoint.max_concurrent for endpoint in upstream.endpoints or ()]
    told = [count for count in counts if count != "auto"]
    if (
        counts
        and len(told) == len(counts)
        and upstream.max_concurrent != "auto"
        and upstream.max_concurrent > sum(told)
    ):
        yield Problem((*path, "max_concurrent"), "is more than the endpoints take together, so it bounds nothing")
