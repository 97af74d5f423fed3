"""Builds the gate and the servers of each upstream from its settings.

An endpoint goes by a name of its own: the first one of an upstream by the upstream's, the others by it with "#2", "#3".
"""

import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

from llmgate.config.settings import Settings, UpstreamSettings
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


def make_gate(name: str, settings: UpstreamSettings) -> Gate:
    """The queue in front of its endpoints. An only one has no limit of its own beside the gate's."""
    caps = [
        UNKNOWN_SLOTS if endpoint.max_concurrent == "auto" else endpoint.max_concurrent
        for endpoint in settings.all_endpoints
    ]
    if settings.endpoints is None:
        caps = [0]
    names = endpoint_names(name, settings)
    return Gate(name, limits_of(settings), dict(zip(names, caps, strict=True)), holds=settings.on_down == "hold")


def make_upstreams(settings: Settings, api_keys: Mapping[str, str]) -> dict[str, Upstream]:
    """Every server by the name of its endpoint; `api_keys` by that of the upstream."""
    return {
        endpoint: make_upstream(endpoint, upstream, url.url, api_keys.get(name, ""))
        for name, upstream in settings.upstreams.items()
        for endpoint, url in zip(endpoint_names(name, upstream), upstream.all_endpoints, strict=True)
    }


def make_upstream(name: str, settings: UpstreamSettings, url: str, api_key: str) -> Upstream:
    """One server with its transport."""
    timeouts = Timeouts(
        connect=settings.connect_timeout,
        first_byte=settings.first_byte_timeout,
        idle=settings.idle_timeout,
        total=settings.total_timeout,
    )
    return Upstream(
        name,
        _make_transport(settings, url),
        base_path=urlsplit(url).path,
        timeouts=timeouts,
        headers=[(key.encode(), value.get_secret_value().encode()) for key, value in settings.headers.items()],
        api_key=api_key,
        forward_auth=settings.forward_auth,
        kind=settings.kind,
    )


def _make_transport(settings: UpstreamSettings, url: str) -> Transport:
    context = ssl.create_default_context(cafile=settings.ca_file) if url.startswith("https:") else None
    if settings.transport == "httpx":
        return StockTransport(url, ssl_context=context)
    return WireTransport(url, ssl_context=context)
