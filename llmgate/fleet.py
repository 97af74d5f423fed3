"""Builds the gate and the servers of each upstream from its settings.

An endpoint goes by a name of its own: the first one of an upstream by the upstream's, the others by it with "#2", "#3".
"""

import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

from llmgate.config.settings import Settings, UpstreamSettings
from llmgate.core.account import Account
from llmgate.core.events import Limits
from llmgate.core.gate import Gate
from llmgate.upstreams.answer import Timeouts, Transport
from llmgate.upstreams.stock import StockTransport
from llmgate.upstreams.transport import WireTransport
from llmgate.upstreams.upstream import Upstream

UNKNOWN_SLOTS = 1
"""What "auto" is until the server told its own count, and where it tells none."""


def endpoint_names(name: str, settings: UpstreamSettings) -> list[str]:
    """The names of its endpoints, in the order of the settings."""
    return [name if number == 1 else f"{name}#{number}" for number in range(1, len(settings.all_endpoints) + 1)]


def owners_of(settings: Settings) -> dict[str, str]:
    """The upstream of each endpoint, by the endpoint's name."""
    return {
        endpoint: name for name, upstream in settings.upstreams.items() for endpoint in endpoint_names(name, upstream)
    }


def limits_of(settings: UpstreamSettings, slots: int | None = None) -> Limits:
    """The gate's limits; `slots` is what an only server told of itself, if it did."""
    cap = settings.max_concurrent
    if cap == "auto":
        cap = 0 if settings.endpoints is not None else slots or UNKNOWN_SLOTS
    return Limits(cap, settings.max_queued, settings.queue_timeout, settings.stall_alarm)


def make_gate(name: str, settings: UpstreamSettings, accounts: Mapping[str, Account] | None = None) -> Gate:
    """The queue in front of its endpoints. An only one has no limit of its own beside the gate's. `accounts` of its
    servers, by the names of the endpoints."""
    caps = [
        UNKNOWN_SLOTS if endpoint.max_concurrent == "auto" else endpoint.max_concurrent
        for endpoint in settings.all_endpoints
    ]
    if settings.endpoints is None:
        caps = [0]
    names = endpoint_names(name, settings)
    endpoints = dict(zip(names, caps, strict=True))
    return Gate(name, limits_of(settings), endpoints, holds=settings.on_down == "hold", accounts=accounts)


def make_upstreams(settings: Settings, api_keys: Mapping[str, str]) -> dict[str, Upstream]:
    """Every server by the name of its endpoint; `api_keys` by that of the upstream."""
    return {
        endpoint: make_upstream(endpoint, upstream, url.url, api_keys.get(name, ""))
        for name, upstream in settings.upstreams.items()
        for endpoint, url in zip(endpoint_names(name, upstream), upstream.all_endpoints, strict=True)
    }


def make_contexts(settings: Settings) -> dict[str, ssl.SSLContext]:
    """What each upstream with a server of https checks certificates with, by its name. It reads files, so it may block.
    Raises OSError where a certificate cannot be read."""
    return {
        name: ssl.create_default_context(cafile=upstream.ca_file)
        for name, upstream in settings.upstreams.items()
        if any(endpoint.url.startswith("https:") for endpoint in upstream.all_endpoints)
    }


def make_upstream(
    name: str, settings: UpstreamSettings, url: str, api_key: str, context: ssl.SSLContext | None = None
) -> Upstream:
    """One server with its transport. `context` is what checks the certificate of one of https; None: it is made."""
    timeouts = Timeouts(
        connect=settings.connect_timeout,
        first_byte=settings.first_byte_timeout,
        idle=settings.idle_timeout,
        total=settings.total_timeout,
    )
    return Upstream(
        name,
        _make_transport(settings, url, context),
        base_path=urlsplit(url).path,
        timeouts=timeouts,
        headers=[(key.encode(), value.get_secret_value().encode()) for key, value in settings.headers.items()],
        api_key=api_key,
        forward_auth=settings.forward_auth,
        kind=settings.kind,
    )


def _make_transport(settings: UpstreamSettings, url: str, context: ssl.SSLContext | None) -> Transport:
    if not url.startswith("https:"):
        context = None
    elif context is None:
        context = ssl.create_default_context(cafile=settings.ca_file)
    if settings.transport == "httpx":
        return StockTransport(url, ssl_context=context)
    return WireTransport(url, ssl_context=context)
