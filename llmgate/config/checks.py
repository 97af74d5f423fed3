"""What settings that are each allowed may not be together, and what is allowed but probably not meant."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from llmgate.config.listen import parse_listen, points_at
from llmgate.config.problems import Path, Problem
from llmgate.config.settings import Settings, UpstreamSettings


def find_problems(settings: Settings) -> list[Problem]:
    """Everything that makes these settings unusable, in the order of the settings."""
    return [
        *_open_listens(settings),
        *_default_upstream(settings),
        *(problem for name, upstream in settings.upstreams.items() for problem in _upstream(settings, name, upstream)),
        *_names_taken_twice(settings),
    ]


def find_oddities(settings: Settings) -> list[Problem]:
    """What does not hinder, but should be told once."""
    single = [problem for name, upstream in settings.upstreams.items() for problem in _oddities(name, upstream)]
    return [*single, *_servers_named_twice(settings)]


def _open_listens(settings: Settings) -> Iterator[Problem]:
    for text in settings.server.listen if not settings.server.allow_open else ():
        if not parse_listen(text).is_local:
            yield Problem(
                ("server", "listen"),
                f"has {text}, which others than this machine may reach, and llmgate asks for no key: "
                "listen on 127.0.0.1 or a Unix socket, or, if a firewall or a proxy keeps strangers out, "
                "say allow_open = true in [server], or LLMGATE_SERVER__ALLOW_OPEN=true in the environment",
            )


def _default_upstream(settings: Settings) -> Iterator[Problem]:
    name = settings.server.default_upstream
    if name and name not in settings.upstreams:
        known = ", ".join(settings.upstreams) or "none"
        yield Problem(("server", "default_upstream"), f"must be the name of an upstream; there are: {known}")


def _upstream(settings: Settings, name: str, upstream: UpstreamSettings) -> Iterator[Problem]:
    path: Path = ("upstreams", name)
    if any(points_at(urlsplit(upstream.url), parse_listen(text)) for text in settings.server.listen):
        yield Problem((*path, "url"), "points at llmgate itself (server.listen): requests would go round for ever")
    if upstream.api_key_env and upstream.api_key_file:
        yield Problem((*path, "api_key_file"), "must not be set together with api_key_env: there can be one key")


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
    for name, upstream in settings.upstreams.items():
        owner = owners.setdefault(_server(upstream.url), name)
        if owner != name:
            yield Problem(
                ("upstreams", name, "url"),
                f"leads where that of {owner} does: upstreams {owner} and {name} are the same server, "
                "each has its own queue, so together they may exceed its slots",
            )


def _server(url: str) -> tuple[str, int, str]:
    """Host, port and path, each in the one form that all of its spellings have."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return "127.0.0.1" if host == "localhost" else host, port, parts.path.rstrip("/")


def _oddities(name: str, upstream: UpstreamSettings) -> Iterator[Problem]:
    path: Path = ("upstreams", name)
    has_key = bool(upstream.api_key_env or upstream.api_key_file)
    if upstream.forward_auth and has_key:
        yield Problem((*path, "forward_auth"), "passes the client's own key on, so this upstream's key is not used")
    if has_key and {"authorization", "x-api-key"} & upstream.headers.keys():
        yield Problem((*path, "headers"), "has a header that holds a key, beside this upstream's key")
    if urlsplit(upstream.url).path.endswith("/v1"):
        yield Problem(
            (*path, "url"),
            "ends with /v1, which every path of a request begins with, so requests go to .../v1/v1/messages: "
            "leave it out",
        )
    if upstream.ca_file and upstream.url.startswith("http:"):
        yield Problem((*path, "ca_file"), "is not used, since the URL is not https")
